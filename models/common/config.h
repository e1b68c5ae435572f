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
  RopeSpec rope;  // pairs and divisors are set by the architecture
};

// Reads the keys that decoder-only transformers share ("<architecture>.block_count" ...; GGUF's specification,
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md). A key that is absent without a default, of another type or out of
// range is kCorrupt and names key, value and range.
Result<ModelConfig> ReadCommonConfig(const Metadata& metadata, const WeightSource& source,
                                     const std::string& architecture);

}  // namespace moonlit
