// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/cache.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/cache/small_pool.h"

namespace moonlit {
namespace {

TEST(PagePool, RefusesNoPagesAndTooManyBytes) {
  EXPECT_EQ(PagePool::Create({MakeLayout(64)}, 0).status().code(), Code::kInvalidArgument);
  PageLayout huge = MakeLayout(64);
  huge.page_bytes = size_t{1} << (sizeof(size_t) * 8 - 2);
  const auto pool = PagePool::Create({huge}, 1000);
  EXPECT_EQ(pool.status().code(), Code::kOutOfMemory);
}

TEST(PagePool, PagesComeZeroedAgain) {
  const auto pool = MakePool({16}, 1);
  const auto first = pool->Allocate(0);
  ASSERT_TRUE(first.ok());
  std::memset(pool->data(0, *first), 0xAB, pool->layout(0).page_bytes);
  const auto none = pool->Allocate(0);
  EXPECT_EQ(none.status().code(), Code::kExhausted);
  EXPECT_NE(none.status().ToString().find("all 1 pages of group 0"), std::string::npos) << none.status().ToString();
  pool->Share(0, *first);
  pool->Release(0, *first);
  EXPECT_EQ(pool->free_pages(0), 0u);
  pool->Release(0, *first);
  EXPECT_EQ(pool->free_pages(0), 1u);
  const auto again = pool->Allocate(0);
  ASSERT_TRUE(again.ok());
  for (size_t i = 0; i < pool->layout(0).page_bytes; ++i) ASSERT_EQ(pool->data(0, *again)[i], 0);
}

TEST(Sequence, ReserveWithoutCommitChangesNothing) {
  const auto pool = MakePool({16, 32}, 4);
  Sequence sequence(pool.get());
  ASSERT_TRUE(AppendValues(sequence, {1, 2, 3}).ok());
  ASSERT_TRUE(sequence.Reserve(40).ok());
  EXPECT_EQ(sequence.length(), 3);
  EXPECT_EQ(pool->free_pages(0), 1u);
  EXPECT_EQ(pool->free_pages(1), 2u);
  sequence.Truncate(3);
  EXPECT_EQ(pool->free_pages(0), 3u);
  EXPECT_EQ(pool->free_pages(1), 3u);
}

TEST(Sequence, AnExhaustedPoolIsAllOrNothing) {
  const auto pool = MakePool({64, 16}, 3);  // group 0 could hold 192 tokens, group 1 only 48
  Sequence sequence(pool.get());
  ASSERT_TRUE(AppendValues(sequence, {7}).ok());
  const Status status = sequence.Reserve(49);
  EXPECT_EQ(status.code(), Code::kExhausted);
  EXPECT_NE(status.ToString().find("3 more pages of group 1 are needed, 2 of 3 are free"), std::string::npos)
      << status.ToString();
  EXPECT_EQ(pool->free_pages(0), 2u);
  EXPECT_EQ(pool->free_pages(1), 2u);
  EXPECT_TRUE(sequence.Reserve(48).ok());
}

TEST(Sequence, ForkSharesFullPagesAndCopiesTheLastWhenWritten) {
  const auto pool = MakePool({16}, 8);
  Sequence a(pool.get());
  std::vector<uint32_t> values(20);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<uint32_t>(i + 1);
  ASSERT_TRUE(AppendValues(a, values).ok());
  ASSERT_TRUE(a.Reserve(40).ok());  // a third page that only a may have
  Sequence b = a.Fork();
  EXPECT_EQ(pool->free_pages(0), 5u);
  ASSERT_TRUE(AppendValues(b, {100}).ok());
  EXPECT_EQ(pool->free_pages(0), 4u);
  ASSERT_TRUE(AppendValues(a, {200}).ok());  // now the only owner of its last page: no copy
  EXPECT_EQ(pool->free_pages(0), 4u);
  EXPECT_EQ(a.pages()[0][0], b.pages()[0][0]);
  EXPECT_NE(a.pages()[0][1], b.pages()[0][1]);
  EXPECT_EQ(Get(a, 0, 20), 200u);
  EXPECT_EQ(Get(b, 0, 20), 100u);
  EXPECT_EQ(Get(b, 0, 19), 20u);
}

TEST(Sequence, MovesKeepThePagesOnce) {
  const auto pool = MakePool({16}, 4);
  {
    Sequence a(pool.get());
    ASSERT_TRUE(AppendValues(a, {5}).ok());
    Sequence b(std::move(a));
    EXPECT_EQ(Get(b, 0, 0), 5u);
    Sequence c(pool.get());
    ASSERT_TRUE(AppendValues(c, {6}).ok());
    c = std::move(b);
    EXPECT_EQ(Get(c, 0, 0), 5u);
  }
  EXPECT_EQ(pool->free_pages(0), 4u);
}

}  // namespace
}  // namespace moonlit
