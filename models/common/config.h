// SPDX-License-Identifier: Apache-2.0
// A model's sizes, read from metadata and checked once: afterwards every divisor is positive, every product fits, and heads
// divide as they must.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/base/status.h"
#include "runtime/graph/graph.h"
#include "runtime/weights/metadata.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

struct ModelConfig {
  std::string architecture;  // "llama"
  std::string name;          // general.name, may be empty
  size_t layers = 0;
  size_t width = 0;  // embedding_length
  size_t ffn_width = 0;
  size_t heads = 0;
  size_t kv_heads = 0;  // divides heads
  size_t key_dim = 0;
  size_t value_dim = 0;
  size_t vocab = 0;  // rows of token_embd.weight
  size_t n_ctx_train = 0;
  float rms_eps = 0;
  size_t experts = 0;  // 0: every layer has one feed-forward network
  size_t experts_used = 0;
  size_t expert_width = 0;         // of one expert's hidden layer
  size_t shared_expert_width = 0;  // of the expert that every token uses, where there is one
  // Factors of the embedding, of what each block adds to the residual stream, and divisor of the logits; of q . k.
  float embedding_scale = 1, residual_scale = 1, logit_divisor = 1, attention_scale = 0;
  RopeSpec rope;  // pairs and divisors are set by the architecture
};

// What an architecture can compute beyond a plain decoder; where it can't, a file that asks for it is refused.
enum class ExpertsKey { kRefused, kOptional, kRequired };
struct CommonFeatures {
  ExpertsKey experts = ExpertsKey::kRefused;
  bool scales = false;  // embedding_scale, residual_scale, logit_scale, attention.scale
};

// Reads the keys that decoder-only transformers share ("<architecture>.block_count" ...; GGUF's specification,
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). A key that is absent without a default, of another type or out of
// range is kCorrupt and names key, value and range.
Result<ModelConfig> ReadCommonConfig(const Metadata& metadata, const WeightSource& source,
                                     const std::string& architecture, const CommonFeatures& features = {});

}  // namespace moonlit
