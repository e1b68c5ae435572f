// SPDX-License-Identifier: Apache-2.0
// `moonlit quantize IN OUT TYPE`.
#include <memory>
#include <string>

#include "tools/cli/write_flags.h"

namespace moonlit::cli {
namespace {

class Quantize : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    app.add_option("in", in_, "GGUF file (any part of a split one), in F32, F16 or BF16")->required();
    app.add_option("out", out_, "File to write: it appears complete or not at all")->required();
    app.add_option(
           "type", flags_.type,
           "Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q2_K_S, Q3_K_S, Q3_K_M, Q3_K_L, Q4_K_S, Q4_K_M, Q5_K_S, Q5_K_M, "
           "Q6_K, IQ4_NL, IQ4_XS, MXFP4, MXFP4_MOE, F16, BF16 or F32; tensor by tensor as llama-quantize does")
        ->required();
    flags_.Declare(app);
    app.add_flag("--allow-requantize", allow_requantize_,
                 "Also from quantized weights, which loses precision twice: F32, F16 or BF16 is better to start from");
  }

  int Run() override {
    moonlit_write_options options = flags_.ToOptions();
    options.allow_requantize = allow_requantize_ ? 1 : 0;
    return RunWrite("quantizing", out_, options,
                    [this](const moonlit_write_options* options, moonlit_write_result* result, moonlit_error* error) {
                      return moonlit_quantize(in_.c_str(), out_.c_str(), options, result, error);
                    });
  }

 private:
  std::string in_, out_;
  WriteFlags flags_;
  bool allow_requantize_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeQuantize() { return std::make_unique<Quantize>(); }

}  // namespace moonlit::cli
