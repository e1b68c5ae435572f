// SPDX-License-Identifier: Apache-2.0
// Thousands of random operations on the paged cache and on a naive one, whose sequences are lists of values of their own.
// Whatever happens to one sequence, the others must read their values, and the pool's books must agree with the tables.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "runtime/cache/session_file.h"
#include "tests/cache/small_pool.h"

namespace moonlit {
namespace {

struct Entry {
  Sequence sequence;
  std::vector<int32_t> tokens;
  std::vector<uint32_t> values;
  std::vector<int64_t> positions;  // that the keys were rotated to
  std::vector<size_t> forgotten;   // [groups] slots that need not be there
};

struct Counts {
  size_t refused = 0, taken = 0, evicted = 0, dropped = 0, restored = 0, forgotten = 0;
};

const SessionFacts kFacts = {"scalar", "model", 1000, 100000};

class Model {
 public:
  Model(uint32_t seed, const std::vector<uint32_t>& page_tokens, size_t pages, uint64_t hash_mask)
      : random_(seed), pool_(MakePool(page_tokens, pages, {.share_prefixes = true, .prefix_hash_mask = hash_mask})) {}

  void Step() {
    const size_t before = pool_->prefixes()->size();
    const uint32_t action = Random(100);
    if (entries_.empty() || action < 14) {
      Start();
    } else {
      Act(action, Random(entries_.size()));
    }
    counts_.evicted += pool_->prefixes()->size() < before ? 1 : 0;
  }

  void Check() const {
    for (const Entry& entry : entries_) CheckEntry(entry);
    size_t block_pages = 0;
    for (size_t g = 0; g < pool_->groups(); ++g) {
      std::map<uint32_t, uint32_t> held;
      for (const Entry& entry : entries_) {
        for (size_t i = 0; i < entry.sequence.page_count(g); ++i) {
          if (entry.sequence.page(g, i) != Sequence::kHole) ++held[entry.sequence.page(g, i)];
        }
      }
      size_t free = 0, cached = 0, indexed = 0;
      for (uint32_t page = 0; page < pool_->total_pages(g); ++page) {
        const uint32_t of_index = pool_->index_references(g, page);
        ASSERT_EQ(pool_->references(g, page), held[page] + of_index) << "group " << g << " page " << page;
        free += held[page] + of_index == 0 ? 1 : 0;
        cached += held[page] == 0 && of_index > 0 ? 1 : 0;
        indexed += of_index;
      }
      ASSERT_EQ(pool_->free_pages(g), free);
      ASSERT_EQ(pool_->cached_pages(g), cached);
      block_pages = pool_->block_tokens() / pool_->layout(g).page_tokens;
      ASSERT_EQ(indexed, pool_->prefixes()->size() * block_pages);
    }
  }

  // Nothing leaks: without sequences and cached blocks all pages are free.
  void Clear() {
    entries_.clear();
    while (pool_->prefixes()->EvictOne()) {
    }
    ASSERT_EQ(pool_->prefixes()->size(), 0u);
    for (size_t g = 0; g < pool_->groups(); ++g) ASSERT_EQ(pool_->free_pages(g), pool_->total_pages(g));
  }
  const Counts& counts() const { return counts_; }

 private:
  uint32_t Random(size_t below) { return static_cast<uint32_t>(random_() % below); }

  void CheckEntry(const Entry& entry) const {
    const Sequence& s = entry.sequence;
    ASSERT_EQ(s.length(), static_cast<int64_t>(entry.values.size()));
    ASSERT_TRUE(std::equal(entry.tokens.begin(), entry.tokens.end(), s.tokens().begin(), s.tokens().end()));
    for (size_t g = 0; g < pool_->groups(); ++g) {
      const size_t tokens = pool_->layout(g).page_tokens;
      for (size_t slot = 0; slot < entry.values.size(); ++slot) {
        if (slot < entry.forgotten[g] / tokens * tokens) {
          ASSERT_EQ(s.pages()[g][slot / tokens], nullptr);
        } else {
          ASSERT_EQ(Get(s, g, static_cast<int64_t>(slot)), entry.values[slot]) << "group " << g << " slot " << slot;
        }
      }
    }
    size_t run = 0;
    for (int64_t slot = 0; slot < s.length(); ++slot) {
      while (run + 1 < s.runs().size() && s.runs()[run + 1].begin <= slot) ++run;
      ASSERT_EQ(slot + s.runs()[run].shift, entry.positions[static_cast<size_t>(slot)]);
    }
    ASSERT_EQ(run + 1, s.runs().size()) << "no run is empty";
  }

  // Tokens of one of a few texts, with a stray one now and then: beginnings meet often.
  int32_t NextToken(size_t text, size_t at) {
    return Random(60) == 0 ? static_cast<int32_t>(Random(1000)) : static_cast<int32_t>((text * 331 + at * 17) % 997);
  }
  std::vector<int32_t> NextTokens(const Entry& entry) {
    const size_t text = entry.tokens.empty() ? Random(3) : static_cast<size_t>(entry.tokens[0]) / 331 % 3;
    std::vector<int32_t> tokens(Random(40));
    for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = NextToken(text, entry.tokens.size() + i);
    return tokens;
  }

  void Start() {
    Entry entry{Sequence(pool_.get()), {}, {}, {}, std::vector<size_t>(pool_->groups())};
    std::vector<int32_t> prompt(Random(200));
    const size_t text = Random(3);
    for (size_t i = 0; i < prompt.size(); ++i) prompt[i] = NextToken(text, i);
    const size_t taken = entry.sequence.TakePrefix(prompt);
    ASSERT_LE(taken, prompt.size());
    counts_.taken += taken;
    Note(entry, std::span(prompt).first(taken));
    Grow(entry, std::span(prompt).subspan(taken));
    entries_.push_back(std::move(entry));
  }

  // The naive side of appending.
  static void Note(Entry& entry, std::span<const int32_t> tokens) {
    for (int32_t token : tokens) {
      entry.values.push_back(ContentAfter(entry.values.empty() ? 0 : entry.values.back(), token));
      entry.positions.push_back(entry.positions.empty() ? 0 : entry.positions.back() + 1);
      entry.tokens.push_back(token);
    }
  }

  std::vector<size_t> Books() const {
    std::vector<size_t> books;
    for (size_t g = 0; g < pool_->groups(); ++g) {
      books.insert(books.end(), {pool_->free_pages(g), pool_->cached_pages(g)});
    }
    return books;
  }

  void Grow(Entry& entry, std::span<const int32_t> tokens) {
    const std::vector<size_t> before = Books();
    const Status status = AppendTokens(entry.sequence, tokens);
    if (status.ok()) return Note(entry, tokens);
    ++counts_.refused;
    ASSERT_EQ(status.code(), Code::kExhausted);
    ASSERT_EQ(before, Books());
  }

  void Act(uint32_t action, size_t i) {
    Entry& entry = entries_[i];
    if (action < 44) {
      Grow(entry, NextTokens(entry));
    } else if (action < 52) {
      entries_.push_back({entry.sequence.Fork(), entry.tokens, entry.values, entry.positions, entry.forgotten});
    } else if (action < 64) {
      Cut(entry);
    } else if (action < 72) {
      Drop(entry);
    } else if (action < 76) {
      Forget(entry);
    } else if (action < 84) {
      Restore(entry);
    } else {
      std::swap(entries_[i], entries_.back());
      entries_.pop_back();
    }
  }

  void Cut(Entry& entry) {
    size_t least = 0;
    for (size_t slots : entry.forgotten) least = std::max(least, slots);
    const size_t keep = Random(8) == 0 ? 0 : least + Random(entry.values.size() + 1 - least);
    entry.sequence.Truncate(static_cast<int64_t>(keep));
    entry.values.resize(keep);
    entry.tokens.resize(keep);
    entry.positions.resize(keep);
    for (size_t& slots : entry.forgotten) slots = std::min(slots, keep);
  }

  void Drop(Entry& entry) {
    const size_t size = pool_->block_tokens(), blocks = entry.values.size() / size;
    const size_t first = Random(blocks + 1) * size, last = first + Random(blocks + 1 - first / size) * size;
    entry.sequence.Drop(static_cast<int64_t>(first), static_cast<int64_t>(last));
    const auto erase = [&](auto& values) {
      values.erase(values.begin() + static_cast<std::ptrdiff_t>(first),
                   values.begin() + static_cast<std::ptrdiff_t>(last));
    };
    erase(entry.values);
    erase(entry.tokens);
    erase(entry.positions);
    for (size_t& slots : entry.forgotten) slots -= std::min(slots, last) - std::min(slots, first);
    counts_.dropped += last > first ? 1 : 0;
  }

  void Forget(Entry& entry) {
    const size_t g = Random(pool_->groups()), slots = Random(entry.values.size() + 1);
    entry.sequence.Forget(g, static_cast<int64_t>(slots));
    const size_t tokens = pool_->layout(g).page_tokens;
    entry.forgotten[g] = std::max(entry.forgotten[g], slots / tokens * tokens);
    counts_.forgotten += slots >= tokens ? 1 : 0;
  }

  void Restore(Entry& entry) {
    std::string bytes;
    ASSERT_TRUE(WriteSession(entry.sequence, kFacts, [&](const void* data, size_t size) {
                  bytes.append(static_cast<const char*>(data), size);
                  return Status();
                }).ok());
    const ByteSource source = {"memory", bytes.size(), [&](uint64_t offset, void* out, size_t size) {
                                 std::memcpy(out, bytes.data() + offset, size);
                                 return Status();
                               }};
    auto reader = SessionReader::Open(source, kFacts, {.any_variant = false, .holes = true}, *pool_);
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    auto restored = Sequence::Make(pool_.get(), reader->shape());
    if (!restored.ok()) {
      ASSERT_EQ(restored.status().code(), Code::kExhausted);
      return;
    }
    ASSERT_TRUE(reader->ReadPages(*restored).ok());
    entry.sequence = std::move(*restored);
    ++counts_.restored;
  }

  std::mt19937 random_;
  std::unique_ptr<PagePool> pool_;
  std::vector<Entry> entries_;
  Counts counts_;
};

struct Shape {
  std::vector<uint32_t> page_tokens;
  size_t pages;
  uint64_t hash_mask;
};

TEST(CacheModel, AgreesWithSequencesThatShareNothing) {
  Counts sum;
  for (const Shape& shape : {Shape{{16}, 40, ~uint64_t{0}}, Shape{{16, 16}, 24, 3}, Shape{{16, 24}, 30, 0}}) {
    for (uint32_t seed = 1; seed <= 12; ++seed) {
      Model model(seed, shape.page_tokens, shape.pages, shape.hash_mask);
      for (int i = 0; i < 400; ++i) {
        model.Step();
        model.Check();
        ASSERT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed << " step " << i;
      }
      model.Clear();
      const Counts& c = model.counts();
      sum = {sum.refused + c.refused, sum.taken + c.taken,       sum.evicted + c.evicted,
             sum.dropped + c.dropped, sum.restored + c.restored, sum.forgotten + c.forgotten};
    }
  }
  // The interesting things must have happened.
  EXPECT_GT(sum.refused, 100u);
  EXPECT_GT(sum.taken, 1000u);
  EXPECT_GT(sum.evicted, 100u);
  EXPECT_GT(sum.dropped, 100u);
  EXPECT_GT(sum.restored, 100u);
  EXPECT_GT(sum.forgotten, 100u);
}

}  // namespace
}  // namespace moonlit
