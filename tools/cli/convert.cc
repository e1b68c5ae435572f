// SPDX-License-Identifier: Apache-2.0
// `moonlit convert FOLDER -o OUT`.
#include <memory>
#include <string>

#include "tools/cli/model_flags.h"
#include "tools/cli/write_flags.h"

namespace moonlit::cli {
namespace {

class Convert : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    app.add_option("folder", folder_, "Hugging Face folder: config.json, *.safetensors, tokenizer.json")
        ->required()
        ->check(CLI::ExistingDirectory);
    app.add_option("-o,--output", out_, "GGUF file to write: it appears complete or not at all")
        ->required()
        ->check(IsNotEmpty());
    app.add_option(
           "--type", flags_.type,
           "F32, F16, BF16, Q8_0 or any other type of moonlit quantize; the type of the folder's weights without it")
        ->check(IsNotEmpty());
    app.add_option("--pre", pre_,
                   "Pre-tokenizer by name (qwen2, llama-bpe, ...), where tokenizer.json's is not recognised")
        ->check(IsNotEmpty());
    flags_.Declare(app);
  }

  int Run() override {
    moonlit_write_options options = flags_.ToOptions();
    options.pre_tokenizer = pre_.empty() ? nullptr : pre_.c_str();
    return RunWrite("converting", out_, options,
                    [this](const moonlit_write_options* options, moonlit_write_result* result, moonlit_error* error) {
                      return moonlit_convert(folder_.c_str(), out_.c_str(), options, result, error);
                    });
  }

 private:
  std::string folder_, out_, pre_;
  WriteFlags flags_;
};

}  // namespace

std::unique_ptr<Command> MakeConvert() { return std::make_unique<Convert>(); }

}  // namespace moonlit::cli
