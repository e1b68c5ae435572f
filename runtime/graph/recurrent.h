// SPDX-License-Identifier: Apache-2.0
// What recurrent layers are, for Graph::LinearAttention and Graph::GatedDelta. docs/attention.md has the formulas.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moonlit {

// Which head of keys and queries a value head reads when there are fewer of them.
enum class HeadOrder : uint8_t {
  kGrouped,  // head h reads h / (value_heads / key_heads): neighbours share
  kTiled,    // head h reads h % key_heads
};

struct RecurrentSpec {
  size_t key_heads = 0;    // of queries and keys
  size_t value_heads = 0;  // of values and outputs, each with a state of its own; a multiple of key_heads
  size_t key_dim = 0;
  size_t value_dim = 0;
  HeadOrder order = HeadOrder::kGrouped;
  // Columns of the inputs where the heads begin: one value may hold queries, keys and values side by side.
  size_t q_first = 0, k_first = 0, v_first = 0;
  float eps = 1e-6f;  // delta rule: inside the root of the norm, above 0; linear attention: added to the denominator
  bool normalise = false;  // delta rule: queries and keys are divided by sqrt(sum of their squares + eps)
  float scale = 1;         // delta rule: multiplies the queries, after their norm
};

inline constexpr size_t kMostRecurrentDim = 1024;  // of key_dim and value_dim
inline constexpr size_t kMostShortConvWidth = 16;

}  // namespace moonlit
