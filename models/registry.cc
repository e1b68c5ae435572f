// SPDX-License-Identifier: Apache-2.0
#include "models/registry.h"

#include <algorithm>
#include <set>
#include <string_view>

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

// What the tensors of these architectures are called, without layer and ".weight".
// clang-format off
constexpr std::string_view kTensorKinds[] = {
    "attn_k", "attn_k_norm", "attn_norm", "attn_norm_2", "attn_output", "attn_output_norm", "attn_q", "attn_q_norm",
    "attn_qkv", "attn_sub_norm", "attn_v", "ffn_down", "ffn_down_exps", "ffn_down_shexp", "ffn_gate",
    "ffn_gate_exps", "ffn_gate_inp", "ffn_gate_inp_shexp", "ffn_gate_shexp", "ffn_norm", "ffn_sub_norm", "ffn_up",
    "ffn_up_exps", "ffn_up_shexp", "inp_gate", "layer_output_norm", "layer_output_scale", "output", "output_norm",
    "per_layer_model_proj", "per_layer_proj_norm", "per_layer_token_embd", "position_embd", "post_attention_norm",
    "post_ffw_norm", "post_norm", "proj", "rope_factors_long", "rope_factors_short", "rope_freqs", "token_embd",
    "token_embd_norm", "token_types"};
// clang-format on

std::string_view TensorKind(std::string_view name) {
  const size_t dot = name.starts_with("blk.") ? name.find('.', 4) : name.npos;
  const std::string_view rest = dot == name.npos ? name : name.substr(dot + 1);
  return rest.substr(0, rest.find('.'));
}

// Tells more of what an unknown architecture would need than its name does.
std::string UnknownKinds(const WeightSource& source) {
  constexpr size_t kListed = 8;
  std::set<std::string_view> unknown;
  for (const TensorInfo* tensor : source.All()) {
    const std::string_view kind = TensorKind(tensor->name);
    if (std::find(std::begin(kTensorKinds), std::end(kTensorKinds), kind) == std::end(kTensorKinds))
      unknown.insert(kind);
  }
  if (unknown.empty()) return "";
  std::string listed;
  size_t count = 0;
  for (const std::string_view kind : unknown) {
    if (count++ < kListed) listed += (listed.empty() ? "" : ", ") + std::string(kind.substr(0, 40));
  }
  if (count > kListed) listed += " and " + std::to_string(count - kListed) + " more";
  return "; it has tensors that none of these has: " + listed;
}

Result<const Architecture*> FindArchitecture(const std::string& name, const WeightSource& source) {
  std::string known;
  for (const Architecture* architecture : kArchitectures) {
    if (name == architecture->name) return architecture;
  }
  for (const std::string& supported : SupportedArchitectures()) known += (known.empty() ? "" : ", ") + supported;
  return Errorf(Code::kUnsupported, "architecture \"%s\" is not one that this build can run (%s)%s", name.c_str(),
                known.c_str(), UnknownKinds(source).c_str());
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
  MOONLIT_ASSIGN_OR_RETURN(const Architecture* architecture, FindArchitecture(name, source));
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
