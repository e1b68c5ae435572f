// SPDX-License-Identifier: Apache-2.0
#include "models/common/config.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "models/common/config_reader.h"
#include "models/common/rope_config.h"

namespace moonlit {
namespace {

// Upper bounds: several times the largest published models, and small enough that products of two fit in 64 bits many
// times over.
constexpr size_t kMaxLayers = 1024;
constexpr size_t kMaxWidth = size_t{1} << 20;
constexpr size_t kMaxFfnWidth = size_t{1} << 22;
constexpr size_t kMaxHeads = 4096;

void ReadHeads(ConfigReader& reader, ModelConfig& config) {
  config.heads = reader.CountPerLayer("attention.head_count", config.layers, 1, kMaxHeads);
  config.kv_heads = reader.CountPerLayer("attention.head_count_kv", config.layers, 1, kMaxHeads, config.heads);
  if (config.heads % config.kv_heads != 0) {
    reader.Fail(Errorf(Code::kCorrupt, "%sattention.head_count_kv is %zu: expected a divisor of %zu heads",
                       reader.prefix().c_str(), config.kv_heads, config.heads));
  }
  std::optional<size_t> head_dim;
  if (config.width % config.heads == 0 && config.width / config.heads <= kLargestHead)
    head_dim = config.width / config.heads;
  if (!head_dim && !reader.Has("attention.key_length")) {
    reader.Fail(Errorf(
        Code::kCorrupt,
        "%sattention.head_count is %zu: expected a divisor of embedding_length %zu with heads of at most %zu, or "
        "attention.key_length",
        reader.prefix().c_str(), config.heads, config.width, kLargestHead));
  }
  config.key_dim = reader.Count("attention.key_length", 1, kLargestHead, head_dim);
  config.value_dim = reader.Count("attention.value_length", 1, kLargestHead, head_dim);
}

// The vocabulary is as large as the embedding table; what else the file says about it must agree.
Status ReadVocabulary(const Metadata& metadata, const WeightSource& source, ConfigReader& reader, ModelConfig& config) {
  const TensorInfo* table = source.Find("token_embd.weight");
  if (table == nullptr) {
    return Errorf(Code::kUnsupported,
                  "architecture %s needs tensor token_embd.weight [vocabulary, %zu], the file has none",
                  config.architecture.c_str(), config.width);
  }
  config.vocab = table->shape.rows();
  if (config.vocab < 1 || config.vocab > INT32_MAX) {
    return Errorf(Code::kCorrupt, "token_embd.weight has %zu rows: expected 1 to 2^31 - 1", config.vocab);
  }
  const size_t stated = reader.Count("vocab_size", 1, INT32_MAX, config.vocab);
  if (reader.status().ok() && stated != config.vocab) {
    return Errorf(Code::kCorrupt, "%svocab_size is %zu, but token_embd.weight has %zu rows", reader.prefix().c_str(),
                  stated, config.vocab);
  }
  if (metadata.Has("tokenizer.ggml.tokens")) {
    MOONLIT_ASSIGN_OR_RETURN(const std::vector<std::string> tokens, metadata.GetStrings("tokenizer.ggml.tokens"));
    if (tokens.size() != config.vocab) {
      return Errorf(Code::kCorrupt, "tokenizer.ggml.tokens has %zu entries, but token_embd.weight has %zu rows",
                    tokens.size(), config.vocab);
    }
  }
  return Status();
}

// Keys that change what a model computes in ways that no architecture here has. A file that has one with another value than the
// neutral one would run and give plausible nonsense.
struct ForeignKey {
  const char* suffix;
  double neutral;
};
constexpr ForeignKey kForeignNumbers[] = {{"attn_logit_softcapping", 0},
                                          {"final_logit_softcapping", 0},
                                          {"attention.clamp_kqv", 0},
                                          {"attention.max_alibi_bias", 0},
                                          {"logit_scale", 1},
                                          {"embedding_scale", 1},
                                          {"residual_scale", 1}};
constexpr ForeignKey kForeignFlags[] = {{"attention.causal", 1}, {"use_parallel_residual", 0}};

Status Refused(const std::string& key, const std::string& found, const std::string& architecture) {
  return Errorf(Code::kUnsupported, "%s is %s, which this build can't compute for architecture %s", key.c_str(),
                found.c_str(), architecture.c_str());
}

bool Reads(const CommonFeatures& features, std::string_view key) {
  return std::find(features.keys.begin(), features.keys.end(), key) != features.keys.end();
}

Status RefuseNumbers(const Metadata& metadata, const ModelConfig& config, const CommonFeatures& features) {
  for (const ForeignKey& foreign : kForeignNumbers) {
    if (Reads(features, foreign.suffix)) continue;
    const std::string key = config.architecture + "." + foreign.suffix;
    if (!metadata.Has(key)) continue;
    MOONLIT_ASSIGN_OR_RETURN(const double value, metadata.GetFloat(key));
    if (value != foreign.neutral) return Refused(key, std::to_string(value), config.architecture);
  }
  return Status();
}

// One other than 1 / sqrt(key_dim).
Status RefuseAttentionScale(const Metadata& metadata, const ModelConfig& config) {
  const std::string key = config.architecture + ".attention.scale";
  if (!metadata.Has(key)) return Status();
  MOONLIT_ASSIGN_OR_RETURN(const double scale, metadata.GetFloat(key));
  const double usual = 1.0 / std::sqrt(static_cast<double>(config.key_dim));
  if (std::fabs(scale - usual) <= 1e-6 * usual || scale == 0) return Status();
  return Refused(key, std::to_string(scale), config.architecture);
}

Status RefuseForeignKeys(const Metadata& metadata, const ModelConfig& config, const CommonFeatures& features) {
  const std::string prefix = config.architecture + ".";
  MOONLIT_RETURN_IF_ERROR(RefuseNumbers(metadata, config, features));
  if (!Reads(features, "attention.scale")) MOONLIT_RETURN_IF_ERROR(RefuseAttentionScale(metadata, config));
  for (const ForeignKey& foreign : kForeignFlags) {
    if (Reads(features, foreign.suffix)) continue;
    const std::string key = prefix + foreign.suffix;
    if (!metadata.Has(key)) continue;
    MOONLIT_ASSIGN_OR_RETURN(const bool value, metadata.GetBool(key));
    if (value != (foreign.neutral != 0)) return Refused(key, value ? "true" : "false", config.architecture);
  }
  // A window that hides a part of the context.
  if (!Reads(features, "attention.sliding_window") && metadata.Has(prefix + "attention.sliding_window")) {
    MOONLIT_ASSIGN_OR_RETURN(const uint64_t window, metadata.GetUint(prefix + "attention.sliding_window"));
    if (window != 0 && window < config.n_ctx_train) {
      return Refused(prefix + "attention.sliding_window",
                     std::to_string(window) + " (of " + std::to_string(config.n_ctx_train) + ")", config.architecture);
    }
  }
  return Status();
}

void ReadExperts(ConfigReader& reader, ModelConfig& config, ExpertsKey key) {
  config.experts = key == ExpertsKey::kRequired ? reader.Count("expert_count", 1, kMostExperts)
                                                : reader.Count("expert_count", 0, kMostExperts, 0);
  if (config.experts == 0) return;
  if (key == ExpertsKey::kRefused) {
    reader.Fail(Errorf(Code::kUnsupported, "the model has experts (%sexpert_count), which this build can't run for %s",
                       reader.prefix().c_str(), config.architecture.c_str()));
    return;
  }
  config.experts_used = reader.Count("expert_used_count", 1, config.experts);
  config.expert_width = reader.Count("expert_feed_forward_length", 1, kMaxFfnWidth, config.ffn_width);
  config.shared_expert_width = reader.Count("expert_shared_feed_forward_length", 0, kMaxFfnWidth, config.ffn_width);
}

void ReadNumbers(ConfigReader& reader, ModelConfig& config, const CommonFeatures& features) {
  const auto read = [&](const char* suffix, double low, double otherwise, float& value) {
    if (Reads(features, suffix)) value = static_cast<float>(reader.Number(suffix, low, 1e6, otherwise));
  };
  read("embedding_scale", 1e-6, 1, config.embedding_scale);
  read("residual_scale", 1e-6, 1, config.residual_scale);
  read("logit_scale", 1e-6, 1, config.logit_divisor);
  read("attention.scale", 0, 0, config.attention_scale);
  read("attn_logit_softcapping", 0, 0, config.attention_softcap);
  read("final_logit_softcapping", 0, 0, config.logit_softcap);
  read("attention.clamp_kqv", 0, 0, config.clamp_qkv);
  read("attention.max_alibi_bias", 0, 0, config.alibi_max_bias);
  if (Reads(features, "attention.sliding_window"))
    config.window = reader.Count("attention.sliding_window", 0, INT32_MAX, 0);
  if (Reads(features, "use_parallel_residual")) config.parallel_residual = reader.Flag("use_parallel_residual", false);
}

// "pooling_type" as GGUF's specification counts it.
Pooling ReadPooling(ConfigReader& reader) {
  constexpr size_t kRank = 4;
  constexpr Pooling kPoolings[] = {Pooling::kUnknown, Pooling::kMean, Pooling::kFirst, Pooling::kLast};
  const size_t type = reader.Count("pooling_type", 0, kRank, 0);
  if (type != kRank) return kPoolings[type];
  reader.Fail(Errorf(Code::kUnsupported,
                     "%spooling_type is %zu: the model ranks pairs of texts, which this build can't do",
                     reader.prefix().c_str(), type));
  return Pooling::kUnknown;
}

// "longrope" says no more than that the file has divisors of the frequencies.
Status CheckLongRope(const Metadata& metadata, const WeightSource& source, const std::string& architecture) {
  const std::string key = architecture + ".rope.scaling.type";
  if (!metadata.Has(key)) return Status();
  MOONLIT_ASSIGN_OR_RETURN(const std::string type, metadata.GetString(key));
  if (type != "longrope" || source.Find("rope_factors_long.weight") != nullptr) return Status();
  return Errorf(Code::kUnsupported, "%s is longrope, which needs tensor rope_factors_long.weight, the file has none",
                key.c_str());
}

}  // namespace

size_t ConfigReader::CheckCount(const std::string& key, uint64_t value, size_t low, size_t high) {
  if (value >= low && value <= high) return static_cast<size_t>(value);
  Fail(Errorf(Code::kCorrupt, "%s is %llu: expected %zu to %zu", key.c_str(), static_cast<unsigned long long>(value),
              low, high));
  return low;
}

size_t ConfigReader::Count(const char* suffix, size_t low, size_t high, std::optional<size_t> otherwise) {
  const std::string key = prefix_ + suffix;
  if (!metadata_.Has(key)) {
    if (otherwise) return *otherwise;
    Fail(Errorf(Code::kCorrupt, "metadata has no %s, which the architecture needs", key.c_str()));
    return low;
  }
  const Result<uint64_t> value = metadata_.GetUint(key);
  if (value.ok()) return CheckCount(key, value.value(), low, high);
  Fail(value.status());
  return low;
}

std::vector<size_t> ConfigReader::CountsPerLayer(const char* suffix, size_t layers, size_t low, size_t high) {
  const std::string key = prefix_ + suffix;
  std::vector<size_t> counts(layers, low);
  const Result<std::vector<int64_t>> values = metadata_.GetInts(key);
  if (!values.ok()) {
    Fail(values.status());
    return counts;
  }
  if (values->size() != layers) {
    Fail(Errorf(Code::kCorrupt, "%s: expected one value or %zu, one a layer, found an array of %zu", key.c_str(),
                layers, values->size()));
    return counts;
  }
  for (size_t i = 0; i < layers; ++i) {
    const int64_t value = (*values)[i];
    if (value >= 0) {
      counts[i] = CheckCount(key, static_cast<uint64_t>(value), low, high);
    } else {
      Fail(Errorf(Code::kCorrupt, "%s is %lld: expected %zu to %zu", key.c_str(), static_cast<long long>(value), low,
                  high));
    }
  }
  return counts;
}

size_t ConfigReader::CountPerLayer(const char* suffix, size_t layers, size_t low, size_t high,
                                   std::optional<size_t> otherwise) {
  const std::string key = prefix_ + suffix;
  if (!metadata_.IsArray(key)) return Count(suffix, low, high, otherwise);
  const std::vector<size_t> counts = CountsPerLayer(suffix, layers, low, high);  // there is at least one layer
  if (std::adjacent_find(counts.begin(), counts.end(), std::not_equal_to<>()) != counts.end()) {
    Fail(Errorf(Code::kUnsupported, "%s differs from layer to layer: this architecture needs one value", key.c_str()));
  }
  return counts.front();
}

double ConfigReader::Number(const char* suffix, double low, double high, std::optional<double> otherwise) {
  const std::string key = prefix_ + suffix;
  if (!metadata_.Has(key)) {
    if (otherwise) return *otherwise;
    Fail(Errorf(Code::kCorrupt, "metadata has no %s, which the architecture needs", key.c_str()));
    return low;
  }
  Result<double> value = metadata_.GetFloat(key);
  if (!value.ok()) {
    Fail(value.status());
    return low;
  }
  if (!(value.value() >= low && value.value() <= high)) {  // also catches NaN
    Fail(Errorf(Code::kCorrupt, "%s is %g: expected %g to %g", key.c_str(), value.value(), low, high));
    return low;
  }
  return value.value();
}

bool ConfigReader::Flag(const char* suffix, bool otherwise) {
  const std::string key = prefix_ + suffix;
  if (!metadata_.Has(key)) return otherwise;
  const Result<bool> value = metadata_.GetBool(key);
  if (value.ok()) return value.value();
  Fail(value.status());
  return otherwise;
}

std::string ConfigReader::Text(const char* suffix, const char* otherwise) {
  const std::string key = prefix_ + suffix;
  if (!metadata_.Has(key)) return otherwise;
  Result<std::string> value = metadata_.GetString(key);
  if (value.ok()) return value.value();
  Fail(value.status());
  return otherwise;
}

Result<std::vector<bool>> ReadLocalLayers(const Metadata& metadata, const ModelConfig& config, size_t period) {
  const std::string key = config.architecture + ".attention.sliding_window_pattern";
  std::vector<bool> local(config.layers);
  if (metadata.IsArray(key)) {
    MOONLIT_ASSIGN_OR_RETURN(const std::vector<int64_t> flags, metadata.GetInts(key));
    if (flags.size() != config.layers) {
      return Errorf(Code::kCorrupt, "%s: expected %zu flags, one a layer, found an array of %zu", key.c_str(),
                    config.layers, flags.size());
    }
    for (size_t i = 0; i < local.size(); ++i) local[i] = flags[i] != 0;
    return local;
  }
  if (metadata.Has(key)) {
    MOONLIT_ASSIGN_OR_RETURN(period, metadata.GetUint(key));
  }
  for (size_t i = 0; i < local.size(); ++i) local[i] = period == 0 || (i + 1) % period != 0;
  return local;
}

Result<ModelConfig> ReadCommonConfig(const Metadata& metadata, const WeightSource& source,
                                     const std::string& architecture, const CommonFeatures& features) {
  ConfigReader reader(metadata, architecture);
  ModelConfig config;
  config.architecture = architecture;
  if (metadata.Has("general.name")) {
    MOONLIT_ASSIGN_OR_RETURN(config.name, metadata.GetString("general.name"));
  }
  config.layers = reader.Count("block_count", 1, kMaxLayers);
  config.width = reader.Count("embedding_length", 1, kMaxWidth);
  if (features.feed_forward_per_layer && metadata.IsArray(architecture + ".feed_forward_length")) {
    config.ffn_widths = reader.CountsPerLayer("feed_forward_length", config.layers, 1, kMaxFfnWidth);
    config.ffn_width = *std::max_element(config.ffn_widths.begin(), config.ffn_widths.end());
  } else {
    config.ffn_width = reader.CountPerLayer("feed_forward_length", config.layers, 1, kMaxFfnWidth);
  }
  config.n_ctx_train = reader.Count("context_length", 1, INT32_MAX);
  ReadHeads(reader, config);
  const bool rms = features.norm == NormKind::kRms;
  config.norm_eps = static_cast<float>(
      reader.Number(rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon", 1e-20, 1.0));
  config.rope = config.local_rope = ReadRopeSpec(reader, config.key_dim, config.n_ctx_train);
  ReadExperts(reader, config, features.experts);
  ReadNumbers(reader, config, features);
  config.pooling = ReadPooling(reader);
  MOONLIT_RETURN_IF_ERROR(reader.status());
  MOONLIT_RETURN_IF_ERROR(RefuseForeignKeys(metadata, config, features));
  MOONLIT_RETURN_IF_ERROR(CheckLongRope(metadata, source, architecture));
  MOONLIT_RETURN_IF_ERROR(ReadVocabulary(metadata, source, reader, config));
  MOONLIT_RETURN_IF_ERROR(reader.status());
  return config;
}

}  // namespace moonlit
