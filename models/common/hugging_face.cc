// SPDX-License-Identifier: Apache-2.0
#include "models/common/hugging_face.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <string_view>

#include "models/common/hugging_face_config.h"

namespace moonlit {
namespace {

constexpr uint32_t kMostLayers = 1024;  // what a config asks for beyond is refused where layers are counted

enum FamilyFlags : unsigned {
  kPlainFamily = 0,
  kRotaryRows = 1,         // GGUF's rows of q and k are those of neighbouring pairs
  kNormalisedExperts = 2,  // the experts' weights are divided by their sum
  kNormsLessOne = 4,       // norms are multiplied by 1 + weight
  kTanhGelu = 8,           // instead of SiLU
  kLayerNorms = 16,        // instead of RMS norms
  kPartialRotary = 32,     // the keys say how much of a head turns
  kOwnActivation = 64,     // the keys check which it is
  kWindows = 128,          // the keys say which layers see a window
};

// % stands for the number of a layer, * for that of an expert.
struct NameRule {
  const char* from;
  const char* to;  // several rules may take one tensor apart
  RowOrder order = RowOrder::kSame;
};

constexpr NameRule kUsualRules[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.weight", "output_norm.weight"},
    {"lm_head.weight", "output.weight"},
    {"model.layers.%.input_layernorm.weight", "blk.%.attn_norm.weight"},
    {"model.layers.%.self_attn.q_proj.weight", "blk.%.attn_q.weight", RowOrder::kRotary},
    {"model.layers.%.self_attn.q_proj.bias", "blk.%.attn_q.bias", RowOrder::kRotary},
    {"model.layers.%.self_attn.k_proj.weight", "blk.%.attn_k.weight", RowOrder::kRotary},
    {"model.layers.%.self_attn.k_proj.bias", "blk.%.attn_k.bias", RowOrder::kRotary},
    {"model.layers.%.self_attn.v_proj.weight", "blk.%.attn_v.weight"},
    {"model.layers.%.self_attn.v_proj.bias", "blk.%.attn_v.bias"},
    {"model.layers.%.self_attn.o_proj.weight", "blk.%.attn_output.weight"},
    {"model.layers.%.self_attn.o_proj.bias", "blk.%.attn_output.bias"},
    {"model.layers.%.self_attn.q_norm.weight", "blk.%.attn_q_norm.weight"},
    {"model.layers.%.self_attn.k_norm.weight", "blk.%.attn_k_norm.weight"},
    {"model.layers.%.post_attention_layernorm.weight", "blk.%.ffn_norm.weight"},
    {"model.norm.bias", "output_norm.bias"},
    {"model.layers.%.input_layernorm.bias", "blk.%.attn_norm.bias"},
    {"model.layers.%.post_attention_layernorm.bias", "blk.%.ffn_norm.bias"},
    {"model.layers.%.mlp.gate_proj.weight", "blk.%.ffn_gate.weight"},
    {"model.layers.%.mlp.up_proj.weight", "blk.%.ffn_up.weight"},
    {"model.layers.%.mlp.down_proj.weight", "blk.%.ffn_down.weight"},
    {"model.layers.%.mlp.gate.weight", "blk.%.ffn_gate_inp.weight"},
    {"model.layers.%.mlp.experts.*.gate_proj.weight", "blk.%.ffn_gate_exps.weight"},
    {"model.layers.%.mlp.experts.*.up_proj.weight", "blk.%.ffn_up_exps.weight"},
    {"model.layers.%.mlp.experts.*.down_proj.weight", "blk.%.ffn_down_exps.weight"},
    {"model.layers.%.mlp.shared_expert.gate_proj.weight", "blk.%.ffn_gate_shexp.weight"},
    {"model.layers.%.mlp.shared_expert.up_proj.weight", "blk.%.ffn_up_shexp.weight"},
    {"model.layers.%.mlp.shared_expert.down_proj.weight", "blk.%.ffn_down_shexp.weight"},
    {"model.layers.%.mlp.shared_expert_gate.weight", "blk.%.ffn_gate_inp_shexp.weight"},
};
constexpr std::span<const NameRule> kNoRules;
constexpr NameRule kMixtralRules[] = {
    {"model.layers.%.block_sparse_moe.gate.weight", "blk.%.ffn_gate_inp.weight"},
    {"model.layers.%.block_sparse_moe.experts.*.w1.weight", "blk.%.ffn_gate_exps.weight"},
    {"model.layers.%.block_sparse_moe.experts.*.w2.weight", "blk.%.ffn_down_exps.weight"},
    {"model.layers.%.block_sparse_moe.experts.*.w3.weight", "blk.%.ffn_up_exps.weight"},
};
constexpr NameRule kGraniteMoeRules[] = {
    {"model.layers.%.block_sparse_moe.router.layer.weight", "blk.%.ffn_gate_inp.weight"},
    {"model.layers.%.block_sparse_moe.input_linear.weight", "blk.%.ffn_gate_exps.weight", RowOrder::kFirstHalf},
    {"model.layers.%.block_sparse_moe.input_linear.weight", "blk.%.ffn_up_exps.weight", RowOrder::kSecondHalf},
    {"model.layers.%.block_sparse_moe.output_linear.weight", "blk.%.ffn_down_exps.weight"},
};
// Norms of what a block adds, not of what it reads.
constexpr NameRule kPostNormRules[] = {
    {"model.layers.%.post_attention_layernorm.weight", "blk.%.post_attention_norm.weight"},
    {"model.layers.%.post_feedforward_layernorm.weight", "blk.%.post_ffw_norm.weight"},
};
// Both.
constexpr NameRule kFourNormRules[] = {
    {"model.layers.%.post_attention_layernorm.weight", "blk.%.post_attention_norm.weight"},
    {"model.layers.%.pre_feedforward_layernorm.weight", "blk.%.ffn_norm.weight"},
    {"model.layers.%.post_feedforward_layernorm.weight", "blk.%.post_ffw_norm.weight"},
};
constexpr NameRule kFusedRules[] = {
    {"model.layers.%.self_attn.qkv_proj.weight", "blk.%.attn_qkv.weight"},
    {"model.layers.%.mlp.gate_up_proj.weight", "blk.%.ffn_up.weight"},
};
constexpr NameRule kGlm4Rules[] = {
    {"model.layers.%.post_self_attn_layernorm.weight", "blk.%.post_attention_norm.weight"},
    {"model.layers.%.post_mlp_layernorm.weight", "blk.%.post_ffw_norm.weight"},
    {"model.layers.%.mlp.gate_up_proj.weight", "blk.%.ffn_up.weight"},
};
constexpr NameRule kSeedOssRules[] = {
    {"model.layers.%.post_attention_layernorm.weight", "blk.%.post_attention_norm.weight"},
};
constexpr NameRule kStarCoder2Rules[] = {
    {"model.layers.%.mlp.c_fc.weight", "blk.%.ffn_up.weight"},
    {"model.layers.%.mlp.c_fc.bias", "blk.%.ffn_up.bias"},
    {"model.layers.%.mlp.c_proj.weight", "blk.%.ffn_down.weight"},
    {"model.layers.%.mlp.c_proj.bias", "blk.%.ffn_down.bias"},
};
constexpr NameRule kPhiRules[] = {
    {"model.final_layernorm.weight", "output_norm.weight"},
    {"model.final_layernorm.bias", "output_norm.bias"},
    {"lm_head.bias", "output.bias"},
    {"model.layers.%.self_attn.dense.weight", "blk.%.attn_output.weight"},
    {"model.layers.%.self_attn.dense.bias", "blk.%.attn_output.bias"},
    {"model.layers.%.mlp.fc1.weight", "blk.%.ffn_up.weight"},
    {"model.layers.%.mlp.fc1.bias", "blk.%.ffn_up.bias"},
    {"model.layers.%.mlp.fc2.weight", "blk.%.ffn_down.weight"},
    {"model.layers.%.mlp.fc2.bias", "blk.%.ffn_down.bias"},
};
// Tables that can be computed, which old checkpoints carry along.
constexpr const char* kIgnored[] = {".rotary_emb.inv_freq", ".attn.bias", ".masked_bias", ".rotary_emb.cos_cached",
                                    ".rotary_emb.sin_cached"};

void NoKeys(HuggingFaceConfig&, const std::string&, MetadataMap&) {}

void LlamaKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "vocab_size", config.Count("vocab_size"));
  metadata.Set(prefix + "rope.dimension_count", config.HeadDim());
}

// transformers' window has the token itself and sliding_window - 1 before it, as GGUF's.
void MistralKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  LlamaKeys(config, prefix, metadata);
  const bool windowed = config.Has("sliding_window");
  if (windowed) metadata.Set(prefix + "attention.sliding_window", config.Count("sliding_window"));
  for (const bool layer : config.WindowedLayers()) {
    if (layer != windowed) return config.Refuse("layer_types", "layers that are all alike");
  }
}

void SmolLm3Keys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  LlamaKeys(config, prefix, metadata);
  config.Expect("no_rope_layer_interval", 4);
  if (!config.Has("no_rope_layers")) return;
  nlohmann::json usual = nlohmann::json::array();
  for (uint32_t layer = 1; layer <= std::min(config.Count("num_hidden_layers"), kMostLayers); ++layer)
    usual.push_back(layer % 4 != 0 ? 1 : 0);
  config.Expect("no_rope_layers", usual);
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

// All but every `usual`-th layer see a window, unless the config says otherwise; then GGUF has a flag a layer.
void SetWindowedLayers(HuggingFaceConfig& config, const std::string& prefix, uint32_t usual, MetadataMap& metadata) {
  uint32_t period = usual;
  for (const char* field : {"_sliding_window_pattern", "sliding_window_pattern"}) {
    if (config.Has(field)) period = config.Count(field);
  }
  const std::vector<bool> stated = config.WindowedLayers();
  const uint32_t layers = std::min(config.Count("num_hidden_layers"), kMostLayers);
  std::vector<int32_t> flags;
  bool differs = false;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const bool windowed = layer < stated.size() ? stated[layer] : (layer + 1) % period != 0;
    flags.push_back(windowed ? 1 : 0);
    differs |= windowed != ((layer + 1) % usual != 0);
  }
  if (differs) metadata.Set(prefix + "attention.sliding_window_pattern", std::move(flags));
}

void GemmaKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  SetWindowedLayers(config, prefix, prefix == "gemma3." ? 6 : 2, metadata);
  metadata.Set(prefix + "attention.sliding_window", config.Count("sliding_window"));
  for (const char* cap : {"attn_logit_softcapping", "final_logit_softcapping"}) {
    if (config.Has(cap)) metadata.Set(prefix + cap, config.Number(cap));
  }
  config.Expect("query_pre_attn_scalar", config.HeadDim());
}

void ArceeKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  LlamaKeys(config, prefix, metadata);
  config.Expect("hidden_act", "relu2");
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

void StarCoder2Keys(HuggingFaceConfig& config, const std::string&, MetadataMap&) {
  config.Expect("hidden_act", "gelu_pytorch_tanh");
  config.Expect("sliding_window", nullptr);
}

void CohereKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "logit_scale", config.Number("logit_scale"));
  metadata.Set(prefix + "rope.scaling.type", std::string("none"));
}

void Cohere2Keys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  CohereKeys(config, prefix, metadata);
  LlamaKeys(config, prefix, metadata);
  metadata.Set(prefix + "attention.sliding_window", config.Count("sliding_window"));
  config.Expect("rotary_pct", 1.0);
  config.ExpectLayerPeriod(4);
}

void Glm4Keys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "rope.dimension_count", config.RotaryDim(0.5));
}

// Without the 32B's layers with a window.
void Exaone4Keys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "vocab_size", config.Count("vocab_size"));
  config.Expect("sliding_window", nullptr);
}

void PhiKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  Glm4Keys(config, prefix, metadata);
  config.Expect("hidden_act", "gelu_new");
  config.Expect("qk_layernorm", false);
}

void Phi3Keys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  const char* original = "original_max_position_embeddings";
  metadata.Set(prefix + "rope.scaling.original_context_length",
               config.Count(config.Has(original) ? original : "max_position_embeddings"));
  metadata.Set(prefix + "rope.dimension_count", config.RotaryDim(1.0));
  metadata.Set(prefix + "attention.sliding_window",
               config.Has("sliding_window") ? config.Count("sliding_window") : uint32_t{0});
}

// Rotation and norms less 1 are the family's; both epsilons are what llama.cpp's converter writes.
void NemotronKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "vocab_size", config.Count("vocab_size"));
  metadata.Set(prefix + "attention.layer_norm_rms_epsilon", config.Number("norm_eps"));
  metadata.Set(prefix + "rope.dimension_count", config.RotaryDim(0.5));
  metadata.Set(prefix + "rope.scaling.type", std::string("none"));
  config.Expect("hidden_act", "relu2");
}

struct Family {
  const char* class_name;
  const char* model_type;
  const char* architecture;
  std::span<const NameRule> rules;
  void (*keys)(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata);
  unsigned flags;
};
const Family kFamilies[] = {
#define MOONLIT_HUGGING_FACE(class_name, model_type, architecture, rules, keys, flags) \
  {class_name, model_type, architecture, rules, keys, flags},
#include "models/common/hugging_face_families.inc"
#undef MOONLIT_HUGGING_FACE
};

Result<const Family*> FindFamily(const HuggingFaceConfig& config) {
  const std::string wanted = config.ClassName(), type = config.ModelType();
  std::string known;
  for (const Family& family : kFamilies) {
    if (wanted.empty() ? type == family.model_type : wanted == family.class_name) return &family;
    known += (known.empty() ? "" : ", ") + std::string(family.class_name);
  }
  return Errorf(Code::kUnsupported, "config.json: architecture \"%s\" is not one whose folder this build can read (%s)",
                (wanted.empty() ? type : wanted).c_str(), known.c_str());
}

// Matches "a.%.b.*.c" and takes the numbers out; no number has more than six digits.
bool Matches(std::string_view pattern, std::string_view name, size_t* layer, size_t* expert) {
  size_t at = 0;
  for (const char c : pattern) {
    if (c != '%' && c != '*') {
      if (at == name.size() || name[at++] != c) return false;
      continue;
    }
    size_t value = 0, digits = 0;
    for (; at < name.size() && name[at] >= '0' && name[at] <= '9' && digits < 6; ++at, ++digits)
      value = value * 10 + static_cast<size_t>(name[at] - '0');
    if (digits == 0 || (digits > 1 && name[at - digits] == '0')) return false;
    *(c == '%' ? layer : expert) = value;
  }
  return at == name.size();
}

bool Ignored(std::string_view name) {
  for (const char* end : kIgnored) {
    if (name.ends_with(end)) return true;
  }
  return false;
}

std::string WithLayer(std::string_view pattern, size_t layer) {
  std::string name(pattern);
  if (const size_t place = name.find('%'); place != std::string::npos) name.replace(place, 1, std::to_string(layer));
  return name;
}

class TensorMapper {
 public:
  TensorMapper(HuggingFaceConfig& config, const Family& family)
      : config_(config),
        family_(family),
        layers_(config.Count("num_hidden_layers")),
        experts_(config.Experts()),
        heads_(config.Count("num_attention_heads")),
        kv_heads_(config.KvHeads()),
        tied_(config.Flag("tie_word_embeddings", false)) {}

  Status Add(const std::string& name) {
    if (Ignored(name) || (tied_ && name == "lm_head.weight")) return Status();
    // The family's own rules go before the usual ones.
    if (Apply(family_.rules, name) || Apply(kUsualRules, name)) return status_;
    return Errorf(Code::kUnsupported, "tensor \"%s\" has no place in architecture %s as this build knows it",
                  name.substr(0, 200).c_str(), family_.architecture);
  }

  Result<std::vector<MappedTensor>> Finish() {
    std::vector<MappedTensor> tensors;
    for (auto& [place, tensor] : tensors_) {
      for (size_t e = 0; e < tensor.sources.size(); ++e) {
        if (!tensor.sources[e].empty()) continue;
        return Errorf(Code::kCorrupt, "tensor %s: the folder has no expert %zu of %zu", tensor.name.c_str(), e,
                      tensor.sources.size());
      }
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

 private:
  // Two tensors for one place are a fault of the config's.
  bool Apply(std::span<const NameRule> rules, const std::string& name) {
    bool applied = false;
    for (size_t i = 0; i < rules.size(); ++i) {
      const NameRule& rule = rules[i];
      size_t layer = 0, expert = 0;
      if (!Matches(rule.from, name, &layer, &expert)) continue;
      const bool stacked = std::string_view(rule.from).find('*') != std::string_view::npos;
      if (layer >= layers_ || (stacked && expert >= experts_)) continue;
      applied = true;
      const bool global = std::string_view(rule.from).find('%') == std::string_view::npos;
      MappedTensor& tensor = tensors_[{global ? 0 : layer + 1, rule.to}];
      tensor.name = WithLayer(rule.to, layer);
      tensor.sources.resize(stacked ? experts_ : 1);
      std::string& source = tensor.sources[stacked ? expert : 0];
      if (!source.empty()) {
        status_ = Errorf(Code::kCorrupt, "tensors \"%s\" and \"%s\" are both %s", source.substr(0, 200).c_str(),
                         name.substr(0, 200).c_str(), tensor.name.c_str());
      }
      source = name;
      SetChanges(rule, &tensor);
    }
    return applied;
  }

  void SetChanges(const NameRule& rule, MappedTensor* tensor) const {
    const bool key = tensor->name.find("attn_k.") != std::string::npos;
    tensor->order = rule.order;
    if (rule.order == RowOrder::kRotary) {
      if ((family_.flags & kRotaryRows) == 0) tensor->order = RowOrder::kSame;
      tensor->heads = key ? kv_heads_ : heads_;
    }
    tensor->add_one = (family_.flags & kNormsLessOne) != 0 && tensor->name.ends_with("norm.weight");
    tensor->keep_f32 = tensor->name.find("ffn_gate_inp") != std::string::npos;
  }

  HuggingFaceConfig& config_;
  const Family& family_;
  const size_t layers_, experts_, heads_, kv_heads_;
  const bool tied_;
  Status status_;
  // By layer (0: what belongs to none) and GGUF's pattern.
  std::map<std::pair<size_t, std::string>, MappedTensor> tensors_;
};

// Where a family of layer norms has none of these fields, its keys say it, or the architecture misses it.
void SetNormKeys(HuggingFaceConfig& config, const Family& family, const std::string& prefix, MetadataMap& metadata) {
  if ((family.flags & kLayerNorms) == 0) {
    metadata.Set(prefix + "attention.layer_norm_rms_epsilon", config.Number("rms_norm_eps"));
    return;
  }
  for (const char* field : {"layer_norm_eps", "norm_epsilon", "norm_eps"}) {
    if (config.Has(field)) metadata.Set(prefix + "attention.layer_norm_epsilon", config.Number(field));
  }
}

void SetCommonKeys(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "block_count", config.Count("num_hidden_layers"));
  metadata.Set(prefix + "context_length", config.Count("max_position_embeddings"));
  metadata.Set(prefix + "embedding_length", config.Count("hidden_size"));
  metadata.Set(prefix + "feed_forward_length", config.Count("intermediate_size"));
  metadata.Set(prefix + "attention.head_count", config.Count("num_attention_heads"));
  metadata.Set(prefix + "attention.head_count_kv", config.KvHeads());
  config.SetRopeKeys(prefix, metadata);
  if (config.Experts() != 0) {
    metadata.Set(prefix + "expert_count", config.Experts());
    metadata.Set(prefix + "expert_used_count", config.Count("num_experts_per_tok"));
  }
  if (config.Has("head_dim")) {
    metadata.Set(prefix + "attention.key_length", config.Count("head_dim"));
    metadata.Set(prefix + "attention.value_length", config.Count("head_dim"));
  }
}

// Settings that change what is computed, and that GGUF has no key for.
void RefuseForeignSettings(HuggingFaceConfig& config, const Family& family) {
  // Gemma's first configs have a hidden_act that nothing reads.
  const bool gelu = (family.flags & kTanhGelu) != 0;
  if ((family.flags & kOwnActivation) == 0)
    config.Expect(gelu ? "hidden_activation" : "hidden_act", gelu ? "gelu_pytorch_tanh" : "silu");
  if ((family.flags & kWindows) == 0) {
    const std::vector<bool> windowed = config.WindowedLayers();
    if (std::find(windowed.begin(), windowed.end(), true) != windowed.end())
      config.Refuse("layer_types", "full_attention for this architecture");
  }
  config.Expect("use_bidirectional_attention", false);
  config.Expect("use_sliding_window", false);
  if (std::string_view(family.architecture) != "olmo") config.Expect("clip_qkv", nullptr);
  if ((family.flags & kPartialRotary) == 0) config.ExpectWholeRotation();
  config.Expect("decoder_sparse_step", 1);
  config.Expect("mlp_only_layers", nlohmann::json::array());
  if (config.Experts() != 0 && std::string_view(family.architecture) != "llama")
    config.Expect("norm_topk_prob", (family.flags & kNormalisedExperts) != 0);
}

}  // namespace

Result<MappedModel> MapHuggingFace(const nlohmann::json& json, const std::vector<std::string>& names) {
  MOONLIT_ASSIGN_OR_RETURN(HuggingFaceConfig config, HuggingFaceConfig::Create(json));
  MOONLIT_ASSIGN_OR_RETURN(const Family* family, FindFamily(config));
  MappedModel model;
  const std::string prefix = std::string(family->architecture) + ".";
  model.metadata.Set("general.architecture", std::string(family->architecture));
  model.metadata.Set("general.type", std::string("model"));
  SetCommonKeys(config, prefix, model.metadata);
  SetNormKeys(config, *family, prefix, model.metadata);
  family->keys(config, prefix, model.metadata);
  RefuseForeignSettings(config, *family);
  model.rope_divisors = config.RopeDivisors();
  MOONLIT_RETURN_IF_ERROR(config.status());
  TensorMapper mapper(config, *family);
  MOONLIT_RETURN_IF_ERROR(config.status());
  for (const std::string& name : names) MOONLIT_RETURN_IF_ERROR(mapper.Add(name));
  MOONLIT_ASSIGN_OR_RETURN(model.tensors, mapper.Finish());
  return model;
}

}  // namespace moonlit
