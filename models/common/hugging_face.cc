// SPDX-License-Identifier: Apache-2.0
#include "models/common/hugging_face.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <span>
#include <string_view>

#include "models/common/hugging_face_config.h"
#include "models/common/hugging_face_family.h"
#include "models/common/hugging_face_rules.h"

namespace moonlit {
namespace {

constexpr uint32_t kMostWidth = uint32_t{1} << 24;  // what a config asks for beyond is refused where widths are checked

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
        layers_(config.Layers()),
        experts_(config.Experts()),
        heads_(config.Count("num_attention_heads")),
        kv_heads_(config.KvHeads()),
        tied_(config.Flag("tie_word_embeddings", false)) {}

  Status Add(const std::string& name) {
    if (Ignored(name)) return Status();
    // The family's own rules go before the usual ones. Some folders leave out what every name begins with.
    for (const std::string& full : {name, "transformer." + name}) {
      if (Apply(family_.rules, full, name) || Apply(kUsualRules, full, name)) return status_;
    }
    misfits_.emplace(TensorKind(name), name);
    return Status();
  }

  Result<std::vector<MappedTensor>> Finish() {
    if (!misfits_.empty()) {
      return Errorf(Code::kUnsupported,
                    "there is no place in architecture %s, as this build knows it, for tensors as %s",
                    family_.architecture, ListKinds(misfits_).c_str());
    }
    std::vector<MappedTensor> tensors;
    for (auto& [place, gathered] : tensors_) {
      MappedTensor& tensor = gathered.tensor;
      size_t expected = 0;
      for (auto& [part, source] : gathered.sources) {
        if (part != expected++) break;
        tensor.sources.push_back(std::move(source));
      }
      if (const size_t found = tensor.sources.size(); found != gathered.parts) {
        return Errorf(Code::kCorrupt, "tensor %s: the folder has no expert %zu of %zu", tensor.name.c_str(), found,
                      gathered.parts);
      }
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

 private:
  // A tensor whose parts are still coming in. Only those that came take room: how many there should be is the config's word.
  struct Gathered {
    MappedTensor tensor;                    // `sources` is filled at the end
    size_t parts = 1;                       // that it should have
    std::map<size_t, std::string> sources;  // by number
  };

  // By the rules `full` is the tensor's name. Two tensors for one place are a fault of the config's.
  bool Apply(std::span<const NameRule> rules, const std::string& full, const std::string& name) {
    bool applied = false;
    for (size_t i = 0; i < rules.size(); ++i) {
      const NameRule& rule = rules[i];
      size_t layer = 0, expert = 0;
      if (!Matches(rule.from, full, &layer, &expert)) continue;
      const bool stacked = std::string_view(rule.from).find('*') != std::string_view::npos;
      if (layer >= layers_ || (stacked && expert >= experts_)) continue;
      applied = true;
      if (tied_ && std::string_view(rule.to) == "output.weight") continue;
      const bool global = std::string_view(rule.from).find('%') == std::string_view::npos;
      Gathered& gathered = tensors_[{global ? 0 : layer + 1, rule.to}];
      MappedTensor& tensor = gathered.tensor;
      tensor.name = WithLayer(rule.to, layer);
      gathered.parts = stacked ? experts_ : 1;
      std::string& source = gathered.sources[stacked ? expert : 0];
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
    tensor->rows.order = rule.order;
    if (rule.order == RowOrder::kRotary) {
      if ((family_.flags & kRotaryRows) == 0) tensor->rows.order = RowOrder::kSame;
      tensor->rows.heads = key ? kv_heads_ : heads_;
    } else if (rule.order == RowOrder::kGroupedQkv) {
      tensor->rows.heads = heads_;
      tensor->rows.kv_heads = kv_heads_;
    }
    tensor->add_one = (family_.flags & kNormsLessOne) != 0 && tensor->name.ends_with("norm.weight");
    tensor->keep_f32 = tensor->name.find("ffn_gate_inp") != std::string::npos;
  }

  HuggingFaceConfig& config_;
  const Family& family_;
  const size_t layers_, experts_, heads_, kv_heads_;
  const bool tied_;
  Status status_;
  std::map<std::string, std::string> misfits_;  // by kind, the first of each
  // By layer (0: what belongs to none) and GGUF's pattern.
  std::map<std::pair<size_t, std::string>, Gathered> tensors_;
};

// Where a family of layer norms has none of these fields, its keys say it.
void SetNormKeys(HuggingFaceConfig& config, const Family& family, const std::string& prefix, MetadataMap& metadata) {
  if ((family.flags & kLayerNorms) == 0) {
    metadata.Set(prefix + "attention.layer_norm_rms_epsilon", config.Number("rms_norm_eps"));
    return;
  }
  for (const char* field : {"layer_norm_eps", "norm_epsilon", "norm_eps"}) {
    if (config.Has(field)) metadata.Set(prefix + "attention.layer_norm_epsilon", config.Number(field));
  }
}

uint32_t FeedForwardWidth(HuggingFaceConfig& config, const Family& family) {
  const char* field = "intermediate_size";
  if ((family.flags & kFourfold) == 0 || config.Has(field)) return config.Count(field);
  return 4 * std::min(config.Count("hidden_size"), kMostWidth);
}

void SetCommonKeys(HuggingFaceConfig& config, const Family& family, const std::string& prefix, MetadataMap& metadata) {
  metadata.Set(prefix + "block_count", config.Layers());
  if ((family.flags & kOwnContext) == 0)
    metadata.Set(prefix + "context_length", config.Count("max_position_embeddings"));
  metadata.Set(prefix + "embedding_length", config.Count("hidden_size"));
  metadata.Set(prefix + "feed_forward_length", FeedForwardWidth(config, family));
  metadata.Set(prefix + "attention.head_count", config.Count("num_attention_heads"));
  metadata.Set(prefix + "attention.head_count_kv", config.KvHeads());
  config.SetRopeKeys(prefix, family.rope, metadata);
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
  // Gemma's first configs have "gelu" in hidden_act for the form that its weights were made with, which is the other.
  const bool gelu = (family.flags & kTanhGelu) != 0;
  if (gelu && !config.Is("hidden_act", "gelu")) config.Expect("hidden_act", R"("gelu_pytorch_tanh")");
  if ((family.flags & kOwnActivation) == 0)
    config.Expect(gelu ? "hidden_activation" : "hidden_act", gelu ? R"("gelu_pytorch_tanh")" : R"("silu")");
  if ((family.flags & kWindows) == 0) {
    const std::vector<bool> windowed = config.WindowedLayers();
    if (std::find(windowed.begin(), windowed.end(), true) != windowed.end())
      config.Refuse("layer_types", "full_attention for this architecture");
  }
  if (config.Has("quantization_config"))
    config.Refuse("quantization_config", "weights as they are, in F32, F16 or BF16 (of BitNet: a GGUF file)");
  config.Expect("use_bidirectional_attention", "false");
  config.Expect("use_sliding_window", "false");
  if (std::string_view(family.architecture) != "olmo") config.Expect("clip_qkv", "null");
  if ((family.flags & kPartialRotary) == 0) config.ExpectWholeRotation();
  config.Expect("decoder_sparse_step", "1");
  config.Expect("mlp_only_layers", "[]");
  if (config.Experts() != 0 && std::string_view(family.architecture) != "llama")
    config.Expect("norm_topk_prob", (family.flags & kNormalisedExperts) != 0 ? "true" : "false");
}

// transformers leaves out biases that the config denies.
void RefuseDeniedBiases(HuggingFaceConfig& config, const Family& family, const std::vector<MappedTensor>& tensors) {
  if ((family.flags & kOwnBiases) != 0) return;
  for (const MappedTensor& tensor : tensors) {
    const std::string& name = tensor.name;
    if (!name.ends_with(".bias") || name.find("norm.") != name.npos) continue;
    const auto deny = [&](const char* part, std::initializer_list<const char*> fields) {
      if (name.find(part) == name.npos) return;
      for (const char* field : fields) {
        if (!config.Flag(field, true))
          config.Refuse(field, "models without tensor \"" + tensor.sources[0].substr(0, 100) + "\"");
      }
    };
    deny(".attn_", {"attention_bias", "qkv_bias", "use_qkv_bias", "use_bias", "bias"});
    deny(".attn_output.", {"attention_out_bias"});
    deny(".ffn_", {"mlp_bias", "use_bias", "bias"});
  }
}

}  // namespace

Status CheckHuggingFaceFamily(const Json& json, const std::vector<std::string>& names) {
  MOONLIT_ASSIGN_OR_RETURN(HuggingFaceConfig config, HuggingFaceConfig::Create(json));
  return FindFamily(config, names).status();
}

Result<MappedModel> MapHuggingFace(const Json& json, const std::vector<std::string>& names) {
  MOONLIT_ASSIGN_OR_RETURN(HuggingFaceConfig config, HuggingFaceConfig::Create(json));
  MOONLIT_ASSIGN_OR_RETURN(const Family* family, FindFamily(config, names));
  MOONLIT_ASSIGN_OR_RETURN(const Json defaults, ParseJson(family->defaults));
  config.SetDefaults(defaults);
  MappedModel model;
  const std::string prefix = std::string(family->architecture) + ".";
  model.metadata.Set("general.architecture", std::string(family->architecture));
  model.metadata.Set("general.type", std::string("model"));
  SetCommonKeys(config, *family, prefix, model.metadata);
  SetNormKeys(config, *family, prefix, model.metadata);
  family->keys(config, prefix, model.metadata);
  if ((family->flags & kLayerNorms) != 0 && !model.metadata.Has(prefix + "attention.layer_norm_epsilon"))
    config.Number("layer_norm_eps");  // which is a fault
  RefuseForeignSettings(config, *family);
  model.made = config.RopeTensors();
  MOONLIT_RETURN_IF_ERROR(config.status());
  TensorMapper mapper(config, *family);
  MOONLIT_RETURN_IF_ERROR(config.status());
  for (const std::string& name : names) MOONLIT_RETURN_IF_ERROR(mapper.Add(name));
  MOONLIT_ASSIGN_OR_RETURN(model.tensors, mapper.Finish());
  RefuseDeniedBiases(config, *family, model.tensors);
  MOONLIT_RETURN_IF_ERROR(config.status());
  return model;
}

}  // namespace moonlit
