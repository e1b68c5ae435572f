// SPDX-License-Identifier: Apache-2.0
// A model's sizes, read from metadata and checked once: afterwards every divisor is positive, every product fits, and heads
// divide as they must.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/graph/graph.h"
#include "runtime/weights/metadata.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

inline constexpr size_t kLargestHead = 1024;  // larger heads have no attention kernel

struct ModelConfig {
  std::string architecture;  // "llama"
  std::string name;          // general.name, may be empty
  size_t layers = 0;
  size_t width = 0;                // embedding_length
  size_t ffn_width = 0;            // of every layer, or the widest
  std::vector<size_t> ffn_widths;  // [layers] where they differ, else empty
  size_t heads = 0;
  size_t kv_heads = 0;  // divides heads
  size_t key_dim = 0;
  size_t value_dim = 0;
  size_t vocab = 0;  // rows of token_embd.weight
  size_t n_ctx_train = 0;
  float norm_eps = 0;
  size_t experts = 0;  // 0: every layer has one feed-forward network
  size_t experts_used = 0;
  size_t expert_width = 0;         // of one expert's hidden layer
  size_t shared_expert_width = 0;  // of the expert that every token uses, where there is one
  // Attention layers may be of two kinds, as Gemma 2 has them: local ones see a window of keys, or rotate otherwise.
  std::vector<bool> local;                        // [layers]; empty: none is
  size_t window = 0;                              // keys that a local layer sees; 0: all
  size_t local_key_dim = 0, local_value_dim = 0;  // head sizes of local layers
  size_t shared_kv_layers = 0;  // the last ones, which read the keys and values of the last earlier layer of their kind
  RopeSpec rope, local_rope;    // pairs and divisors are set by the architecture
  float attention_softcap = 0, logit_softcap = 0;  // 0: off
  float alibi_max_bias = 0;                        // 0: off
  float alibi_scale = 1;                           // of its slopes
  float clamp_qkv = 0;                             // queries, keys and values are clamped to it; 0: off
  bool parallel_residual = false;
  bool bidirectional = false;           // an encoder: tokens see each other whatever their order
  size_t token_types = 0;               // BERT's kinds of text, of which we have the first
  Pooling pooling = Pooling::kUnknown;  // how a text becomes a vector, where the file says it
  size_t layer_input_width = 0;         // of what Gemma 4's layers get beside the residual stream
  // Factors of the embedding, of what each block adds to the residual stream, and divisor of the logits; of q . k.
  float embedding_scale = 1, residual_scale = 1, logit_divisor = 1, attention_scale = 0;
};

// What an architecture can compute beyond a plain decoder; where it can't, a file that asks for it is refused.
enum class ExpertsKey { kRefused, kOptional, kRequired };
struct CommonFeatures {
  ExpertsKey experts = ExpertsKey::kRefused;
  NormKind norm = NormKind::kRms;
  // Keys, of those that change what is computed, which the architecture reads: "embedding_scale", "residual_scale", "logit_scale",
  // "attention.scale", "attn_logit_softcapping", "final_logit_softcapping", "attention.clamp_kqv", "attention.sliding_window",
  // "attention.max_alibi_bias", "use_parallel_residual".
  std::vector<std::string_view> keys = {};
  bool feed_forward_per_layer = false;  // layers may have networks of different widths
};

// Which layers are local, for ModelConfig::local: what "attention.sliding_window_pattern" says, one flag a layer or the period; else
// all but every `period`-th (1: none is local, 0: all are).
Result<std::vector<bool>> ReadLocalLayers(const Metadata& metadata, const ModelConfig& config, size_t period);

// Reads the keys that decoder-only transformers share ("<architecture>.block_count" ...; GGUF's specification,
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). A key that is absent without a default, of another type or out of
// range is kCorrupt and names key, value and range.
Result<ModelConfig> ReadCommonConfig(const Metadata& metadata, const WeightSource& source,
                                     const std::string& architecture, const CommonFeatures& features = {});

}  // namespace moonlit
