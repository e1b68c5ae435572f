// SPDX-License-Identifier: Apache-2.0
// A cache whose pages can be read with bare eyes: a slot is one uint32_t at 4 * slot, so that everything written can be
// read back; the rest of the page is padding that must stay zero. Pages are small, so that short sequences cross many.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/cache/cache.h"

namespace moonlit {

inline PageLayout MakeLayout(uint32_t page_tokens) {
  PageLayout layout{};
  layout.page_tokens = page_tokens;
  layout.page_bytes = page_tokens * 4 + 64;
  return layout;
}

inline std::unique_ptr<PagePool> MakePool(std::vector<uint32_t> page_tokens, size_t pages,
                                          const PagePoolOptions& options = {}) {
  std::vector<PageLayout> groups;
  for (uint32_t tokens : page_tokens) groups.push_back(MakeLayout(tokens));
  auto pool = PagePool::Create(groups, pages, options);
  EXPECT_TRUE(pool.ok()) << pool.status().ToString();
  return std::move(pool).value();
}

inline uint32_t Get(const Sequence& sequence, size_t group, int64_t slot) {
  const size_t tokens = sequence.pool()->layout(group).page_tokens;
  uint32_t value;
  std::memcpy(&value,
              sequence.pages()[group][static_cast<size_t>(slot) / tokens] + static_cast<size_t>(slot) % tokens * 4, 4);
  return value;
}

inline void Put(Sequence& sequence, int64_t slot, uint32_t value) {
  for (size_t g = 0; g < sequence.pool()->groups(); ++g) {
    const size_t tokens = sequence.pool()->layout(g).page_tokens;
    std::memcpy(sequence.pages()[g][static_cast<size_t>(slot) / tokens] + static_cast<size_t>(slot) % tokens * 4,
                &value, 4);
  }
}

// Appends values that are no tokens' content.
inline Status AppendValues(Sequence& sequence, const std::vector<uint32_t>& values) {
  const int64_t length = sequence.length();
  MOONLIT_RETURN_IF_ERROR(sequence.Reserve(length + static_cast<int64_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i) Put(sequence, length + static_cast<int64_t>(i), values[i]);
  sequence.Commit(static_cast<int64_t>(values.size()));
  return Status();
}

// What a slot holds, as keys and values do: decided by its token and by all before it.
inline uint32_t ContentAfter(uint32_t before, int32_t token) {
  uint32_t value = (before ^ static_cast<uint32_t>(token + 1)) * 0x9E3779B1u;
  return value ^ value >> 15;
}

// Appends tokens with such content.
inline Status AppendTokens(Sequence& sequence, std::span<const int32_t> tokens) {
  const int64_t length = sequence.length();
  MOONLIT_RETURN_IF_ERROR(sequence.Reserve(length + static_cast<int64_t>(tokens.size())));
  uint32_t value = length == 0 ? 0 : Get(sequence, 0, length - 1);
  for (size_t i = 0; i < tokens.size(); ++i) {
    value = ContentAfter(value, tokens[i]);
    Put(sequence, length + static_cast<int64_t>(i), value);
  }
  sequence.Commit(tokens);
  return Status();
}

}  // namespace moonlit
