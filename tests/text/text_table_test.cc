// SPDX-License-Identifier: Apache-2.0
// Tables of texts and merges: what they find, and that no file can fill one slot of theirs.
#include "runtime/text/text_table.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/text/keyed_hash.h"
#include "runtime/text/merge_table.h"
#include "runtime/text/tokenizer_data.h"
#include "runtime/text/vocabulary.h"

namespace moonlit {
namespace {

TEST(TextTable, FindsNothingWhileEmpty) {
  TextTable table;
  EXPECT_EQ(table.size(), 0);
  EXPECT_EQ(table.Find(""), -1);
  EXPECT_EQ(table.Find("a"), -1);
}

TEST(TextTable, KeepsTextsWithZerosAndNone) {
  TextTable table;
  EXPECT_EQ(table.Add(""), 0);
  EXPECT_EQ(table.Add(std::string_view("\0", 1)), 1);
  EXPECT_EQ(table.Add(""), 2);
  EXPECT_EQ(table.Find(""), 0);
  EXPECT_EQ(table.Find(std::string_view("\0", 1)), 1);
  EXPECT_EQ(table.Find(std::string_view("\0\0", 2)), -1);
  EXPECT_EQ(table[2], "");
}

// Beside a map, with repeated texts, grown from nothing and with room reserved before and in the middle.
TEST(TextTable, AgreesWithAMap) {
  for (size_t reserve_at : {size_t{0}, size_t{700}, SIZE_MAX}) {
    std::minstd_rand random(5);
    TextTable table;
    std::map<std::string, int32_t> first;
    std::vector<std::string> all;
    for (size_t i = 0; i < 3000; ++i) {
      if (i == reserve_at) table.Reserve(2500, 9000);
      std::string text;
      for (size_t n = random() % 4; n > 0; --n) text.push_back(static_cast<char>('a' + random() % 11));
      const auto number = static_cast<int32_t>(i);
      first.emplace(text, number);
      all.push_back(text);
      ASSERT_EQ(table.Add(text), number);
      ASSERT_EQ(table.Find(text), first[text]);
    }
    ASSERT_EQ(table.size(), 3000);
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(table[static_cast<int32_t>(i)], all[i]);
      EXPECT_EQ(table.Find(all[i]), first[all[i]]);
      EXPECT_EQ(table.Find(all[i] + "z"), -1);
    }
  }
}

// Python's hash of bytes with PYTHONHASHSEED=0 (sys.hash_info: siphash13).
TEST(KeyedHash, IsSipHash13) {
  EXPECT_EQ(KeyedHash("a", {0, 0}), 0x407448d2b89b1813u);
  EXPECT_EQ(KeyedHash("abcdefg", {0, 0}), 0x6db12aae9070f506u);
  EXPECT_EQ(KeyedHash("abcdefgh", {0, 0}), 0x3f7b849c0b8e35eau);
  EXPECT_EQ(KeyedHash("abcdefghijklmnopqrstuvwxyz", {0, 0}), 0x323ccd2fd30709dfu);
  EXPECT_NE(KeyedHash("a", {0, 1}), KeyedHash("a", {0, 0}));
  EXPECT_NE(KeyedHash(1, 2, {0, 1}), KeyedHash(1, 2, {0, 0}));
  EXPECT_NE(KeyedHash(1, 2, {1, 0}), KeyedHash(1, 2, {0, 0}));
}

// Texts that std::hash puts into one slot.
TEST(TextTable, TextsMadeToCollideDoNot) {
  constexpr size_t kCount = 1000, kMask = 2047;
  TextTable table;
  for (size_t i = 0; static_cast<size_t>(table.size()) < kCount; ++i) {
    const std::string text = std::to_string(i);
    if ((std::hash<std::string_view>{}(text)&kMask) == 0) table.Add(text);
  }
  EXPECT_LT(table.LongestProbe(), 100u);
}

// Pairs that a fixed multiplication puts into one slot.
TEST(MergeTable, PairsMadeToCollideDoNot) {
  constexpr int32_t kTokens = 2000;
  constexpr size_t kCount = 1000, kMask = 2047;
  TokenizerData data;
  for (int32_t i = 0; i < kTokens; ++i) data.tokens.push_back("t" + std::to_string(i));
  const auto vocabulary = Vocabulary::Create(&data, {});
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.status().ToString();
  std::vector<std::string> merges;
  for (int32_t left = 0; left < kTokens; ++left) {
    for (int32_t right = 0; right < kTokens && merges.size() < kCount; ++right) {
      const uint64_t pair = (uint64_t{static_cast<uint32_t>(left)} << 32) | static_cast<uint32_t>(right);
      if ((((pair ^ (pair >> 32)) * 0x9E3779B97F4A7C15ull) >> 32 & kMask) != 0) continue;
      merges.push_back("t" + std::to_string(left) + " t" + std::to_string(right));
    }
  }
  ASSERT_EQ(merges.size(), kCount);
  const auto table = MergeTable::Create(**vocabulary, merges);
  ASSERT_TRUE(table.ok()) << table.status().ToString();
  EXPECT_LT(table->LongestProbe(), 100u);
  for (size_t rank = 0; rank < merges.size(); rank += 37) {
    const size_t space = merges[rank].find(' ');
    const int32_t left = table->Find(merges[rank].substr(0, space)),
                  right = table->Find(merges[rank].substr(space + 1));
    EXPECT_EQ(table->FindMerge(left, right), static_cast<int32_t>(rank));
  }
}

}  // namespace
}  // namespace moonlit
