// SPDX-License-Identifier: Apache-2.0
// `moonlit doctor`: what this machine is, which kernels it gets and why. One of the commands that may look below the API.
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "kernels/attention/attention.h"
#include "kernels/cpu/features.h"
#include "kernels/cpu/variant.h"
#include "kernels/matmul/matmul.h"
#include "runtime/api/find_model.h"
#include "runtime/api/moonlit.h"
#include "runtime/decode/engine.h"
#include "runtime/exec/float_provider.h"
#include "runtime/threads/topology.h"
#include "runtime/xnnpack/float_product.h"
#include "tools/cli/command.h"
#include "tools/cli/model_flags.h"
#include "tools/cli/versions.h"

namespace moonlit::cli {
namespace {

struct FeatureName {
  Feature feature;
  const char* name;
};
constexpr FeatureName kFeatureNames[] = {
    {kSse41, "sse4.1"},
    {kAvx2, "avx2"},
    {kAvxVnni, "avx-vnni"},
    {kAvx512, "avx512"},
    {kAvx512Vnni, "avx512-vnni"},
    {kAvx512Bf16, "avx512-bf16"},
    {kNeon, "neon"},
    {kDotprod, "dotprod"},
    {kI8mm, "i8mm"},
    {kBf16, "bf16"},
};

std::string FeatureNames(FeatureMask mask) {
  std::string names;
  for (const FeatureName& f : kFeatureNames) {
    if ((mask & f.feature) != 0) names += (names.empty() ? "" : " ") + std::string(f.name);
  }
  return names.empty() ? "none" : names;
}

// The processor's name: "model name" on x86, else the board's name from the device tree.
std::string CpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return line.substr(line.find(": ") + 2);
  }
  std::ifstream board("/proc/device-tree/model");
  std::string name;
  std::getline(board, name, '\0');
  return name.empty() ? "unknown" : name;
}

class Doctor : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    app.add_flag("--kernels", kernels_, "Also list the chosen product kernel of every format");
  }

  int Run() override {
    utsname system = {};
    uname(&system);
    const FeatureMask features = CpuFeatures();
    std::printf("moonlit    %s\n", moonlit_version());
    std::printf("system     %s %s, %s\n", system.sysname, system.release, system.machine);
    std::printf("cpu        %s\n", CpuName().c_str());
    std::printf("features   %s\n", FeatureNames(features).c_str());
    const Result<Variant> variant = ResolveVariant("");
    if (!variant.ok()) {
      std::fprintf(stderr, "moonlit: %s\n", std::string(variant.status().message()).c_str());
      return kUsage;
    }
    const Result<FloatProviderChoice> floats = ResolveFloatProvider("");
    if (!floats.ok()) {
      std::fprintf(stderr, "moonlit: %s\n", std::string(floats.status().message()).c_str());
      return kUsage;
    }
    PrintVariants(features, variant.value());
    PrintFloatProvider(variant.value(), floats.value());
    std::printf("cache      %s by default\n", CacheTypeName(DefaultCacheType(variant.value())));
    const ThreadDefault threads = DefaultThreadCount(ReadTopology());
    std::printf("threads    %zu: %s\n", threads.threads, threads.reason.c_str());
    PrintMemory();
    PrintModels();
    const char* between = "libraries  ";
    for (const LibraryVersion& library : kLibraryVersions) {
      std::printf("%s%s %s", between, library.name, library.version);
      between = "; ";
    }
    std::printf("\n");
    if (kernels_) PrintKernels(variant.value());
    return kOk;
  }

 private:
  static void PrintVariants(FeatureMask features, Variant chosen) {
    size_t count = 0;
    const Variant* built = BuiltVariants(&count);
    std::printf("variant    %s\nbuilt     ", VariantName(chosen));
    for (size_t i = 0; i < count; ++i) {
      std::printf(" %s%s", VariantName(built[i]), CanRun(built[i], features) ? "" : " (not on this CPU)");
    }
    std::printf("\n");
  }

  // Who multiplies with F32 weights, and whether XNNPACK could.
  static void PrintFloatProvider(Variant variant, FloatProviderChoice choice) {
    const Status xnnpack = FloatProduct::Available();
    std::printf("xnnpack    %s\n", xnnpack.ok() ? "offered: its rows have the same bits alone and among others"
                                                : std::string(xnnpack.message()).c_str());
    if (choice != FloatProviderChoice::kTable) {
      std::printf("f32        %s for all weights (MOONLIT_FLOAT_PROVIDER)\n",
                  choice == FloatProviderChoice::kOwn ? "own kernels" : "xnnpack");
      return;
    }
    for (const FloatProviderRow& row : FloatProviderTable()) {
      if (row.variant != variant) continue;
      std::printf("f32        xnnpack for %zu to %zu outputs of %zu to %zu inputs: %s\n", row.least_outputs,
                  row.most_outputs, row.least_inputs, row.most_inputs, row.reason);
    }
    std::printf("f32        own kernels for all other weights, by the table of this variant\n");
  }

  static void PrintMemory() {
    std::ifstream info("/proc/meminfo");
    std::ifstream huge("/sys/kernel/mm/transparent_hugepage/enabled");
    std::string line, total, available, pages;
    while (std::getline(info, line)) {
      if (line.rfind("MemTotal:", 0) == 0) total = line.substr(line.find_first_not_of(' ', 9));
      if (line.rfind("MemAvailable:", 0) == 0) available = line.substr(line.find_first_not_of(' ', 13));
    }
    std::getline(huge, pages);
    std::printf("memory     %s, %s available; transparent huge pages: %s\n", total.c_str(), available.c_str(),
                pages.empty() ? "unknown" : pages.c_str());
  }

  // The names that -m knows besides poet.
  static void PrintModels() {
    const std::string folder = ModelsFolder();
    if (folder.empty()) return;
    std::vector<std::string> names;
    std::error_code unreadable;
    for (const auto& entry : std::filesystem::directory_iterator(folder, unreadable)) {
      if (entry.path().extension() == ".gguf") names.push_back(entry.path().stem().string());
    }
    std::sort(names.begin(), names.end());
    std::printf("models     %s:", folder.c_str());
    for (const std::string& name : names) std::printf(" %s", Printable(name).c_str());
    std::printf("%s\n", names.empty() ? " none (tools/models/fetch_smollm2.py brings one)" : "");
  }

  static void PrintKernels(Variant variant) {
    for (Format format : kAllFormats) {
      const ProductKernel& kernel = GetProductKernel(variant, format);
      std::printf("product    %-7s %s\n", Traits(format).name, kernel.name);
    }
  }

  bool kernels_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeDoctor() { return std::make_unique<Doctor>(); }

}  // namespace moonlit::cli
