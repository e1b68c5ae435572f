// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/family.h"

#include <set>

namespace moonlit::reference {
namespace {

using Names = std::set<std::string>;

const Names kNeighbours = {"internlm2", "llama", "granite",   "granitemoe", "smollm3", "arcee",
                           "ernie4_5",  "olmo",  "command-r", "cohere2",    "glm4"};
const Names kUnrotated = {"gpt2", "starcoder", "bloom", "mpt", "bert"};
const Names kLayerNorms = {"olmo",     "stablelm",  "phi2",    "gpt2",   "gptneox", "starcoder", "starcoder2",
                           "nemotron", "command-r", "cohere2", "falcon", "bloom",   "mpt",       "bert"};
const Names kGelu = {"gptneox", "falcon", "mpt", "bert"};
const Names kGeluTanh = {"phi2", "gpt2", "starcoder", "starcoder2", "gemma", "gemma2", "gemma3", "gemma4", "bloom"};
const Names kReluSquared = {"arcee", "nemotron", "bitnet-b1.58"};
const Names kParallel = {"phi2", "command-r", "cohere2"};

}  // namespace

Family FamilyOf(const std::string& name, const Metadata& metadata, const WeightSource& source) {
  const auto number = [&](const char* suffix) {
    const auto value = metadata.GetUint(name + "." + suffix);
    return value.ok() ? static_cast<size_t>(value.value()) : 0;
  };
  Family f;
  f.encoder = name == "bert";
  f.layer_norms = kLayerNorms.contains(name);
  f.bare_norms = name == "olmo";
  if (kNeighbours.contains(name)) f.pairs = Rotation::kNeighbours;
  if (kUnrotated.contains(name)) f.pairs = Rotation::kNone;
  if (kGelu.contains(name)) f.curve = Curve::kGelu;
  if (kGeluTanh.contains(name)) f.curve = Curve::kGeluTanh;
  if (kReluSquared.contains(name)) f.curve = Curve::kReluSquared;
  f.parallel = kParallel.contains(name);
  if (name == "gptneox") f.parallel = metadata.GetBool("gptneox.use_parallel_residual").value();
  if (name == "stablelm" || name == "falcon") f.parallel = source.Find("blk.0.ffn_norm.weight") == nullptr;
  f.normalise_experts = name != "qwen2moe" && name != "olmoe";
  f.multiplies_logits = name == "command-r" || name == "cohere2";
  if (name == "seed_oss") {
    f.network_norm = "post_attention_norm";
    f.added_norm = "-";
  }
  if (source.Find("blk.0.attn_norm_2.weight") != nullptr) {
    f.attention_norm = "attn_norm_2";
    f.network_norm = "attn_norm";
  }
  if (name == "falcon" && metadata.Has("falcon.attention.max_alibi_bias")) {
    f.alibi = metadata.GetFloat("falcon.attention.max_alibi_bias").value();
    f.pairs = Rotation::kNone;
    f.scaled_alibi = true;
  }
  f.global_pairs = f.pairs;
  f.window = number("attention.sliding_window");
  if (name == "smollm3" || name == "cohere2" || (f.window != 0 && name != "phi3")) f.period = 4;
  if (name == "gemma2") f.period = 2;
  if (name == "gemma3") f.period = 6;
  if (name == "gemma3" || name == "gemma4") f.local_base = metadata.GetFloat(name + ".rope.freq_base_swa").value();
  if (metadata.IsArray(name + ".attention.sliding_window_pattern"))
    f.pattern = metadata.GetInts(name + ".attention.sliding_window_pattern").value();
  f.local_head = number("attention.key_length_swa");
  f.unscaled_scores = f.value_norms = name == "gemma4";
  if (name == "bloom") f.alibi = 8;
  if (name == "mpt") f.alibi = metadata.GetFloat("mpt.attention.max_alibi_bias").value();
  f.scaled_embedding = name.starts_with("gemma");
  if (f.period == 4 && f.pattern.empty()) f.global_pairs = Rotation::kNone;
  return f;
}

}  // namespace moonlit::reference
