// SPDX-License-Identifier: Apache-2.0
#include "models/registry.h"

#include <algorithm>

#include "models/arch/architecture.h"

namespace moonlit {

// The list. A new architecture: its file in models/arch/, its line here, its golden.
// clang-format off
#define MOONLIT_ARCHITECTURES(entry) \
  entry(kArcee) \
  entry(kBert) \
  entry(kBitNet) entry(kBitNetB158) \
  entry(kBloom) \
  entry(kCommandR) entry(kCohere2) \
  entry(kErnie45) \
  entry(kExaone4) \
  entry(kFalcon) \
  entry(kGemma) entry(kGemma2) entry(kGemma3) entry(kGemma4) \
  entry(kGlm4) \
  entry(kGpt2) \
  entry(kGptNeoX) \
  entry(kGranite) entry(kGraniteMoe) \
  entry(kInternLm2) \
  entry(kLlama) \
  entry(kMpt) \
  entry(kNemotron) \
  entry(kOlmo) entry(kOlmo2) \
  entry(kOlmoe) \
  entry(kPhi2) entry(kPhi3) \
  entry(kQwen2) entry(kQwen2Moe) entry(kQwen3) entry(kQwen3Moe) \
  entry(kSeedOss) \
  entry(kSmolLm3) \
  entry(kStableLm) \
  entry(kStarCoder) entry(kStarCoder2)
// clang-format on

#define MOONLIT_DECLARE(name) extern const Architecture name;
MOONLIT_ARCHITECTURES(MOONLIT_DECLARE)
#undef MOONLIT_DECLARE

namespace {

#define MOONLIT_POINTER(name) &name,
const Architecture* const kArchitectures[] = {MOONLIT_ARCHITECTURES(MOONLIT_POINTER)};
#undef MOONLIT_POINTER

Result<const Architecture*> FindArchitecture(const std::string& name) {
  std::string known;
  for (const Architecture* architecture : kArchitectures) {
    if (name == architecture->name) return architecture;
  }
  for (const std::string& supported : SupportedArchitectures()) known += (known.empty() ? "" : ", ") + supported;
  return Errorf(Code::kUnsupported, "architecture \"%s\" is not one that this build can run (%s)", name.c_str(),
                known.c_str());
}

}  // namespace

std::vector<std::string> SupportedArchitectures() {
  std::vector<std::string> names;
  for (const Architecture* architecture : kArchitectures) names.push_back(architecture->name);
  std::sort(names.begin(), names.end());
  return names;
}

Result<LoadedGraph> LoadGraph(const Metadata& metadata, const WeightSource& source) {
  MOONLIT_ASSIGN_OR_RETURN(const std::string name, metadata.GetString("general.architecture"));
  MOONLIT_ASSIGN_OR_RETURN(const Architecture* architecture, FindArchitecture(name));
  LoadedGraph loaded;
  MOONLIT_ASSIGN_OR_RETURN(loaded.config, architecture->read_config(metadata, source));
  WeightBinder bind(source, name, &loaded.graph);
  architecture->build_graph(loaded.config, bind, loaded.graph);
  MOONLIT_RETURN_IF_ERROR(bind.status());
  MOONLIT_RETURN_IF_ERROR(loaded.graph.Finish());
  loaded.unused_tensors = bind.Unused();
  // Other tensors that nothing uses change nothing; RoPE without its divisors would be another model.
  for (const std::string& unused : loaded.unused_tensors) {
    if (!unused.starts_with("rope_")) continue;
    return Errorf(Code::kUnsupported,
                  "tensor %s: the model divides the frequencies of RoPE, which this build can't do for architecture %s",
                  unused.substr(0, 60).c_str(), name.c_str());
  }
  return loaded;
}

}  // namespace moonlit
