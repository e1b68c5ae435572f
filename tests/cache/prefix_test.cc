// SPDX-License-Identifier: Apache-2.0
// Blocks found by content, evicted, dropped and forgotten.
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "tests/cache/small_pool.h"

namespace moonlit {
namespace {

std::vector<int32_t> Text(size_t n, int32_t seed = 0) {
  std::vector<int32_t> tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = static_cast<int32_t>(i) * 3 + seed;
  return tokens;
}

void Fill(PagePool& pool, std::span<const int32_t> tokens) {
  Sequence sequence(&pool);
  ASSERT_TRUE(AppendTokens(sequence, tokens).ok());
}

void ExpectContent(const Sequence& sequence, std::span<const int32_t> tokens) {
  ASSERT_EQ(sequence.length(), static_cast<int64_t>(tokens.size()));
  std::vector<uint32_t> values;
  AppendContents(*sequence.pool(), tokens, values);
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (size_t g = 0; g < sequence.pool()->groups(); ++g) {
      if (sequence.page(g, i / sequence.pool()->layout(g).page_tokens) == Sequence::kHole) continue;
      ASSERT_EQ(Get(sequence, g, static_cast<int64_t>(i)), values[i]) << "group " << g << " slot " << i;
    }
    ASSERT_EQ(sequence.tokens()[i], tokens[i]);
  }
}

TEST(Prefix, AnEndedSequencesFullBlocksAreTakenAgain) {
  const auto pool = MakePool({16}, 8);
  const auto text = Text(40);
  Fill(*pool, text);
  EXPECT_EQ(pool->cached_pages(0), 2u) << "the third page is not full";
  EXPECT_EQ(pool->free_pages(0), 6u);
  Sequence again(pool.get());
  EXPECT_EQ(again.TakePrefix(text), 32u);
  EXPECT_EQ(pool->cached_pages(0), 0u) << "in use, so no longer for the taking";
  ExpectContent(again, std::span(text).first(32));
  ASSERT_TRUE(AppendTokens(again, std::span(text).subspan(32)).ok());
  ExpectContent(again, text);
}

// Reuse goes exactly to the edit, and never beyond what was asked for.
TEST(Prefix, ReuseGoesToTheEditAndNoFurtherThanAsked) {
  const auto pool = MakePool({16}, 16);
  const auto text = Text(80);
  Fill(*pool, text);
  for (size_t edit = 0; edit < 80; ++edit) {
    auto other = text;
    other[edit] = 9999;
    Sequence sequence(pool.get());
    EXPECT_EQ(sequence.TakePrefix(other), edit / 16 * 16) << edit;
  }
  for (size_t n = 0; n <= 80; ++n) {
    Sequence sequence(pool.get());
    EXPECT_EQ(sequence.TakePrefix(std::span(text).first(n)), n / 16 * 16) << n;
  }
}

TEST(Prefix, GrowingPromptsAreReadOnce) {
  const auto pool = MakePool({16}, 64);
  const auto text = Text(20 * 30);
  size_t computed = 0;
  for (size_t n = 30; n <= text.size(); n += 30) {
    Sequence sequence(pool.get());
    const size_t taken = sequence.TakePrefix(std::span(text).first(n - 1));
    computed += n - taken;
    EXPECT_LE(n - taken, 30u + 16u);
    ASSERT_TRUE(AppendTokens(sequence, std::span(text).subspan(taken, n - taken)).ok());
    ExpectContent(sequence, std::span(text).first(n));
  }
  EXPECT_LT(computed, text.size() + 20 * 16);
}

TEST(Prefix, LiveSequencesShareToo) {
  const auto pool = MakePool({16}, 8);
  const auto text = Text(48);
  Sequence a(pool.get()), b(pool.get());
  ASSERT_TRUE(AppendTokens(a, text).ok());
  ASSERT_TRUE(AppendTokens(b, text).ok()) << "computed twice";
  EXPECT_EQ(pool->free_pages(0), 5u) << "but held once";
  EXPECT_EQ(a.page(0, 1), b.page(0, 1));
  ExpectContent(b, text);
}

TEST(Prefix, AStateHasBlocksOfItsOwn) {
  const auto pool = MakePool({16}, 8);
  const auto text = Text(16);
  {
    Sequence sequence(pool.get(), "adapter a");
    ASSERT_TRUE(AppendTokens(sequence, text).ok());
  }
  EXPECT_EQ(Sequence(pool.get()).TakePrefix(text), 0u);
  EXPECT_EQ(Sequence(pool.get(), "adapter b").TakePrefix(text), 0u);
  EXPECT_EQ(Sequence(pool.get(), "adapter a").TakePrefix(text), 16u);
}

// A block of another text, state or place is not taken for this one, even when all hashes are equal.
TEST(Prefix, EqualHashesAreNotEqualTexts) {
  const auto pool = MakePool({16}, 32, {.share_prefixes = true, .prefix_hash_mask = 0});
  const auto a = Text(48), b = Text(48, 1000);
  Fill(*pool, a);
  Fill(*pool, b);
  auto mixed = a;
  std::copy(b.begin() + 16, b.end(), mixed.begin() + 16);
  Sequence sequence(pool.get());
  EXPECT_EQ(sequence.TakePrefix(mixed), 16u);
  EXPECT_EQ(Sequence(pool.get(), "other").TakePrefix(a), 0u);
  EXPECT_EQ(Sequence(pool.get()).TakePrefix(std::span(a).subspan(16)), 0u);
  Sequence whole(pool.get());
  EXPECT_EQ(whole.TakePrefix(b), 48u);
  ExpectContent(whole, b);
}

TEST(Prefix, TheLeastRecentlyUsedGoesFirstAndChildrenBeforeParents) {
  const auto pool = MakePool({16}, 6);
  const auto a = Text(48), b = Text(32, 1000);
  Fill(*pool, a);
  Fill(*pool, b);
  { EXPECT_EQ(Sequence(pool.get()).TakePrefix(std::span(a).first(32)), 32u); }  // a's first two are used again
  const auto left = [&](const std::vector<int32_t>& text) { return Sequence(pool.get()).TakePrefix(text); };
  Sequence sequence(pool.get());
  const auto other = Text(96, 2000);
  ASSERT_TRUE(AppendTokens(sequence, std::span(other).first(32)).ok());
  // One page was free; a's third block went, whose last use was the longest ago.
  EXPECT_EQ(pool->prefixes()->size(), 2u + 2u + 2u);
  ASSERT_TRUE(AppendTokens(sequence, std::span(other).subspan(32, 32)).ok());
  EXPECT_EQ(left(a), 32u) << "b's two blocks went";
  EXPECT_EQ(left(b), 0u);
  ASSERT_TRUE(AppendTokens(sequence, std::span(other).subspan(64, 16)).ok());
  EXPECT_EQ(left(a), 16u) << "the child went, its parent is there";
  ASSERT_TRUE(AppendTokens(sequence, std::span(other).subspan(80, 16)).ok());
  EXPECT_EQ(left(a), 0u);
  const Status full = sequence.Reserve(97);
  EXPECT_EQ(full.code(), Code::kExhausted);
  EXPECT_EQ(sequence.length(), 96);
}

TEST(Prefix, WhatCannotHelpIsNotEvicted) {
  const auto pool = MakePool({16}, 6);
  const auto text = Text(32);
  Fill(*pool, text);
  Sequence sequence(pool.get());
  EXPECT_EQ(sequence.Reserve(7 * 16).code(), Code::kExhausted);
  EXPECT_EQ(pool->cached_pages(0), 2u);
  EXPECT_TRUE(sequence.Reserve(6 * 16).ok());
  EXPECT_EQ(pool->cached_pages(0), 0u);
}

// A session that has the whole pool goes back by one token and on: its last page is known to the index, but there is
// none for a copy.
TEST(Prefix, TheIndexLetsGoOfAPageThatMustBeWritten) {
  for (const size_t pages : {2, 3}) {
    const auto pool = MakePool({16}, pages);
    const auto text = Text(32);
    Sequence sequence(pool.get());
    ASSERT_TRUE(AppendTokens(sequence, text).ok());
    sequence.Truncate(31);
    const std::vector<int32_t> other = {7777};
    ASSERT_TRUE(AppendTokens(sequence, other).ok()) << pages;
    auto changed = text;
    changed[31] = 7777;
    ExpectContent(sequence, changed);
    Sequence old(pool.get());
    EXPECT_EQ(old.TakePrefix(text), pages == 2 ? 16u : 32u) << "with a page to spare the old text stays known";
  }
}

TEST(Prefix, ContentWithoutTokensIsNeverShared) {
  const auto pool = MakePool({16}, 8);
  {
    Sequence sequence(pool.get());
    ASSERT_TRUE(AppendTokens(sequence, Text(16)).ok());
    ASSERT_TRUE(AppendValues(sequence, std::vector<uint32_t>(16, 5)).ok());
    ASSERT_TRUE(AppendTokens(sequence, Text(16)).ok());
    EXPECT_EQ(pool->prefixes()->size(), 1u);
  }
  const auto off = MakePool({16}, 8, {.share_prefixes = false});
  Fill(*off, Text(40));
  EXPECT_EQ(off->free_pages(0), 8u);
  EXPECT_EQ(Sequence(off.get()).TakePrefix(Text(40)), 0u);
}

TEST(Prefix, PagesOfDifferentSizesMakeOneBlock) {
  const auto pool = MakePool({16, 24}, 16);
  EXPECT_EQ(pool->block_tokens(), 48u);
  const auto text = Text(100);
  Fill(*pool, text);
  Sequence again(pool.get());
  EXPECT_EQ(again.TakePrefix(text), 96u);
  ExpectContent(again, std::span(text).first(96));
  // Two texts that part in a block's second page share its first, and so do their blocks.
  Sequence a(pool.get());
  ASSERT_TRUE(AppendTokens(a, Text(20, 5000)).ok());
  Sequence b = a.Fork();
  ASSERT_TRUE(AppendTokens(a, Text(28, 6000)).ok());
  ASSERT_TRUE(AppendTokens(b, Text(28, 7000)).ok());
  EXPECT_EQ(a.page(0, 0), b.page(0, 0));
  EXPECT_EQ(pool->index_references(0, a.page(0, 0)), 2u);
}

// A state that no session has and no block belongs to is forgotten: adapters come and go.
TEST(Prefix, StatesComeAndGo) {
  const auto pool = MakePool({16}, 8);
  for (int i = 0; i < 100; ++i) {
    Sequence sequence(pool.get(), "adapter " + std::to_string(i));
    ASSERT_TRUE(AppendTokens(sequence, Text(15)).ok());
    EXPECT_EQ(pool->prefixes()->roots(), 1u);
  }
  EXPECT_EQ(pool->prefixes()->roots(), 0u);
  for (int i = 0; i < 100; ++i) {
    Sequence sequence(pool.get(), "adapter " + std::to_string(i));
    ASSERT_TRUE(AppendTokens(sequence, Text(40)).ok());
  }
  EXPECT_LE(pool->prefixes()->roots(), 4u) << "what 8 pages hold";
  EXPECT_EQ(Sequence(pool.get(), "adapter 99").TakePrefix(Text(40)), 32u);
  EXPECT_EQ(Sequence(pool.get(), "adapter 0").TakePrefix(Text(40)), 0u);
  while (pool->prefixes()->EvictOne()) {
  }
  EXPECT_EQ(pool->prefixes()->roots(), 0u);
}

TEST(Drop, BlocksMoveDownAndRememberTheirPositions) {
  const auto pool = MakePool({16}, 8);
  const auto text = Text(90);
  Sequence sequence(pool.get());
  ASSERT_TRUE(AppendTokens(sequence, text).ok());
  std::vector<uint32_t> values;
  for (int64_t slot = 0; slot < 90; ++slot) values.push_back(Get(sequence, 0, slot));
  sequence.Drop(16, 48);
  ASSERT_EQ(sequence.length(), 58);
  EXPECT_EQ(pool->free_pages(0), 2u) << "the index still holds the dropped blocks";
  EXPECT_EQ(pool->cached_pages(0), 2u);
  for (int64_t slot = 0; slot < 58; ++slot) {
    const auto old = static_cast<size_t>(slot < 16 ? slot : slot + 32);
    ASSERT_EQ(Get(sequence, 0, slot), values[old]);
    ASSERT_EQ(sequence.tokens()[static_cast<size_t>(slot)], text[old]);
  }
  ASSERT_EQ(sequence.runs().size(), 2u);
  EXPECT_EQ(sequence.runs()[1].begin, 16);
  EXPECT_EQ(sequence.runs()[1].shift, 32);
  // New tokens go on from the last run, so a second shift of the usual kind adds no third one.
  ASSERT_TRUE(AppendTokens(sequence, Text(10, 500)).ok());
  sequence.Drop(16, 32);
  ASSERT_EQ(sequence.runs().size(), 2u);
  EXPECT_EQ(sequence.runs()[1].begin, 16);
  EXPECT_EQ(sequence.runs()[1].shift, 48);
  // In the middle of a run.
  sequence.Drop(32, 48);
  ASSERT_EQ(sequence.runs().size(), 3u);
  EXPECT_EQ(sequence.runs()[2].begin, 32);
  EXPECT_EQ(sequence.runs()[2].shift, 64);
  sequence.Truncate(33);
  EXPECT_EQ(sequence.runs().size(), 3u);
  sequence.Truncate(32);
  EXPECT_EQ(sequence.runs().size(), 2u);
  sequence.Truncate(0);
  ASSERT_EQ(sequence.runs().size(), 1u);
  EXPECT_EQ(sequence.runs()[0].shift, 0);
}

// What follows a dropped block was computed with it: nobody else may take it for a text without.
TEST(Drop, WhatFollowsIsNotShared) {
  const auto pool = MakePool({16}, 16);
  const auto text = Text(64);
  Sequence sequence(pool.get());
  ASSERT_TRUE(AppendTokens(sequence, text).ok());
  sequence.Drop(16, 32);
  ASSERT_TRUE(AppendTokens(sequence, Text(40, 300)).ok());
  const std::vector<int32_t> now(sequence.tokens().begin(), sequence.tokens().end());
  EXPECT_EQ(Sequence(pool.get()).TakePrefix(now), 16u);
  EXPECT_EQ(Sequence(pool.get()).TakePrefix(text), 64u);
  sequence.Truncate(16);  // nothing of it is left
  ASSERT_TRUE(AppendTokens(sequence, Text(16, 900)).ok());
  const std::vector<int32_t> then(sequence.tokens().begin(), sequence.tokens().end());
  EXPECT_EQ(Sequence(pool.get()).TakePrefix(then), 32u);
}

// Slots that the group's next token does not see, but for a block of spare ones.
TEST(Lookback, PagesThatNobodySeesAreGivenBack) {
  const auto pool = MakePool({16, 16}, 10, {.lookback = {0, 20}});
  const auto text = Text(90);
  Sequence sequence(pool.get());
  ASSERT_TRUE(AppendTokens(sequence, std::span(text).first(67)).ok());  // sees 48 to 67
  EXPECT_EQ(sequence.page(1, 1), Sequence::kHole);
  EXPECT_EQ(sequence.pages()[1][1], nullptr);
  EXPECT_NE(sequence.page(1, 2), Sequence::kHole);
  EXPECT_NE(sequence.page(0, 0), Sequence::kHole);
  EXPECT_EQ(pool->cached_pages(1), 2u);
  EXPECT_EQ(pool->cached_pages(0), 0u);
  const Sequence fork = sequence.Fork();
  EXPECT_EQ(fork.page(1, 1), Sequence::kHole);
  ASSERT_TRUE(AppendTokens(sequence, std::span(text).subspan(67)).ok());
  EXPECT_EQ(sequence.page(1, 2), Sequence::kHole);
  for (int64_t slot = 71; slot < 90; ++slot) EXPECT_EQ(Get(sequence, 1, slot), Get(sequence, 0, slot));
}

TEST(Lookback, ACutTakesPagesBackFromTheIndex) {
  const auto pool = MakePool({16, 16}, 10, {.lookback = {0, 20}});
  const auto text = Text(80);
  Sequence sequence(pool.get());
  ASSERT_TRUE(AppendTokens(sequence, text).ok());
  ASSERT_EQ(sequence.page(1, 1), Sequence::kHole);
  ASSERT_TRUE(sequence.CanTruncate(40));
  sequence.Truncate(40);
  EXPECT_EQ(sequence.page(1, 0), Sequence::kHole);
  for (int64_t slot = 21; slot < 40; ++slot) EXPECT_EQ(Get(sequence, 1, slot), Get(sequence, 0, slot));
}

// Where the index does not have them any more, a text is taken up where it has, and others as far as it has.
TEST(Lookback, PagesOfTheIndexGoWhenOthersWantTheRoom) {
  const auto pool = MakePool({16, 16}, 10, {.lookback = {0, 20}, .pages = {10, 6}});
  const auto text = Text(80);
  Sequence sequence(pool.get());
  ASSERT_TRUE(AppendTokens(sequence, text).ok());  // holds three of six pages, the index all but one
  EXPECT_EQ(pool->free_pages(1), 1u);
  EXPECT_EQ(Sequence(pool.get()).TakePrefix(std::span(text).first(48)), 48u);
  {
    Sequence other(pool.get());
    ASSERT_TRUE(AppendTokens(other, Text(40, 500)).ok());
    EXPECT_EQ(pool->free_pages(1), 0u);
    EXPECT_FALSE(sequence.CanTruncate(33));
    EXPECT_EQ(sequence.Reachable(33), 0);
    EXPECT_EQ(sequence.Reachable(75), 75);
    EXPECT_EQ(Sequence(pool.get()).TakePrefix(std::span(text).first(48)), 0u);
    EXPECT_EQ(Sequence(pool.get()).TakePrefix(text), 80u);
  }
  // Who reads the text anew gives the index what it lacks.
  const Sequence blocker = sequence.Fork();
  Sequence anew(pool.get());
  ASSERT_TRUE(AppendTokens(anew, std::span(text).first(33)).ok());
  EXPECT_EQ(anew.page(0, 1), sequence.page(0, 1));
  EXPECT_EQ(Sequence(pool.get()).TakePrefix(std::span(text).first(32)), 32u);
}

// A block without pages stays for what comes after it alone.
TEST(Lookback, TheIndexIsBoundedByItsPages) {
  for (const std::vector<uint32_t>& groups : {std::vector<uint32_t>{16}, {16, 24}}) {
    const auto pool = MakePool(groups, 12, {.lookback = {20, 30}});
    const size_t in_block = pool->block_tokens();
    for (int32_t i = 0; i < 200; ++i) {
      const auto text = Text(3 * in_block + 1, i * 1000);
      Sequence sequence(pool.get());
      ASSERT_TRUE(AppendTokens(sequence, text).ok());
      EXPECT_EQ(Sequence(pool.get()).TakePrefix(text), 3 * in_block);
      // A page of each group for each block at least, but for two that lead to the first of those.
      EXPECT_LE(pool->prefixes()->size(), 12u * groups.size() + 2u) << i;
    }
  }
}

// The beginning that is kept comes near again, but its pages are gone: its group does without, however the text was read.
TEST(Lookback, WhatWasGivenBackIsLostAfterADrop) {
  const auto pool = MakePool({16, 16}, 10, {.lookback = {0, 40}});
  for (size_t first_step : {80, 79, 33}) {
    const auto text = Text(80);
    Sequence sequence(pool.get());
    ASSERT_TRUE(AppendTokens(sequence, std::span(text).first(first_step)).ok());
    ASSERT_TRUE(AppendTokens(sequence, std::span(text).subspan(first_step)).ok());
    sequence.Drop(32, 64);
    ASSERT_EQ(sequence.length(), 48);
    EXPECT_EQ(sequence.page(1, 0), Sequence::kHole);
    EXPECT_EQ(sequence.page(1, 1), Sequence::kHole);
    EXPECT_NE(sequence.page(1, 2), Sequence::kHole);
    EXPECT_TRUE(sequence.CanTruncate(40));
    // Where the text ends with the kept beginning it is a text like others.
    EXPECT_TRUE(sequence.CanTruncate(32));
    sequence.Truncate(32);
    EXPECT_NE(sequence.page(1, 0), Sequence::kHole);
  }
}

// A cut into the kept beginning leaves nothing that was read with the gap: it is a text like others, and shared like others.
TEST(Lookback, NothingIsLostInTheKeptBeginning) {
  for (bool indexed : {true, false}) {
    const auto pool = MakePool({16, 16}, 16, {.lookback = {0, 40}, .pages = {16, 9}});
    const auto text = Text(80);
    Sequence sequence(pool.get());
    ASSERT_TRUE(AppendTokens(sequence, text).ok());
    sequence.Drop(48, 64);
    ASSERT_EQ(sequence.page(1, 1), Sequence::kHole);
    Sequence other(pool.get());
    if (!indexed) {  // others take what the index had
      ASSERT_TRUE(AppendTokens(other, Text(90, 1000)).ok());
    }
    int64_t cut = sequence.Reachable(45);
    EXPECT_EQ(cut, indexed ? 45 : 0);
    sequence.Truncate(cut);
    ASSERT_TRUE(AppendTokens(sequence, std::span(text).first(45).subspan(static_cast<size_t>(cut))).ok());
    ASSERT_TRUE(AppendTokens(sequence, std::vector<int32_t>{7, 8, 9}).ok());
    const std::vector<int32_t> now(sequence.tokens().begin(), sequence.tokens().end());
    ExpectContent(sequence, now);
    Sequence again(pool.get());
    EXPECT_EQ(again.TakePrefix(now), 48u);
    ExpectContent(again, now);
  }
}

}  // namespace
}  // namespace moonlit
