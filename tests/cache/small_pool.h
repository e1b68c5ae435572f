// SPDX-License-Identifier: Apache-2.0
// A cache whose pages can be read with bare eyes: a slot is one uint32_t at 4 * slot, so that everything written can be
// read back; the rest of the page is padding that must stay zero. Pages are small, so that short sequences cross many.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
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

inline uint32_t Mixed(uint32_t before, uint32_t value) {
  const uint32_t mixed = (before ^ value) * 0x9E3779B1u;
  return mixed ^ mixed >> 15;
}

// What a slot holds, as keys and values do: decided by its token and by what the token sees in each group.
// see(group, slot): what lies there, 0 for a hole.
template <class See>
uint32_t ContentAt(const PagePool& pool, int64_t slot, int32_t token, const See& see) {
  uint32_t content = Mixed(0, static_cast<uint32_t>(token + 1));
  for (size_t g = 0; g < pool.groups(); ++g) {
    const auto lookback = static_cast<int64_t>(pool.lookback(g));
    // The slot before stands for all before it, which its own content depends on.
    int64_t seen = lookback == 0 ? slot - 1 : slot + 1 - lookback;
    for (seen = std::max<int64_t>(seen, 0); seen < slot; ++seen) content = Mixed(content, see(g, seen));
  }
  return content;
}

// What slots hold that are read with all that they should see, after those that `values` has.
inline void AppendContents(const PagePool& pool, std::span<const int32_t> tokens, std::vector<uint32_t>& values) {
  for (int32_t token : tokens) {
    const auto slot = static_cast<int64_t>(values.size());
    values.push_back(
        ContentAt(pool, slot, token, [&](size_t, int64_t seen) { return values[static_cast<size_t>(seen)]; }));
  }
}

// Appends tokens with the contents that follow from the pages that are there.
inline Status AppendTokens(Sequence& sequence, std::span<const int32_t> tokens) {
  const PagePool& pool = *sequence.pool();
  int64_t slot = sequence.length();
  MOONLIT_RETURN_IF_ERROR(sequence.Reserve(slot + static_cast<int64_t>(tokens.size())));
  const auto see = [&](size_t g, int64_t seen) {
    const size_t page = static_cast<size_t>(seen) / pool.layout(g).page_tokens;
    return sequence.page(g, page) == Sequence::kHole ? 0 : Get(sequence, g, seen);
  };
  for (int32_t token : tokens) {
    Put(sequence, slot, ContentAt(pool, slot, token, see));
    ++slot;
  }
  sequence.Commit(tokens);
  return Status();
}

}  // namespace moonlit
