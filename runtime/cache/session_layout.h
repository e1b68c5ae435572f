// SPDX-License-Identifier: Apache-2.0
// What the writer and the reader of session files (session_file.h) both know of their bytes. For these two alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/page_layout.h"
#include "runtime/cache/cache.h"

namespace moonlit {

inline constexpr char kSessionMagic[8] = {'M', 'O', 'O', 'N', 'S', 'E', 'S', 'S'};
inline constexpr uint32_t kSessionVersion = 3;
inline constexpr size_t kFixedBytes = 32;  // magic to file bytes
inline constexpr size_t kHeadBytesAt = 16, kFileBytesAt = 24;
inline constexpr size_t kSumBytes = sizeof(uint64_t);

// A page layout as the file has it.
struct StoredLayout {
  uint32_t page_tokens, layers, kv_heads, key_dim, value_dim, key_type, value_type;
};
inline StoredLayout Stored(const PageLayout& layout) {
  return {layout.page_tokens,
          layout.layers,
          layout.kv_heads,
          layout.key_dim,
          layout.value_dim,
          static_cast<uint32_t>(layout.key_type),
          static_cast<uint32_t>(layout.value_type)};
}

// Of a sequence's recurrent state; 0: the pool has none.
inline uint32_t StateFloats(const PagePool& pool) {
  return pool.states() == nullptr ? 0 : static_cast<uint32_t>(pool.states()->bytes() / sizeof(float));
}

}  // namespace moonlit
