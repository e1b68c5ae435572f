// SPDX-License-Identifier: Apache-2.0
// Saved sequences: what comes back, and what hostile files get.
#include "runtime/cache/session_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "tests/cache/small_pool.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using testing::HasSubstr;

const SessionFacts kFacts = {"x86_fast", "a model", 1000, 4096};

std::vector<int32_t> Text(size_t n) {
  std::vector<int32_t> tokens(n);
  for (size_t i = 0; i < n; ++i) tokens[i] = static_cast<int32_t>(i * 7 % 1000);
  return tokens;
}

// Tokens, a dropped block, and a partly filled page: 2 groups, 52 tokens, 2 runs.
Sequence MakeSaved(PagePool* pool) {
  Sequence sequence(pool);
  EXPECT_TRUE(AppendTokens(sequence, Text(68)).ok());
  sequence.Drop(16, 32);
  return sequence;
}

std::string Bytes(const Sequence& sequence, const SessionFacts& facts = kFacts) {
  std::string bytes;
  EXPECT_TRUE(WriteSession(sequence, facts, [&](const void* data, size_t size) {
                bytes.append(static_cast<const char*>(data), size);
                return Status();
              }).ok());
  return bytes;
}

// Whether the reader is told how many bytes there are, as of a file.
enum class As { kFile, kStream };

// The whole way in, from a heap block of exactly the file's size, so that sanitizers see a read beyond it. The reader asks for each byte
// once, in order.
Result<Sequence> RestoreAs(As as, const std::string& bytes, PagePool* pool, const SessionFacts& facts = kFacts,
                           const RestoreOptions& options = {}) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  uint64_t next = 0;
  ByteSource source = {"test.session", exact.size(), [&](uint64_t offset, void* out, size_t size) {
                         EXPECT_EQ(offset, next);
                         EXPECT_GT(size, 0u);
                         next += size;
                         if (offset > exact.size() || size > exact.size() - offset) {
                           return Status(Code::kCorrupt, "the file is shorter");
                         }
                         std::memcpy(out, exact.data() + offset, size);
                         return Status();
                       }};
  if (as == As::kStream) source.size.reset();
  MOONLIT_ASSIGN_OR_RETURN(SessionReader reader, SessionReader::Open(source, facts, options, *pool));
  MOONLIT_ASSIGN_OR_RETURN(Sequence sequence, Sequence::Make(pool, reader.shape()));
  MOONLIT_RETURN_IF_ERROR(reader.ReadPages(sequence));
  return sequence;
}

// What is taken from a file is taken from a stream, and what a stream refuses is refused in a file.
Result<Sequence> Restore(const std::string& bytes, PagePool* pool, const SessionFacts& facts = kFacts,
                         const RestoreOptions& options = {}) {
  const Status streamed = RestoreAs(As::kStream, bytes, pool, facts, options).status();
  Result<Sequence> result = RestoreAs(As::kFile, bytes, pool, facts, options);
  EXPECT_TRUE(streamed.ok() || !result.ok()) << streamed.ToString();
  return result;
}

// Makes both checksums fit again: what is left to refuse must be refused by what it says.
std::string WithSums(std::string bytes) {
  uint64_t head_bytes = 0;
  std::memcpy(&head_bytes, bytes.data() + 16, 8);
  if (head_bytes >= 8 && head_bytes <= bytes.size()) {
    const uint64_t head = ChecksumOf(bytes.data(), head_bytes - 8);
    std::memcpy(bytes.data() + head_bytes - 8, &head, 8);
  }
  const uint64_t all = ChecksumOf(bytes.data(), bytes.size() - 8);
  std::memcpy(bytes.data() + bytes.size() - 8, &all, 8);
  return bytes;
}

void ExpectEqual(const Sequence& a, const Sequence& b) {
  ASSERT_EQ(a.length(), b.length());
  ASSERT_TRUE(std::equal(a.tokens().begin(), a.tokens().end(), b.tokens().begin(), b.tokens().end()));
  ASSERT_EQ(a.runs().size(), b.runs().size());
  for (size_t i = 0; i < a.runs().size(); ++i) {
    ASSERT_EQ(a.runs()[i].begin, b.runs()[i].begin);
    ASSERT_EQ(a.runs()[i].shift, b.runs()[i].shift);
  }
  for (size_t g = 0; g < a.pool()->groups(); ++g) {
    ASSERT_EQ(a.page_count(g), b.page_count(g));
    for (size_t i = 0; i < a.page_count(g); ++i) {
      ASSERT_EQ(std::memcmp(a.pages()[g][i], b.pages()[g][i], a.pool()->layout(g).page_bytes), 0);
    }
  }
}

TEST(SessionFile, ComesBackInAnotherPool) {
  const TempFolder folder;
  const std::string path = folder.path() + "/a.session";
  const auto pool = MakePool({16, 16}, 8);
  const Sequence sequence = MakeSaved(pool.get());
  ASSERT_TRUE(SaveSession(sequence, kFacts, path).ok());
  EXPECT_EQ(folder.FileCount(), 1u) << "no temporary file is left";

  const auto other = MakePool({16, 16}, 9);
  const auto file = File::Open(path);
  ASSERT_TRUE(file.ok());
  auto reader = SessionReader::Open(SourceOf(file.value()), kFacts, {}, *other);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  auto restored = Sequence::Make(other.get(), reader.value().shape());
  ASSERT_TRUE(restored.ok());
  ASSERT_TRUE(reader.value().ReadPages(*restored).ok());
  ExpectEqual(sequence, *restored);
  ASSERT_TRUE(AppendTokens(*restored, Text(30)).ok());
  EXPECT_EQ(other->prefixes()->size(), 0u) << "what a file says about a text is not shared with others";
}

TEST(SessionFile, AnEmptySequenceAndHoles) {
  const auto pool = MakePool({16, 16}, 8);
  auto empty = Restore(Bytes(Sequence(pool.get())), pool.get());
  ASSERT_TRUE(empty.ok()) << empty.status().ToString();
  EXPECT_EQ(empty->length(), 0);
  const auto looking = MakePool({16, 16}, 8, {.lookback = {0, 9}});
  Sequence sequence(looking.get());
  ASSERT_TRUE(AppendTokens(sequence, Text(40)).ok());
  ASSERT_EQ(sequence.page(1, 0), Sequence::kHole);
  const auto refused = Restore(Bytes(sequence), pool.get());
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.status().ToString(), HasSubstr("pages are missing"));
  const auto taken = Restore(Bytes(sequence), looking.get());
  ASSERT_TRUE(taken.ok()) << taken.status().ToString();
  EXPECT_EQ(taken.value().pages()[1][0], nullptr);
  EXPECT_EQ(Get(*taken, 1, 39), Get(sequence, 1, 39));
  EXPECT_FALSE(taken->CanTruncate(20)) << "a file's blocks are in no index";
  EXPECT_EQ(taken->Reachable(20), 0);
}

// Nothing of a file is left in what begins behind an empty one.
TEST(SessionFile, AnEmptyTextIsSharedLikeAnyOther) {
  const auto pool = MakePool({16}, 8);
  auto restored = Restore(Bytes(Sequence(pool.get())), pool.get());
  ASSERT_TRUE(restored.ok());
  ASSERT_TRUE(AppendTokens(*restored, Text(40)).ok());
  EXPECT_EQ(Sequence(pool.get()).TakePrefix(Text(40)), 32u);
  auto another = Restore(Bytes(Sequence(pool.get())), pool.get());
  ASSERT_TRUE(another.ok());
  EXPECT_EQ(another->TakePrefix(Text(40)), 32u);
}

// From a pool that keeps all, and from one that does not.
TEST(SessionFile, TakesNoMorePagesThanReadingTheText) {
  for (const std::vector<uint32_t>& page_tokens : {std::vector<uint32_t>{16, 16}, std::vector<uint32_t>{16, 24}}) {
    const auto keeping = MakePool(page_tokens, 20, {.lookback = {0, 9}, .gives_back = {false, false}});
    for (size_t length = 1; length <= 150; ++length) {
      const auto giving = MakePool(page_tokens, 20, {.lookback = {0, 9}}),
                 pool = MakePool(page_tokens, 20, {.lookback = {0, 9}});
      Sequence kept(keeping.get()), given(giving.get());
      ASSERT_TRUE(AppendTokens(kept, Text(length)).ok());
      ASSERT_TRUE(AppendTokens(given, Text(length)).ok());
      auto restored = Restore(Bytes(kept), pool.get());
      ASSERT_TRUE(restored.ok()) << restored.status().ToString();
      for (size_t g = 0; g < 2; ++g) {
        for (size_t i = 0; i < given.page_count(g); ++i) {
          ASSERT_EQ(restored->page(g, i) == Sequence::kHole, given.page(g, i) == Sequence::kHole)
              << length << " group " << g << " page " << i;
        }
      }
      const auto last = static_cast<int64_t>(length) - 1;
      ASSERT_EQ(Get(*restored, 1, last), Get(kept, 1, last)) << length;
      ASSERT_TRUE(Restore(Bytes(given), keeping.get()).ok());
    }
    std::string damaged = Bytes([&] {
      Sequence kept(keeping.get());
      EXPECT_TRUE(AppendTokens(kept, Text(150)).ok());
      return kept;
    }());
    const size_t first_page = damaged.size() - 8 - 150 / 16 * size_t{page_tokens[1] * 4 + 64};
    damaged[first_page] = static_cast<char>(damaged[first_page] ^ 1);
    const auto giving = MakePool(page_tokens, 20, {.lookback = {0, 9}});
    EXPECT_EQ(Restore(damaged, giving.get()).status().code(), Code::kCorrupt) << "in a page that is not taken";
  }
}

// What a sequence would free counts, not what others have too.
TEST(SessionFile, ASequenceMakesRoomForAnother) {
  const auto pool = MakePool({16}, 6);
  const auto shape_of = [](size_t pages) {
    return SequenceShape{Text(16 * pages), {{0, 0}}, {std::vector<bool>(pages, true)}};
  };
  Sequence sequence(pool.get());
  ASSERT_TRUE(AppendTokens(sequence, Text(50)).ok());  // 4 pages, 3 of them in the index too
  EXPECT_EQ(Sequence::Make(pool.get(), shape_of(3)).status().code(), Code::kExhausted);
  EXPECT_TRUE(sequence.MakesRoomFor(shape_of(6)));
  EXPECT_FALSE(sequence.MakesRoomFor(shape_of(7)));
  {
    const Sequence fork = sequence.Fork();
    EXPECT_TRUE(sequence.MakesRoomFor(shape_of(2)));
    EXPECT_FALSE(sequence.MakesRoomFor(shape_of(3)));
  }
  sequence.Truncate(0);
  EXPECT_TRUE(Sequence::Make(pool.get(), shape_of(6)).ok());
}

TEST(SessionFile, AWriteThatFailsLeavesTheOldFile) {
  const TempFolder folder;
  const std::string path = folder.Write("a.session", "old");
  const auto pool = MakePool({16, 16}, 8);
  const Sequence sequence = MakeSaved(pool.get());
  EXPECT_EQ(SaveSession(sequence, kFacts, folder.path() + "/none/a.session").code(), Code::kNotFound);
  size_t left = 3;
  EXPECT_EQ(WriteSession(sequence, kFacts,
                         [&](const void*, size_t) { return left-- > 0 ? Status() : Status(Code::kIo, "disk full"); })
                .code(),
            Code::kIo);
  EXPECT_EQ(ReadWholeFile(path), "old");
}

TEST(SessionFile, WhatDoesNotBelongHereIsNamed) {
  const auto pool = MakePool({16, 16}, 8);
  const std::string bytes = Bytes(MakeSaved(pool.get()));
  const auto expect = [&](const Result<Sequence>& result, Code code, const char* message) {
    ASSERT_FALSE(result.ok()) << message;
    EXPECT_EQ(result.status().code(), code) << result.status().ToString();
    EXPECT_THAT(result.status().ToString(), HasSubstr(message));
  };
  SessionFacts facts = kFacts;
  facts.variant = "arm_neon";
  expect(Restore(bytes, pool.get(), facts), Code::kUnsupported, "expected the kernel variant arm_neon, found x86_fast");
  EXPECT_TRUE(Restore(bytes, pool.get(), facts, {.any_variant = true}).ok());
  facts = kFacts;
  facts.model = "another";
  expect(Restore(bytes, pool.get(), facts), Code::kUnsupported, "expected the model another, found a model");
  facts = kFacts;
  facts.n_ctx = 51;
  expect(Restore(bytes, pool.get(), facts), Code::kExhausted, "holds 52 tokens, 51 are allowed");
  facts = kFacts;
  facts.vocab = 400;
  expect(Restore(bytes, pool.get(), facts), Code::kCorrupt, "outside the model's vocabulary");
  expect(Restore(bytes, MakePool({16, 32}, 8).get()), Code::kUnsupported, "pages of 32 tokens");
  expect(Restore(bytes, MakePool({16}, 8).get()), Code::kUnsupported, "expected cache groups 1, found 2");
  expect(Restore(bytes, MakePool({16, 16}, 3).get()), Code::kExhausted, "4 more pages");
  std::string version = bytes;
  version[8] = 2;
  expect(Restore(version, pool.get()), Code::kUnsupported, "expected version 3, found 2");
  expect(Restore("GGUF" + std::string(100, 'x'), pool.get()), Code::kCorrupt, "expected a session file");
}

TEST(SessionFile, CutAnywhereItIsRefused) {
  const auto pool = MakePool({16, 16}, 12);
  const std::string bytes = Bytes(MakeSaved(pool.get()));
  ASSERT_TRUE(Restore(bytes, pool.get()).ok());
  const size_t free = pool->free_pages(0) + pool->cached_pages(0);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const auto result = Restore(bytes.substr(0, size), pool.get());
    ASSERT_FALSE(result.ok()) << size;
    ASSERT_EQ(result.status().code(), Code::kCorrupt) << size;
    ASSERT_EQ(pool->free_pages(0) + pool->cached_pages(0), free) << size;
  }
  EXPECT_EQ(Restore(bytes + "x", pool.get()).status().code(), Code::kCorrupt);
  EXPECT_TRUE(RestoreAs(As::kStream, bytes + "x", pool.get()).ok()) << "what follows in a stream is not its business";
}

TEST(SessionFile, HasAsManyBytesAsItWrites) {
  const auto pool = MakePool({16, 16}, 8);
  for (const size_t tokens : {0, 1, 40}) {
    Sequence sequence(pool.get());
    ASSERT_TRUE(AppendTokens(sequence, Text(tokens)).ok());
    EXPECT_EQ(SessionBytes(sequence, kFacts), Bytes(sequence).size()) << tokens;
  }
}

// A head of more than is asked for at once, and one that says so and does not come: memory goes to what has come.
TEST(SessionFile, LongHeadsOfStreamsComeInSteps) {
  const auto pool = MakePool({16, 16}, 24);
  SessionFacts facts = kFacts;
  facts.model = std::string(300000, 'm');
  const std::string bytes = Bytes(MakeSaved(pool.get()), facts);
  const auto taken = Restore(bytes, pool.get(), facts);
  ASSERT_TRUE(taken.ok()) << taken.status().ToString();
  ExpectEqual(MakeSaved(pool.get()), *taken);

  std::string fixed = bytes.substr(0, 32);
  const uint64_t head_bytes = uint64_t{1} << (sizeof(size_t) == 8 ? 60 : 30), file_bytes = head_bytes + 8;
  std::memcpy(fixed.data() + 16, &head_bytes, 8);
  std::memcpy(fixed.data() + 24, &file_bytes, 8);
  uint64_t come = 0, most = 0;
  const ByteSource endless = {"test.session", std::nullopt, [&](uint64_t offset, void* out, size_t size) {
                                most = std::max<uint64_t>(most, size);
                                if (come > (1 << 20)) return Status(Code::kIo, "enough");
                                EXPECT_LE(size, std::max<uint64_t>(come, 64 << 10));
                                come += size;
                                std::memset(out, 0, size);
                                if (offset == 0) std::memcpy(out, fixed.data(), size);
                                return Status();
                              }};
  EXPECT_EQ(SessionReader::Open(endless, facts, {}, *pool).status().code(), Code::kIo);
  EXPECT_GT(come, uint64_t{1} << 20);
  EXPECT_LE(most, come);
}

TEST(SessionFile, EveryFlippedBitIsRefused) {
  const auto pool = MakePool({16, 16}, 12);
  const std::string bytes = Bytes(MakeSaved(pool.get()));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string changed = bytes;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    ASSERT_FALSE(Restore(changed, pool.get()).ok()) << "byte " << bit / 8;
  }
}

// Someone who knows the format makes the checksums fit. Every number of the head at telling values: nothing crashes, and
// what is taken is a sequence that can be read, written and saved again.
TEST(SessionFile, NumbersWithFittingChecksums) {
  const auto pool = MakePool({16, 16}, 12);
  const std::string bytes = Bytes(MakeSaved(pool.get()));
  uint64_t head_bytes = 0;
  std::memcpy(&head_bytes, bytes.data() + 16, 8);
  size_t refused = 0, taken = 0;
  for (size_t at = 8; at < head_bytes - 8; ++at) {
    for (uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{0x7f}, uint64_t{0xff}, uint64_t{0x7fffffff},
                           uint64_t{0xffffffff}, uint64_t{1} << 60, ~uint64_t{0} >> 1, ~uint64_t{0}}) {
      for (size_t width : {1, 4, 8}) {
        if (at + width > head_bytes - 8) continue;
        std::string changed = bytes;
        std::memcpy(changed.data() + at, &value, width);
        auto result = Restore(WithSums(std::move(changed)), pool.get());
        (result.ok() ? taken : refused) += 1;
        if (!result.ok()) continue;
        for (int64_t slot = 0; slot < result->length(); ++slot) Get(*result, 1, slot);
        for (const SlotRun& run : result->runs()) ASSERT_EQ(run.begin % 16 + run.shift % 16, 0);
        ASSERT_TRUE(AppendTokens(*result, Text(20)).ok());
        ASSERT_FALSE(Bytes(*result).empty());
      }
    }
  }
  EXPECT_GT(refused, 1000u);
  EXPECT_GT(taken, 100u) << "tokens may be others";
}

TEST(SessionFile, RandomEditsWithFittingChecksums) {
  const auto pool = MakePool({16, 16}, 12);
  const std::string good = Bytes(MakeSaved(pool.get()));
  const size_t free = pool->free_pages(1) + pool->cached_pages(1);
  std::mt19937_64 random(20240229);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (uint64_t edits = 1 + random() % 4; edits != 0 && bytes.size() > 64; --edits) {
      const size_t at = 8 + random() % (bytes.size() - 32);
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 16);
          break;
        case 2:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 32));
          break;
        default:
          for (size_t i = 0; i < 8 && at + i < bytes.size(); ++i) bytes[at + i] = static_cast<char>(random() % 2 * 255);
      }
    }
    const uint64_t size = bytes.size();
    if (random() % 2 == 0) std::memcpy(bytes.data() + 24, &size, 8);
    auto result = Restore(WithSums(std::move(bytes)), pool.get());
    if (result.ok()) continue;
    ASSERT_EQ(pool->free_pages(1) + pool->cached_pages(1), free);
  }
}

}  // namespace
}  // namespace moonlit
