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
  size_t pure = SIZE_MAX;          // tokens that no drop lies before; what they hold is what any reading of them gives
  std::vector<size_t> lost;  // [groups] first slots that are near enough to be seen, and were given back before a drop
};

struct Counts {
  size_t refused = 0, taken = 0, evicted = 0, dropped = 0, restored = 0;
  size_t holes = 0, taken_back = 0, read_again = 0, lost = 0;  // with a lookback
};

const SessionFacts kFacts = {"scalar", "model", 1000, 100000};

struct Shape {
  std::vector<uint32_t> page_tokens;
  size_t pages;
  uint64_t hash_mask;
  std::vector<size_t> lookback = {};
  std::vector<size_t> group_pages = {};
};

class Model {
 public:
  Model(uint32_t seed, const Shape& shape)
      : random_(seed),
        pool_(MakePool(shape.page_tokens, shape.pages,
                       {.share_prefixes = true,
                        .prefix_hash_mask = shape.hash_mask,
                        .lookback = shape.lookback,
                        .pages = shape.group_pages})) {}

  void Step() {
    const size_t before = pool_->prefixes()->size();
    const uint32_t action = Random(100);
    if (entries_.empty() || action < 14) {
      Start();
    } else {
      Act(action, Random(entries_.size()));
    }
    counts_.evicted += pool_->prefixes()->size() < before ? 1 : 0;
    for (const Entry& entry : entries_) counts_.holes += Holes(entry) > 0 ? 1 : 0;
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
      if (pool_->lookback(g) == 0) {
        ASSERT_EQ(indexed, pool_->prefixes()->size() * block_pages);
      } else {
        ASSERT_LE(indexed, pool_->prefixes()->size() * block_pages);
      }
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
    for (size_t g = 0; g < pool_->groups(); ++g) CheckGroup(entry, g);
    size_t run = 0;
    for (int64_t slot = 0; slot < s.length(); ++slot) {
      while (run + 1 < s.runs().size() && s.runs()[run + 1].begin <= slot) ++run;
      ASSERT_EQ(slot + s.runs()[run].shift, entry.positions[static_cast<size_t>(slot)]);
    }
    ASSERT_EQ(run + 1, s.runs().size()) << "no run is empty";
  }

  // The first slot that the next token sees.
  size_t FirstSeen(size_t g, size_t length) const {
    const size_t lookback = pool_->lookback(g);
    return lookback == 0 || length + 1 < lookback ? 0 : length + 1 - lookback;
  }

  // All is there that is seen, right; and no pages that no cut of less than a block could want.
  void CheckGroup(const Entry& entry, size_t g) const {
    const size_t tokens = pool_->layout(g).page_tokens, length = entry.values.size();
    const size_t first = FirstSeen(g, length), seen = std::max(first, entry.lost[g]);
    for (size_t slot = 0; slot < length; ++slot) {
      const bool present = entry.sequence.pages()[g][slot / tokens] != nullptr;
      ASSERT_EQ(present, entry.sequence.page(g, slot / tokens) != Sequence::kHole);
      ASSERT_TRUE(present || slot < seen) << "group " << g << " slot " << slot << " of " << length;
      ASSERT_FALSE(present && (slot / tokens + 1) * tokens + pool_->block_tokens() <= first)
          << slot << " of " << length;
      if (!present) continue;
      ASSERT_EQ(Get(entry.sequence, g, static_cast<int64_t>(slot)), entry.values[slot])
          << "group " << g << " slot " << slot;
    }
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
    Entry entry{Sequence(pool_.get()), {}, {}, {}, SIZE_MAX, std::vector<size_t>(pool_->groups())};
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

  // The naive side of appending. A text that nothing was dropped from misses nothing.
  void Note(Entry& entry, std::span<const int32_t> tokens) const {
    for (int32_t token : tokens) {
      const auto see = [&](size_t g, int64_t slot) {
        const bool lost = entry.tokens.size() > entry.pure && static_cast<size_t>(slot) < entry.lost[g];
        return lost ? 0 : entry.values[static_cast<size_t>(slot)];
      };
      entry.values.push_back(ContentAt(*pool_, static_cast<int64_t>(entry.values.size()), token, see));
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
      entries_.push_back({entry.sequence.Fork(), entry.tokens, entry.values, entry.positions, entry.pure, entry.lost});
    } else if (action < 64) {
      Cut(entry);
    } else if (action < 72) {
      Drop(entry);
    } else if (action < 80) {
      Restore(entry);
    } else {
      std::swap(entries_[i], entries_.back());
      entries_.pop_back();
    }
  }

  size_t Holes(const Entry& entry) const {
    size_t holes = 0;
    for (size_t g = 0; g < pool_->groups(); ++g) {
      for (size_t i = 0; i < entry.sequence.page_count(g); ++i) holes += entry.sequence.page(g, i) == Sequence::kHole;
    }
    return holes;
  }

  // What can't be had by cutting is read again.
  void Cut(Entry& entry) {
    const size_t length = entry.values.size(), keep = Random(8) == 0 ? 0 : Random(length + 1);
    const int64_t reachable = entry.sequence.Reachable(static_cast<int64_t>(keep));
    const auto cut = static_cast<size_t>(reachable);
    ASSERT_LE(cut, keep);
    ASSERT_TRUE(entry.sequence.CanTruncate(reachable));
    const bool no_lookbacks = std::all_of(entry.lost.begin(), entry.lost.end(),
                                          [&, g = size_t{0}](size_t) mutable { return pool_->lookback(g++) == 0; });
    ASSERT_TRUE(cut == keep || !(no_lookbacks || keep == length));
    const size_t holes = Holes(entry);
    entry.sequence.Truncate(reachable);
    counts_.taken_back += Holes(entry) < holes && cut > 0 && cut == keep ? 1 : 0;
    const std::vector<int32_t> again(entry.tokens.begin() + static_cast<std::ptrdiff_t>(cut),
                                     entry.tokens.begin() + static_cast<std::ptrdiff_t>(keep));
    entry.values.resize(cut);
    entry.tokens.resize(cut);
    entry.positions.resize(cut);
    if (cut < length) NoteCut(entry, cut);
    counts_.read_again += cut < keep ? 1 : 0;
    if (cut < keep) Grow(entry, again);
  }

  static void NoteCut(Entry& entry, size_t length) {
    const bool pure = length <= entry.pure;
    for (size_t& slots : entry.lost) slots = pure || length <= slots ? 0 : slots;
    if (pure) entry.pure = SIZE_MAX;
  }

  void Drop(Entry& entry) {
    const size_t size = pool_->block_tokens(), blocks = entry.values.size() / size;
    const size_t first = Random(blocks + 1) * size, last = first + Random(blocks + 1 - first / size) * size;
    if (last == entry.values.size() && !entry.sequence.CanTruncate(static_cast<int64_t>(first))) return;
    entry.sequence.Drop(static_cast<int64_t>(first), static_cast<int64_t>(last));
    NoteLost(entry, first, last);
    const auto erase = [&](auto& values) {
      values.erase(values.begin() + static_cast<std::ptrdiff_t>(first),
                   values.begin() + static_cast<std::ptrdiff_t>(last));
    };
    erase(entry.values);
    erase(entry.tokens);
    erase(entry.positions);
    counts_.dropped += last > first ? 1 : 0;
  }

  // What no token saw when the text still had all is gone for good, where the kept beginning has it.
  void NoteLost(Entry& entry, size_t first, size_t last) {
    const size_t length = entry.values.size(), after = length - (last - first);
    if (first == last) return;
    if (last == length) return NoteCut(entry, first);
    entry.pure = std::min(entry.pure, first);
    for (size_t g = 0; g < pool_->groups(); ++g) {
      size_t& lost = entry.lost[g];
      const size_t tokens = pool_->layout(g).page_tokens;
      lost = std::max(lost, FirstSeen(g, length) / tokens * tokens);
      lost -= std::min(lost, last) - std::min(lost, first);
      if (lost <= FirstSeen(g, after)) lost = 0;
      counts_.lost += lost > 0 ? 1 : 0;
    }
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
    auto reader = SessionReader::Open(source, kFacts, {}, *pool_);
    ASSERT_TRUE(reader.ok()) << reader.status().ToString();
    auto restored = Sequence::Make(pool_.get(), reader->shape());
    if (!restored.ok()) {
      ASSERT_EQ(restored.status().code(), Code::kExhausted);
      return;
    }
    ASSERT_TRUE(reader->ReadPages(*restored).ok());
    entry.sequence = std::move(*restored);
    entry.pure = 0;  // a file does not say where the gap was
    for (size_t g = 0; g < pool_->groups(); ++g) {
      if (entry.lost[g] <= FirstSeen(g, entry.values.size())) entry.lost[g] = 0;
    }
    ++counts_.restored;
  }

  std::mt19937 random_;
  std::unique_ptr<PagePool> pool_;
  std::vector<Entry> entries_;
  Counts counts_;
};

Counts Play(const std::vector<Shape>& shapes) {
  Counts sum;
  for (const Shape& shape : shapes) {
    for (uint32_t seed = 1; seed <= 12; ++seed) {
      Model model(seed, shape);
      for (int i = 0; i < 400; ++i) {
        model.Step();
        model.Check();
        EXPECT_FALSE(testing::Test::HasFatalFailure()) << "seed " << seed << " step " << i;
        if (testing::Test::HasFatalFailure()) return sum;
      }
      model.Clear();
      const Counts& c = model.counts();
      sum = {sum.refused + c.refused,       sum.taken + c.taken,           sum.evicted + c.evicted,
             sum.dropped + c.dropped,       sum.restored + c.restored,     sum.holes + c.holes,
             sum.taken_back + c.taken_back, sum.read_again + c.read_again, sum.lost + c.lost};
    }
  }
  return sum;
}

void ExpectMuchHappened(const Counts& sum) {
  EXPECT_GT(sum.refused, 100u);
  EXPECT_GT(sum.taken, 1000u);
  EXPECT_GT(sum.evicted, 100u);
  EXPECT_GT(sum.dropped, 100u);
  EXPECT_GT(sum.restored, 100u);
}

TEST(CacheModel, AgreesWithSequencesThatShareNothing) {
  const Counts sum = Play({Shape{{16}, 40, ~uint64_t{0}}, Shape{{16, 16}, 24, 3}, Shape{{16, 24}, 30, 0}});
  ExpectMuchHappened(sum);
  EXPECT_EQ(sum.holes + sum.taken_back + sum.read_again + sum.lost, 0u);
}

// Groups that look back over less than a page, over some, over most of a text; beside one that sees all, and alone.
TEST(CacheModel, AgreesWhereGroupsLookBackALimitedNumberOfTokens) {
  const Counts sum = Play({Shape{{16}, 40, ~uint64_t{0}, {40}}, Shape{{16, 16}, 40, 3, {0, 25}, {40, 20}},
                           Shape{{16, 24}, 36, 0, {100, 60}}, Shape{{16, 16, 16}, 36, ~uint64_t{0}, {0, 17, 70}}});
  ExpectMuchHappened(sum);
  EXPECT_GT(sum.holes, 1000u);
  EXPECT_GT(sum.taken_back, 100u);
  EXPECT_GT(sum.read_again, 100u);
  EXPECT_GT(sum.lost, 100u);
}

}  // namespace
}  // namespace moonlit
