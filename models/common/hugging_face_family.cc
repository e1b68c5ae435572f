// SPDX-License-Identifier: Apache-2.0
#include "models/common/hugging_face_family.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "models/common/gemma_scale.h"

namespace moonlit {
namespace {

void NoKeys(HuggingFaceConfig&, const std::string&, MetadataMap&) {}

// What llama.cpp's converter writes for the family where the config stretches RoPE in no way; what the config says stays.
void SetPlainRopeType(const std::string& prefix, const char* type, MetadataMap& metadata) {
  const std::string key = prefix + "rope.scaling.type";
  if (!metadata.Has(key)) metadata.Set(key, std::string(type));
}

// What they say where the kind of RoPE is LongRoPE. Phi-3's files have the numbers without the type.
void LongRopeKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  const double factor = config.LongRopeMagnitude();
  if (factor <= 0) return;
  metadata.Set(prefix + "rope.scaling.type", std::string("longrope"));
  metadata.Set(prefix + "rope.scaling.original_context_length", config.OriginalContext());
  metadata.Set(prefix + "rope.scaling.attn_factor", static_cast<float>(factor));
}

void LlamaKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "vocab_size", config.Count("vocab_size"));
  metadata.Set(prefix + "rope.dimension_count", config.HeadDim());
  LongRopeKeys(config, prefix, metadata);
}

// One for all layers, or none. transformers' window has the token itself and sliding_window - 1 before it, as GGUF's.
void WindowKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  const bool windowed = config.Has("sliding_window");
  if (windowed) metadata.Set(prefix + "attention.sliding_window", config.Count("sliding_window"));
  for (const bool layer : config.WindowedLayers()) {
    if (layer != windowed) return config.Refuse("layer_types", "layers that are all alike");
  }
}

void MistralKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  LlamaKeys(config, prefix, metadata);
  WindowKeys(config, prefix, metadata);
}

void SmolLm3Keys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  LlamaKeys(config, prefix, metadata);
  config.Expect("no_rope_layer_interval", "4");
  if (!config.Has("no_rope_layers")) return;
  std::string usual = "[";
  const uint32_t layers = config.Layers();
  for (uint32_t layer = 1; layer <= layers; ++layer)
    usual += std::string(layer > 1 ? "," : "") + (layer % 4 != 0 ? "1" : "0");
  config.Expect("no_rope_layers", usual + "]");
}

void QwenMoeKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "expert_feed_forward_length", config.Count("moe_intermediate_size"));
  if (config.Has("shared_expert_intermediate_size"))
    metadata.Set(prefix + "expert_shared_feed_forward_length", config.Count("shared_expert_intermediate_size"));
}

void GraniteKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  LlamaKeys(config, prefix, metadata);
  const auto copy = [&](const char* from, const char* to) {
    if (config.Has(from)) metadata.Set(prefix + to, config.Number(from));
  };
  copy("attention_multiplier", "attention.scale");
  copy("embedding_multiplier", "embedding_scale");
  copy("residual_multiplier", "residual_scale");
  copy("logits_scaling", "logit_scale");
}

// The window, and a flag a layer.
void SetWindowedLayers(HuggingFaceConfig& config, const std::string& prefix, uint32_t period, MetadataMap& metadata) {
  metadata.Set(prefix + "attention.sliding_window", config.Count("sliding_window"));
  metadata.Set(prefix + "attention.sliding_window_pattern", config.WindowedLayers(period));
}

void GemmaKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  // All but every sixth (second) layer see a window: GGUF has flags only where it is otherwise.
  const uint32_t usual = prefix == "gemma3." ? 6 : 2;
  const std::vector<bool> windowed = config.WindowedLayers(usual);
  for (size_t layer = 0; layer < windowed.size(); ++layer) {
    if (windowed[layer] != ((layer + 1) % usual != 0))
      metadata.Set(prefix + "attention.sliding_window_pattern", windowed);
  }
  metadata.Set(prefix + "attention.sliding_window", config.Count("sliding_window"));
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (config.Has(cap)) metadata.Set(prefix + cap, config.Number(cap));
  }
  const bool largest = config.Layers() == (usual == 2 ? kLayersOfLargestGemma2 : kLayersOfLargestGemma3);
  const double by_width = double{1} * config.Count("hidden_size") / config.Count("num_attention_heads");
  config.ExpectNumber("query_pre_attn_scalar", largest ? by_width : config.HeadDim());
}

// Its class has no such field, but its attention reads one.
void OlmoeKeys(HuggingFaceConfig& config, const std::string&, MetadataMap&) { config.Expect("sliding_window", "null"); }

void ArceeKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  LlamaKeys(config, prefix, metadata);
  config.Expect("hidden_act", R"("relu2")");
}

// Its norms have no weights, and their epsilon is a constant of its code.
void OlmoKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "attention.layer_norm_epsilon", 1e-5f);
  if (config.Has("clip_qkv")) metadata.Set(prefix + "attention.clamp_kqv", config.Number("clip_qkv"));
}

void StableLmKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "rope.dimension_count", config.RotaryDim(0.25));
  metadata.Set(prefix + "use_parallel_residual", config.Flag("use_parallel_residual", false));
}

void StarCoder2Keys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  config.Expect("hidden_act", R"("gelu_pytorch_tanh")");
  WindowKeys(config, prefix, metadata);
}

void CohereKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "logit_scale", config.Number("logit_scale"));
  SetPlainRopeType(prefix, "none", metadata);
}

void Cohere2Keys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  CohereKeys(config, prefix, metadata);
  LlamaKeys(config, prefix, metadata);
  metadata.Set(prefix + "attention.sliding_window", config.Count("sliding_window"));
  config.ExpectLayerPeriod(4);
}

void Glm4Keys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "rope.dimension_count", config.RotaryDim(0.5));
}

// Three of four layers of the 32B have a window; the smaller ones have none.
void Exaone4Keys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "vocab_size", config.Count("vocab_size"));
  if (config.Has("sliding_window")) SetWindowedLayers(config, prefix, 4, metadata);
}

void Olmo3Keys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  SetWindowedLayers(config, prefix, 4, metadata);
}

void PhiKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  Glm4Keys(config, prefix, metadata);
  config.Expect("hidden_act", R"("gelu_new")");
  config.Expect("qk_layernorm", "false");
}

void Phi3Keys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  // Its class knows LongRoPE alone, which files of its first days call "yarn", too.
  if (metadata.Has(prefix + "rope.scaling.type"))
    config.Refuse(config.Has("rope_parameters") ? "rope_parameters" : "rope_scaling", "longrope for this architecture");
  metadata.Set(prefix + "rope.scaling.original_context_length", config.OriginalContext());
  metadata.Set(prefix + "rope.dimension_count", config.RotaryDim(1.0));
  metadata.Set(prefix + "attention.sliding_window",
               config.Has("sliding_window") ? config.Count("sliding_window") : uint32_t{0});
  if (const double factor = config.LongRopeMagnitude(); factor > 0)
    metadata.Set(prefix + "rope.scaling.attn_factor", static_cast<float>(factor));
}

// Rotation and norms less 1 are the family's; both epsilons are what llama.cpp's converter writes.
void NemotronKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "vocab_size", config.Count("vocab_size"));
  metadata.Set(prefix + "attention.layer_norm_rms_epsilon", config.Number("norm_eps"));
  metadata.Set(prefix + "rope.dimension_count", config.RotaryDim(0.5));
  SetPlainRopeType(prefix, "none", metadata);
  config.Expect("hidden_act", R"("relu2")");
}

void BitNetKeys(HuggingFaceConfig&, const std::string& prefix, MetadataMap& metadata) {
  SetPlainRopeType(prefix, "linear", metadata);
  if (const std::string factor = prefix + "rope.scaling.factor"; !metadata.Has(factor)) metadata.Set(factor, 1.0f);
}

// Heads of global layers are larger; the last layers read the keys and values of earlier ones, and may have wider networks.
void Gemma4Keys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  SetWindowedLayers(config, prefix, 6, metadata);
  for (const char* refused : {"attention_k_eq_v", "enable_moe_block"}) config.Expect(refused, "false");
  config.Expect("num_global_key_value_heads", "null");
  config.Expect("vocab_size_per_layer_input", std::to_string(config.Count("vocab_size")));
  const uint32_t head = config.Count("global_head_dim"), local_head = config.Count("head_dim");
  for (const char* key : {"attention.key_length", "attention.value_length", "rope.dimension_count"}) {
    metadata.Set(prefix + key, head);
    metadata.Set(prefix + key + "_swa", local_head);
  }
  if (config.Has("final_logit_softcapping"))
    metadata.Set(prefix + "final_logit_softcapping", config.Number("final_logit_softcapping"));
  const uint32_t layers = config.Layers();
  const uint32_t sharing = config.CountOrNone("num_kv_shared_layers");
  metadata.Set(prefix + "attention.shared_kv_layers", sharing);
  metadata.Set(prefix + "embedding_length_per_layer_input", config.CountOrNone("hidden_size_per_layer_input"));
  if (!config.Flag("use_double_wide_mlp", false)) return;
  std::vector<int32_t> widths;
  const auto width = static_cast<int32_t>(std::min<uint32_t>(config.Count("intermediate_size"), INT32_MAX / 2));
  for (uint32_t layer = 0; layer < layers; ++layer) widths.push_back(layer + sharing < layers ? width : 2 * width);
  metadata.Set(prefix + "feed_forward_length", std::move(widths));
}

void Gpt2Keys(HuggingFaceConfig& config, const std::string&, MetadataMap&) {
  config.Expect("hidden_act", R"("gelu_new")");
  config.Expect("scale_attn_weights", "true");
  config.Expect("scale_attn_by_inverse_layer_idx", "false");
  config.Expect("add_cross_attention", "false");
}

void StarCoderKeys(HuggingFaceConfig& config, const std::string&, MetadataMap&) {
  config.Expect("hidden_act", R"("gelu_pytorch_tanh")");
  config.Expect("scale_attn_weights", "true");
  config.Expect("add_cross_attention", "false");
}

void GptNeoXKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  config.Expect("hidden_act", R"("gelu")");
  metadata.Set(prefix + "rope.dimension_count", config.RotaryDim(0.25));
  metadata.Set(prefix + "use_parallel_residual", config.Flag("use_parallel_residual", true));
}

// ALiBi reads texts of any length; where the config says none, llama.cpp's converter takes the width.
void BloomKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "context_length", config.Count(config.Has("seq_length") ? "seq_length" : "hidden_size"));
  config.Expect("apply_residual_connection_post_layernorm", "false");
}

void FalconKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  const char* context = "max_position_embeddings";
  metadata.Set(prefix + "context_length", config.Has(context) ? config.Count(context) : uint32_t{2048});
  metadata.Set(prefix + "tensor_data_layout", std::string("jploski"));
  config.Expect("hidden_act", R"("gelu")");
  // transformers rounds the biases to bfloat16 on their way, which changes them from position 256 on; here they are as the paper has them.
  if (config.Flag("alibi", false)) metadata.Set(prefix + "attention.max_alibi_bias", 8.0f);
  if (config.Flag("new_decoder_architecture", false)) config.Expect("parallel_attn", "true");
}

void MptKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  const bool alibi = config.Flag("attn_config.alibi", true);
  const char* bias = "attn_config.alibi_bias_max";
  metadata.Set(prefix + "attention.max_alibi_bias", !alibi ? 0.0f : config.Has(bias) ? config.Number(bias) : 8.0f);
  if (!config.Has("layer_norm_eps")) metadata.Set(prefix + "attention.layer_norm_epsilon", 1e-5f);
  if (config.Has("attn_config.clip_qkv"))
    metadata.Set(prefix + "attention.clamp_kqv", config.Number("attn_config.clip_qkv"));
  for (const char* field : {"attn_config.softmax_scale", "logit_scale"}) config.Expect(field, "null");
  for (const char* field : {"attn_config.qk_ln", "attn_config.qk_gn", "attn_config.prefix_lm", "attn_config.rope"})
    config.Expect(field, "false");
  config.Expect("attn_config.sliding_window_size", "-1");
}

void BertKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  config.Expect("hidden_act", R"("gelu")");
  config.Expect("position_embedding_type", R"("absolute")");
  for (const char* field : {"is_decoder", "add_cross_attention"}) config.Expect(field, "false");
  metadata.Set(prefix + "attention.causal", false);
  metadata.Set("tokenizer.ggml.token_type_count", config.Count("type_vocab_size"));
}

const Family kFamilies[] = {
#define MOONLIT_HUGGING_FACE(class_name, model_type, architecture, rules, keys, ...) \
  {class_name, model_type, architecture, rules, keys, __VA_ARGS__},
#include "models/common/hugging_face_families.inc"
#undef MOONLIT_HUGGING_FACE
};

// Tells more of what an unknown architecture would need than its name does.
std::string UnknownKinds(const std::vector<std::string>& names) {
  std::set<std::string> known;
  const auto add = [&](std::span<const NameRule> rules) {
    for (const NameRule& rule : rules) known.insert(TensorKind(rule.from));
  };
  add(kUsualRules);
  for (const Family& family : kFamilies) add(family.rules);
  std::map<std::string, std::string> unknown;
  for (const std::string& name : names) {
    if (const std::string kind = TensorKind(name); known.count(kind) == 0) unknown.emplace(kind, kind);
  }
  return unknown.empty() ? "" : "; it has tensors that none of these has: " + ListKinds(unknown);
}

}  // namespace

std::string TensorKind(std::string_view name) {
  std::string kind;
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('.', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    kind += number || part == "*" ? "%" : std::string(part);
    if (end < name.size()) kind += '.';
    at = end + 1;
  }
  return kind;
}

std::string ListKinds(const std::map<std::string, std::string>& first_of_kind) {
  constexpr size_t kListed = 8;
  std::string listed;
  size_t count = 0;
  for (const auto& [kind, name] : first_of_kind) {
    if (count++ < kListed) listed += (listed.empty() ? "\"" : ", \"") + name.substr(0, 100) + "\"";
  }
  return count > kListed ? listed + " and " + std::to_string(count - kListed) + " more" : listed;
}

Result<const Family*> FindFamily(HuggingFaceConfig& config, const std::vector<std::string>& names) {
  const std::string wanted = config.ClassName(), type = config.ModelType();
  std::string known;
  for (const Family& family : kFamilies) {
    const bool named = wanted.empty() ? type == family.model_type : wanted == family.class_name;
    const bool squared = !config.Has("hidden_act") || config.Is("hidden_act", "relu2");
    if (named && ((family.flags & kReluSquared) == 0 || squared)) return &family;
    if (known.ends_with(family.class_name)) continue;
    known += (known.empty() ? "" : ", ") + std::string(family.class_name);
  }
  return Errorf(Code::kUnsupported,
                "config.json: architecture \"%s\" is not one whose folder this build can read (%s)%s",
                (wanted.empty() ? type : wanted).substr(0, 100).c_str(), known.c_str(), UnknownKinds(names).c_str());
}

}  // namespace moonlit
