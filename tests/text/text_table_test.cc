// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/text_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace moonlit
