// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <random>
#include <set>

namespace moonlit {
namespace {

// A stand-in layout: a slot is one uint32_t at 4 * slot, so that every written token can be read back; the rest of the
// page is padding that must stay zero. Page sizes are small so that short sequences cross many.
PageLayout MakeLayout(uint32_t page_tokens) {
  PageLayout layout{};
  layout.page_tokens = page_tokens;
  layout.page_bytes = page_tokens * 4 + 64;
  return layout;
}

std::unique_ptr<PagePool> MakePool(std::vector<uint32_t> page_tokens, size_t pages) {
  std::vector<PageLayout> groups;
  for (uint32_t tokens : page_tokens) groups.push_back(MakeLayout(tokens));
  auto pool = PagePool::Create(groups, pages);
  EXPECT_TRUE(pool.ok()) << pool.status().ToString();
  return std::move(pool).value();
}

uint32_t Get(const Sequence& sequence, const PagePool& pool, size_t group, int64_t slot) {
  const size_t tokens = pool.layout(group).page_tokens;
  uint32_t value;
  std::memcpy(&value,
              sequence.pages()[group][static_cast<size_t>(slot) / tokens] + static_cast<size_t>(slot) % tokens * 4, 4);
  return value;
}

void Put(Sequence& sequence, const PagePool& pool, int64_t slot, uint32_t value) {
  for (size_t g = 0; g < pool.groups(); ++g) {
    const size_t tokens = pool.layout(g).page_tokens;
    std::memcpy(sequence.pages()[g][static_cast<size_t>(slot) / tokens] + static_cast<size_t>(slot) % tokens * 4,
                &value, 4);
  }
}

Status Append(Sequence& sequence, const PagePool& pool, std::vector<uint32_t> values) {
  const int64_t length = sequence.length();
  MOONLIT_RETURN_IF_ERROR(sequence.Reserve(length + static_cast<int64_t>(values.size())));
  for (size_t i = 0; i < values.size(); ++i) Put(sequence, pool, length + static_cast<int64_t>(i), values[i]);
  sequence.Commit(static_cast<int64_t>(values.size()));
  return Status();
}

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
  ASSERT_TRUE(Append(sequence, *pool, {1, 2, 3}).ok());
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
  ASSERT_TRUE(Append(sequence, *pool, {7}).ok());
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
  ASSERT_TRUE(Append(a, *pool, values).ok());
  ASSERT_TRUE(a.Reserve(40).ok());  // a third page that only a may have
  Sequence b = a.Fork();
  EXPECT_EQ(pool->free_pages(0), 5u);
  ASSERT_TRUE(Append(b, *pool, {100}).ok());
  EXPECT_EQ(pool->free_pages(0), 4u);
  ASSERT_TRUE(Append(a, *pool, {200}).ok());  // now the only owner of its last page: no copy
  EXPECT_EQ(pool->free_pages(0), 4u);
  EXPECT_EQ(a.pages()[0][0], b.pages()[0][0]);
  EXPECT_NE(a.pages()[0][1], b.pages()[0][1]);
  EXPECT_EQ(Get(a, *pool, 0, 20), 200u);
  EXPECT_EQ(Get(b, *pool, 0, 20), 100u);
  EXPECT_EQ(Get(b, *pool, 0, 19), 20u);
}

TEST(Sequence, MovesKeepThePagesOnce) {
  const auto pool = MakePool({16}, 4);
  {
    Sequence a(pool.get());
    ASSERT_TRUE(Append(a, *pool, {5}).ok());
    Sequence b(std::move(a));
    EXPECT_EQ(Get(b, *pool, 0, 0), 5u);
    Sequence c(pool.get());
    ASSERT_TRUE(Append(c, *pool, {6}).ok());
    c = std::move(b);
    EXPECT_EQ(Get(c, *pool, 0, 0), 5u);
  }
  EXPECT_EQ(pool->free_pages(0), 4u);
}

// The naive cache: every sequence is a list of values of its own. Whatever happens to one, the others must read their
// values, and the pool's books must agree with the tables.
class Model {
 public:
  explicit Model(uint32_t seed) : random_(seed), pool_(MakePool({16, 48}, 24)) {}

  void Step() {
    const uint32_t action = random_() % 100;
    if (sequences_.empty() || action < 5) {
      sequences_.push_back({Sequence(pool_.get()), {}});
      return;
    }
    const size_t i = random_() % sequences_.size();
    Entry& entry = sequences_[i];
    if (action < 60) {
      Grow(entry);
    } else if (action < 72) {
      sequences_.push_back({entry.sequence.Fork(), entry.values});
    } else if (action < 90) {
      const size_t keep = random_() % (entry.values.size() + 1);
      entry.sequence.Truncate(static_cast<int64_t>(keep));
      entry.values.resize(keep);
    } else {
      std::swap(sequences_[i], sequences_.back());
      sequences_.pop_back();
    }
  }

  void Check() const {
    for (const Entry& entry : sequences_) {
      ASSERT_EQ(entry.sequence.length(), static_cast<int64_t>(entry.values.size()));
      for (size_t g = 0; g < pool_->groups(); ++g) {
        for (size_t slot = 0; slot < entry.values.size(); ++slot) {
          ASSERT_EQ(Get(entry.sequence, *pool_, g, static_cast<int64_t>(slot)), entry.values[slot]);
        }
      }
    }
    for (size_t g = 0; g < pool_->groups(); ++g) {
      std::set<const uint8_t*> used;
      for (const Entry& entry : sequences_) {
        const size_t tokens = pool_->layout(g).page_tokens;
        for (size_t p = 0; p < (entry.values.size() + tokens - 1) / tokens; ++p)
          used.insert(entry.sequence.pages()[g][p]);
      }
      ASSERT_EQ(pool_->free_pages(g), pool_->total_pages(g) - used.size()) << "group " << g;
    }
  }

  void Clear() {
    sequences_.clear();
    for (size_t g = 0; g < pool_->groups(); ++g) ASSERT_EQ(pool_->free_pages(g), pool_->total_pages(g));
  }
  size_t refused() const { return refused_; }

 private:
  struct Entry {
    Sequence sequence;
    std::vector<uint32_t> values;
  };

  void Grow(Entry& entry) {
    std::vector<uint32_t> more(random_() % 40);
    for (uint32_t& value : more) value = static_cast<uint32_t>(random_());
    const std::vector<size_t> before = {pool_->free_pages(0), pool_->free_pages(1)};
    const Status status = Append(entry.sequence, *pool_, more);
    if (status.ok()) {
      entry.values.insert(entry.values.end(), more.begin(), more.end());
    } else {
      ++refused_;
      ASSERT_EQ(status.code(), Code::kExhausted);
      ASSERT_EQ(before, (std::vector<size_t>{pool_->free_pages(0), pool_->free_pages(1)}));
    }
  }

  std::mt19937 random_;
  std::unique_ptr<PagePool> pool_;
  std::vector<Entry> sequences_;
  size_t refused_ = 0;
};

TEST(CacheModel, AgreesWithSequencesThatShareNothing) {
  size_t refused = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    Model model(seed);
    for (int i = 0; i < 400; ++i) {
      model.Step();
      model.Check();
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << " step " << i;
    }
    model.Clear();
    refused += model.refused();
  }
  EXPECT_GT(refused, 0u) << "the pool must have run dry at times";
}

}  // namespace
}  // namespace moonlit
