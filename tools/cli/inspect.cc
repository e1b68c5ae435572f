// SPDX-License-Identifier: Apache-2.0
// `moonlit inspect FILE`: what stands in a GGUF file. Reads below the API, since a file that no model can use is worth a look too.
#include <cinttypes>
#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "models/poet/poet.h"
#include "runtime/api/find_model.h"
#include "runtime/api/moonlit.hpp"
#include "runtime/base/log.h"
#include "runtime/gguf/gguf.h"
#include "tools/cli/inspect_plan.h"
#include "tools/cli/model_flags.h"

namespace moonlit::cli {
namespace {

std::string Dimensions(const GgufTensor& tensor) {
  std::string text = "[";
  for (size_t i = 0; i < tensor.rank; ++i) text += (i == 0 ? "" : ", ") + std::to_string(tensor.dims[i]);
  return text + "]";
}

class Inspect : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    app.add_option(
        "file,-m,--model", file_,
        "GGUF file, poet or a name such as smollm2; with --plan also a Hugging Face folder; with or without -m");
    app.add_flag("--no-tensors", no_tensors_, "Metadata only");
    app.add_option("--elements", elements_, "Elements of an array to show")->capture_default_str();
    plan_.Declare(app);
  }

  int Run() override {
    if (file_.empty()) {
      std::fprintf(stderr, "moonlit: which model? Give a GGUF file, poet or a name such as smollm2\n");
      return kUsage;
    }
    if (plan_.wanted()) return plan_.Run(file_);
    if (file_ == "poet") {
      const Result<std::string> poet = FindPoet();
      if (!poet.ok()) return Report({MOONLIT_NOT_FOUND, std::string(poet.status().message())});
      file_ = poet.value();
    }
    const Result<std::string> found = FindModel(file_);
    if (!found.ok()) return Report({MOONLIT_NOT_FOUND, std::string(found.status().message())});
    Log log([](LogLevel level, const char* text) { PrintLog(nullptr, static_cast<moonlit_log_level>(level), text); });
    const LogScope scope(&log);
    const Result<GgufFile> opened = GgufFile::Open(found.value());
    if (!opened.ok()) {
      return Report({static_cast<moonlit_code>(opened.status().code()), std::string(opened.status().message())});
    }
    const GgufFile& file = opened.value();
    std::printf(
        "file       %s\nformat     GGUF v%u, %" PRIu64 " bytes, alignment %" PRIu64 ", tensor data at %" PRIu64 "\n",
        Printable(file.path()).c_str(), file.version(), file.file_bytes(), file.alignment(), file.data_offset());
    std::printf("\nmetadata   %zu keys\n", file.values().size());
    for (const GgufValue& value : file.values()) {
      std::printf("  %-48s %s\n", Printable(value.key).c_str(), file.Describe(value, elements_).c_str());
    }
    PrintTensors(file);
    return kOk;
  }

 private:
  void PrintTensors(const GgufFile& file) const {
    struct Total {
      uint64_t tensors = 0, bytes = 0;
    };
    std::map<std::string, Total> totals;
    uint64_t parameters = 0;
    std::printf("\ntensors    %zu, dimensions outermost first\n", file.tensors().size());
    for (const GgufTensor& tensor : file.tensors()) {
      uint64_t elements = 1;
      for (size_t i = 0; i < tensor.rank; ++i) elements *= tensor.dims[i];
      parameters += elements;
      Total& total = totals[tensor.type->name];
      ++total.tensors;
      total.bytes += tensor.bytes;
      if (no_tensors_) continue;
      std::printf("  %-40s %-8s %-20s %12" PRIu64 " bytes at %" PRIu64 "%s\n", Printable(tensor.name).c_str(),
                  tensor.type->name, Dimensions(tensor).c_str(), tensor.bytes, tensor.offset,
                  tensor.type->supported ? "" : "  (type not supported)");
    }
    std::printf("\ntotal      %" PRIu64 " parameters\n", parameters);
    for (const auto& [name, total] : totals) {
      std::printf("  %-8s %6" PRIu64 " tensors %14" PRIu64 " bytes\n", name.c_str(), total.tensors, total.bytes);
    }
  }

  std::string file_;
  bool no_tensors_ = false;
  size_t elements_ = 8;
  MemoryPlanFlags plan_;
};

}  // namespace

std::unique_ptr<Command> MakeInspect() { return std::make_unique<Inspect>(); }

}  // namespace moonlit::cli
