// SPDX-License-Identifier: Apache-2.0
// Where rows lie, against small tables written down by hand.
#include "runtime/weights/row_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

namespace moonlit {
namespace {

std::vector<size_t> Places(RowMap map, size_t rows, size_t source_rows) {
  EXPECT_TRUE(map.SetRows(source_rows));
  std::vector<size_t> places;
  for (size_t r = 0; r < rows; ++r) places.push_back(map.SourceRow(r));
  return places;
}

using Rows = std::vector<size_t>;

TEST(RowOrder, PairsOfHeads) {
  EXPECT_EQ(Places({.order = RowOrder::kRotary, .heads = 2}, 8, 8), Rows({0, 2, 1, 3, 4, 6, 5, 7}));
}

TEST(RowOrder, HalvesOfExperts) {
  EXPECT_EQ(Places({.order = RowOrder::kFirstHalf}, 4, 4), Rows({0, 1, 4, 5}));
  EXPECT_EQ(Places({.order = RowOrder::kSecondHalf}, 4, 4), Rows({2, 3, 6, 7}));
}

// Two groups of two queries, a key and a value, each of two rows: q0 q1 k0 v0, q2 q3 k1 v1.
TEST(RowOrder, GroupsOfHeads) {
  EXPECT_EQ(Places({.order = RowOrder::kGroupedQkv, .heads = 4, .kv_heads = 2}, 16, 16),
            Rows({0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15}));
  // GPT-NeoX and BLOOM: q0 k0 v0 q1 k1 v1.
  EXPECT_EQ(Places({.order = RowOrder::kGroupedQkv, .heads = 2, .kv_heads = 2}, 6, 6), Rows({0, 3, 1, 4, 2, 5}));
  // One key and value for all queries: as it is.
  EXPECT_EQ(Places({.order = RowOrder::kGroupedQkv, .heads = 4, .kv_heads = 1}, 6, 6), Rows({0, 1, 2, 3, 4, 5}));
}

TEST(RowOrder, EveryRowOnce) {
  RowMap map = {.order = RowOrder::kGroupedQkv, .heads = 12, .kv_heads = 3};
  const Rows places = Places(map, 18 * 5, 18 * 5);
  EXPECT_EQ(std::set<size_t>(places.begin(), places.end()).size(), places.size());
  EXPECT_EQ(*std::max_element(places.begin(), places.end()), places.size() - 1);
}

TEST(RowOrder, RefusesRowsThatDoNotDivide) {
  const auto takes = [](RowMap map, uint64_t rows) { return map.SetRows(rows); };
  EXPECT_FALSE(takes({.order = RowOrder::kRotary, .heads = 2}, 6));
  EXPECT_FALSE(takes({.order = RowOrder::kFirstHalf}, 3));
  EXPECT_FALSE(takes({.order = RowOrder::kGroupedQkv, .heads = 4, .kv_heads = 2}, 12));
  EXPECT_FALSE(takes({.order = RowOrder::kGroupedQkv, .heads = 4, .kv_heads = 3}, 20));
  EXPECT_FALSE(takes({.order = RowOrder::kGroupedQkv, .heads = 4, .kv_heads = 0}, 20));
  EXPECT_FALSE(takes({.order = RowOrder::kRotary, .heads = 2}, 0));
}

}  // namespace
}  // namespace moonlit
