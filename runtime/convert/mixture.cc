// SPDX-License-Identifier: Apache-2.0
#include "runtime/convert/mixture.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>

namespace moonlit {
namespace {

enum class Part { kEmbedding, kHead, kQuery, kKey, kValue, kAttentionOutput, kDown, kOther };

bool Contains(std::string_view name, std::string_view piece) { return name.find(piece) != std::string_view::npos; }

// Fused projections count as values, whose errors matter most.
Part PartOf(std::string_view name) {
  if (name == "output.weight") return Part::kHead;
  if (name == "token_embd.weight" || name == "per_layer_token_embd.weight") return Part::kEmbedding;
  for (const char* value : {"attn_qkv.weight", "attn_kv_b.weight", "attn_v.weight"}) {
    if (Contains(name, value)) return Part::kValue;
  }
  if (Contains(name, "attn_k.weight")) return Part::kKey;
  if (Contains(name, "attn_q.weight")) return Part::kQuery;
  if (Contains(name, "attn_output.weight")) return Part::kAttentionOutput;
  if (Contains(name, "ffn_down")) return Part::kDown;
  return Part::kOther;
}

// Layer of "blk.3.attn_q.weight"; -1 without one.
int LayerOf(std::string_view name) {
  if (!name.starts_with("blk.")) return -1;
  int layer = -1;
  for (size_t i = 4; i < name.size() && name[i] >= '0' && name[i] <= '9' && layer < 1000000; ++i)
    layer = (layer < 0 ? 0 : layer * 10) + (name[i] - '0');
  return layer;
}

// A matrix, or one an expert; vectors may be stored with further dimensions of 1.
bool IsMatrix(const Shape& shape) { return shape.rows() > 1; }

bool MayBeEncoded(const TensorInfo& tensor) {
  if (!IsMatrix(tensor.shape) || !tensor.name.ends_with("weight")) return false;
  if (tensor.name == "position_embd.weight" || tensor.name == "token_types.weight") return false;
  // Small, or too sensitive: norms, routers, convolutions, positions, and the small matrices of Gemma 3n, MiniMax and RWKV.
  static constexpr const char* kKept[] = {"_norm.weight",
                                          "ffn_gate_inp.weight",
                                          "ffn_gate_tid2eid.weight",
                                          "altup",
                                          "laurel",
                                          "per_layer_model_proj",
                                          "ssm_conv1d",
                                          "shortconv.conv.weight",
                                          "indexer.k_proj.weight",
                                          "indexer.q_proj.weight",
                                          "time_mix_first.weight",
                                          "time_mix_w0.weight",
                                          "time_mix_w1.weight",
                                          "time_mix_w2.weight",
                                          "time_mix_v0.weight",
                                          "time_mix_v1.weight",
                                          "time_mix_v2.weight",
                                          "time_mix_a0.weight",
                                          "time_mix_a1.weight",
                                          "time_mix_a2.weight",
                                          "time_mix_g1.weight",
                                          "time_mix_g2.weight",
                                          "time_mix_decay_w1.weight",
                                          "time_mix_decay_w2.weight",
                                          "time_mix_lerp_fused.weight",
                                          "attn_rel_b.weight",
                                          ".position_embd"};
  return std::none_of(std::begin(kKept), std::end(kKept),
                      [&](const char* piece) { return Contains(tensor.name, piece); });
}

// The first and last eighth of the layers, and every third between.
bool UseMoreBits(size_t layer, size_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

class Rules {
 public:
  Rules(const MixtureFacts& facts, const FileType& type, const MixtureOptions& options, size_t values, bool tied)
      : facts_(facts), type_(type), options_(options), values_(values), tied_(tied) {}

  // In the order of layers and names: some rules count.
  Format Choose(const TensorInfo& tensor) {
    const Part part = PartOf(tensor.name);
    if (part == Part::kHead || (part == Part::kEmbedding && tied_)) return Head(tensor);
    if (type_.mixture == Mixture::kMXFP4_MOE)
      return tensor.shape.rank() > 2 && tensor.shape[tensor.shape.rank() - 3] > 1 ? Format::kMXFP4 : Format::kQ8_0;
    switch (part) {
      case Part::kValue:
        return Value(value_++);
      case Part::kKey:
        return facts_.experts == 8 ? Format::kQ8_0 : type_.format;
      case Part::kDown: {
        // The tensors of experts need not come in the order of layers.
        const int named = LayerOf(tensor.name);
        const size_t counted = down_++;
        return Down(facts_.experts > 1 && named >= 0 ? static_cast<size_t>(named) : counted);
      }
      case Part::kAttentionOutput:
        return AttentionOutput();
      default:
        return type_.format;
    }
  }

 private:
  bool falcon() const { return facts_.architecture == "falcon"; }
  bool few_kv_heads() const { return facts_.heads_per_kv_head >= 4; }

  Format Head(const TensorInfo& tensor) const {
    if (type_.mixture == Mixture::kMXFP4_MOE || type_.mixture == Mixture::kMXFP4) return Format::kQ8_0;
    if (falcon() || tensor.shape.columns() % Traits(type_.format).block_values != 0) return Format::kQ8_0;
    return type_.format == Format::kQ8_0 ? Format::kQ8_0 : Format::kQ6_K;
  }

  Format Value(size_t index) const {
    if (facts_.experts == 8) return Format::kQ8_0;
    const Format format = ValueOfMixture(index);
    // Eight heads share one in Llama 2's and Qwen2's largest: the tensor is small.
    const bool largest = facts_.layers == 80 && (facts_.architecture == "llama" || facts_.architecture == "qwen2");
    return largest && (format == Format::kQ3_K || format == Format::kQ4_K) ? Format::kQ5_K : format;
  }

  Format ValueOfMixture(size_t index) const {
    switch (type_.mixture) {
      case Mixture::kQ2_K:
        return few_kv_heads() ? Format::kQ4_K : Format::kQ3_K;
      case Mixture::kQ2_K_S:
        return few_kv_heads() ? Format::kQ4_K : type_.format;
      case Mixture::kQ3_K_M:
        return index < 2 ? Format::kQ5_K : Format::kQ4_K;
      case Mixture::kQ3_K_L:
        return Format::kQ5_K;
      case Mixture::kIQ4_NL:
      case Mixture::kIQ4_XS:
        return few_kv_heads() ? Format::kQ5_K : type_.format;
      case Mixture::kQ4_K_M:
      case Mixture::kQ5_K_M:
        return UseMoreBits(index, values_) ? Format::kQ6_K : type_.format;
      case Mixture::kQ4_K_S:
        return index < 4 ? Format::kQ5_K : type_.format;
      default:
        return type_.format;
    }
  }

  Format Down(size_t layer) const {
    const bool early = layer < facts_.layers / 8;
    const bool more = UseMoreBits(layer, facts_.layers);
    switch (type_.mixture) {
      case Mixture::kQ2_K:
        return Format::kQ3_K;
      case Mixture::kQ2_K_S:
        return early ? Format::kQ4_K : type_.format;
      case Mixture::kQ3_K_M:
        if (layer < facts_.layers / 16) return Format::kQ5_K;
        return !falcon() || more ? Format::kQ4_K : Format::kQ3_K;
      case Mixture::kQ3_K_L:
        return falcon() ? Format::kQ4_K : Format::kQ5_K;
      case Mixture::kQ4_K_M:
        if (!falcon()) return more ? Format::kQ6_K : type_.format;
        return layer < facts_.layers / 16 ? Format::kQ6_K : more ? Format::kQ5_K : type_.format;
      case Mixture::kQ5_K_M:
        return more ? Format::kQ6_K : type_.format;
      case Mixture::kQ4_K_S:
        return early && !falcon() ? Format::kQ5_K : type_.format;
      case Mixture::kIQ4_NL:
      case Mixture::kIQ4_XS:
        return early && !options_.has_imatrix ? Format::kQ5_K : type_.format;
      case Mixture::kQ4_0:
        return early && options_.has_imatrix ? Format::kQ4_1 : type_.format;
      case Mixture::kQ5_0:
        return early && options_.has_imatrix ? Format::kQ5_1 : type_.format;
      default:
        return type_.format;
    }
  }

  Format AttentionOutput() const {
    if (falcon()) return type_.mixture == Mixture::kQ3_K_L ? Format::kQ4_K : type_.format;
    if (facts_.experts == 8) {
      static constexpr Mixture kFiveBits[] = {Mixture::kQ2_K,   Mixture::kQ3_K_S, Mixture::kQ3_K_M, Mixture::kIQ4_NL,
                                              Mixture::kQ4_K_S, Mixture::kQ4_K_M, Mixture::kIQ4_XS};
      const bool five = std::find(std::begin(kFiveBits), std::end(kFiveBits), type_.mixture) != std::end(kFiveBits);
      return five ? Format::kQ5_K : type_.format;
    }
    switch (type_.mixture) {
      case Mixture::kQ2_K:
        return Format::kQ3_K;
      case Mixture::kQ3_K_M:
        return Format::kQ4_K;
      case Mixture::kQ3_K_L:
        return Format::kQ5_K;
      default:
        return type_.format;
    }
  }

  const MixtureFacts& facts_;
  const FileType& type_;
  const MixtureOptions& options_;
  const size_t values_;  // tensors that count as values
  const bool tied_;      // no head of its own: the embedding is it
  size_t value_ = 0, down_ = 0;
};

// For rows that are no whole number of blocks of 256: the format of 32 with about as many bits, or F16.
Format WhatRowsFit(Format format, size_t columns) {
  if (columns % Traits(format).block_values == 0) return format;
  Format fallback = Format::kF16;
  switch (format) {
    case Format::kQ2_K:
    case Format::kQ3_K:
      fallback = Format::kQ4_0;
      break;
    case Format::kIQ4_XS:
      fallback = Format::kIQ4_NL;
      break;
    case Format::kQ4_K:
      fallback = Format::kQ5_0;
      break;
    case Format::kQ5_K:
      fallback = Format::kQ5_1;
      break;
    case Format::kQ6_K:
      fallback = Format::kQ8_0;
      break;
    default:
      break;
  }
  return columns % Traits(fallback).block_values == 0 ? fallback : Format::kF16;
}

// Absent keys leave the field as it is. Per-layer arrays: the first layer counts.
Status TakeCount(const Metadata& metadata, const std::string& key, size_t* field) {
  if (!metadata.Has(key)) return Status();
  MOONLIT_ASSIGN_OR_RETURN(const std::vector<int64_t> values, metadata.GetInts(key));
  if (values.empty() || values[0] < 0 || values[0] > INT32_MAX)
    return Errorf(Code::kCorrupt, "%s: expected a count", key.c_str());
  *field = static_cast<size_t>(values[0]);
  return Status();
}

bool HasImportance(const TensorInfo& tensor, const MixtureOptions& options) {
  return options.imatrix == nullptr ? options.has_imatrix : options.imatrix->rows.count(tensor.name) != 0;
}

}  // namespace

Result<MixtureFacts> ReadMixtureFacts(const Metadata& metadata) {
  MixtureFacts facts;
  MOONLIT_ASSIGN_OR_RETURN(facts.architecture, metadata.GetString("general.architecture"));
  const std::string prefix = facts.architecture + ".";
  size_t heads = 1;
  MOONLIT_RETURN_IF_ERROR(TakeCount(metadata, prefix + "block_count", &facts.layers));
  MOONLIT_RETURN_IF_ERROR(TakeCount(metadata, prefix + "attention.head_count", &heads));
  size_t kv_heads = heads;
  MOONLIT_RETURN_IF_ERROR(TakeCount(metadata, prefix + "attention.head_count_kv", &kv_heads));
  facts.heads_per_kv_head = kv_heads == 0 ? 0 : heads / kv_heads;
  MOONLIT_RETURN_IF_ERROR(TakeCount(metadata, prefix + "expert_count", &facts.experts));
  return facts;
}

bool WantsImportance(const TensorInfo& tensor) {
  const Part part = PartOf(tensor.name);
  return MayBeEncoded(tensor) && part != Part::kHead && part != Part::kEmbedding;
}

Result<std::vector<Format>> ChooseFormats(const std::vector<const TensorInfo*>& tensors, const MixtureFacts& facts,
                                          const FileType& type, const MixtureOptions& options) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const int layer_a = LayerOf(tensors[a]->name), layer_b = LayerOf(tensors[b]->name);
    return layer_a != layer_b ? layer_a < layer_b : tensors[a]->name < tensors[b]->name;
  });
  const auto values = std::count_if(tensors.begin(), tensors.end(),
                                    [](const TensorInfo* tensor) { return PartOf(tensor->name) == Part::kValue; });
  const bool tied = std::none_of(tensors.begin(), tensors.end(),
                                 [](const TensorInfo* tensor) { return PartOf(tensor->name) == Part::kHead; });
  Rules rules(facts, type, options, static_cast<size_t>(values), tied);
  std::vector<Format> formats(tensors.size());
  for (size_t i : order) {
    const TensorInfo& tensor = *tensors[i];
    if (!MayBeEncoded(tensor)) {
      formats[i] = tensor.format;
      continue;
    }
    formats[i] = IsQuantized(type.format) && !options.pure ? rules.Choose(tensor) : type.format;
    formats[i] = WhatRowsFit(formats[i], tensor.shape.columns());
    const Part part = PartOf(tensor.name);
    if (type.mixture == Mixture::kQ2_K_S && formats[i] == Format::kQ2_K && part != Part::kHead &&
        part != Part::kEmbedding && !HasImportance(tensor, options)) {
      return Errorf(Code::kInvalidArgument,
                    "Q2_K_S needs an importance matrix (llama.cpp's llama-imatrix makes one), and there is none for "
                    "tensor %s; Q2_K does without",
                    tensor.name.c_str());
    }
  }
  return formats;
}

}  // namespace moonlit
