// SPDX-License-Identifier: Apache-2.0
// Recurrent states of sequences. The "state" here is the list of all tokens so far, so that any mistake shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/cache/session_file.h"
#include "tests/cache/small_pool.h"

namespace moonlit {
namespace {

using testing::HasSubstr;

constexpr size_t kNumbers = 40;
const SessionFacts kFacts = {"x86_fast", "a model", 1000, 4096};

std::unique_ptr<PagePool> StatesOnly(size_t states, std::vector<uint32_t> page_tokens = {}, size_t pages = 8) {
  PagePoolOptions options;
  options.state_bytes = kNumbers * sizeof(float);
  options.states = states;
  return MakePool(std::move(page_tokens), pages, options);
}

// What a step does: reads the state, writes the next one.
void WriteNext(Sequence& sequence, std::span<const int32_t> tokens) {
  std::vector<float> next(kNumbers, -1.0f);
  if (sequence.state() != nullptr) std::copy_n(sequence.state(), kNumbers, next.begin());
  for (size_t i = 0; i < tokens.size(); ++i) {
    next[static_cast<size_t>(sequence.length()) + i] = static_cast<float>(tokens[i]);
  }
  std::copy(next.begin(), next.end(), sequence.next_state());
}

Status Append(Sequence& sequence, const std::vector<int32_t>& tokens) {
  MOONLIT_RETURN_IF_ERROR(sequence.Reserve(sequence.length() + static_cast<int64_t>(tokens.size())));
  WriteNext(sequence, tokens);
  sequence.Commit(tokens);
  return Status();
}

void ExpectHolds(const Sequence& sequence, const std::vector<int32_t>& tokens) {
  ASSERT_EQ(sequence.length(), static_cast<int64_t>(tokens.size()));
  ASSERT_EQ(sequence.state() == nullptr, tokens.empty());
  if (tokens.empty()) return;
  for (size_t i = 0; i < kNumbers; ++i) {
    ASSERT_EQ(sequence.state()[i], i < tokens.size() ? static_cast<float>(tokens[i]) : -1.0f) << i;
  }
}

TEST(RecurrentState, GoesOnWithItsSequenceAndIsClearedWithIt) {
  const auto pool = StatesOnly(2);
  Sequence sequence(pool.get());
  ExpectHolds(sequence, {});
  ASSERT_TRUE(Append(sequence, {1, 2}).ok());
  ASSERT_TRUE(Append(sequence, {3}).ok());
  ExpectHolds(sequence, {1, 2, 3});
  EXPECT_EQ(pool->states()->free(), 1u);
  sequence.Truncate(0);
  ExpectHolds(sequence, {});
  EXPECT_EQ(pool->states()->free(), 2u);
  ASSERT_TRUE(Append(sequence, {9}).ok());
  ExpectHolds(sequence, {9});
}

TEST(RecurrentState, AStepThatFailsLeavesIt) {
  const auto pool = StatesOnly(2, {4});
  Sequence sequence(pool.get());
  ASSERT_TRUE(Append(sequence, {1, 2}).ok());
  ASSERT_TRUE(sequence.Reserve(5).ok());
  EXPECT_EQ(pool->states()->free(), 0u);
  WriteNext(sequence, std::vector<int32_t>{7, 7, 7});
  sequence.Truncate(sequence.length());  // what the engine does after a failure
  EXPECT_EQ(sequence.next_state(), nullptr);
  EXPECT_EQ(pool->states()->free(), 1u);
  ExpectHolds(sequence, {1, 2});
  ASSERT_TRUE(Append(sequence, {3}).ok());
  ExpectHolds(sequence, {1, 2, 3});
}

TEST(RecurrentState, ForksShareItAndPartWhenTheyGoOn) {
  const auto pool = StatesOnly(4);
  Sequence first(pool.get());
  ASSERT_TRUE(Append(first, {1, 2}).ok());
  {
    Sequence second = first.Fork();
    EXPECT_EQ(second.state(), first.state());
    EXPECT_EQ(pool->states()->free(), 3u);
    ASSERT_TRUE(Append(second, {5}).ok());
    ASSERT_TRUE(Append(first, {3}).ok());
    ExpectHolds(first, {1, 2, 3});
    ExpectHolds(second, {1, 2, 5});
    EXPECT_EQ(pool->states()->free(), 2u);
    ASSERT_TRUE(first.Reserve(4).ok());
    const Sequence third = first.Fork();  // in the middle of a step
    ExpectHolds(third, {1, 2, 3});
    EXPECT_EQ(third.next_state(), nullptr);
  }
  first.Truncate(0);
  EXPECT_EQ(pool->states()->free(), 4u);
}

TEST(RecurrentState, ReservingIsAllOrNothing) {
  const auto pool = StatesOnly(3, {4}, 2);
  Sequence first(pool.get()), second(pool.get());
  ASSERT_TRUE(Append(first, {1, 2, 3}).ok());
  EXPECT_EQ(first.Reserve(9).code(), Code::kExhausted) << "pages";
  EXPECT_EQ(pool->states()->free(), 2u);
  ASSERT_TRUE(Append(second, {5}).ok());
  ASSERT_TRUE(first.Reserve(4).ok());
  const Status status = second.Reserve(2);
  EXPECT_EQ(status.code(), Code::kExhausted) << "states";
  EXPECT_THAT(std::string(status.message()), HasSubstr("all 3 recurrent states are in use"));
  ExpectHolds(second, {5});
  first.Truncate(3);
  ASSERT_TRUE(Append(second, {6}).ok());
  ExpectHolds(second, {5, 6});
}

TEST(RecurrentState, KnowsNoWayBackAndSharesNoBlocks) {
  const auto pool = StatesOnly(4, {4});
  EXPECT_EQ(pool->prefixes(), nullptr);
  Sequence first(pool.get());
  ASSERT_TRUE(Append(first, {1, 2, 3, 4, 5}).ok());
  EXPECT_TRUE(first.CanTruncate(5));
  EXPECT_FALSE(first.CanTruncate(4));
  EXPECT_TRUE(first.CanTruncate(0));
  Sequence second(pool.get());
  EXPECT_EQ(second.TakePrefix(std::vector<int32_t>{1, 2, 3, 4}), 0u);
  EXPECT_TRUE(Sequence(MakePool({4}, 2).get()).CanTruncate(0));
}

std::string Bytes(const Sequence& sequence) {
  std::string bytes;
  EXPECT_TRUE(WriteSession(sequence, kFacts, [&](const void* data, size_t size) {
                bytes.append(static_cast<const char*>(data), size);
                return Status();
              }).ok());
  return bytes;
}

Result<Sequence> Restore(const std::string& bytes, PagePool* pool) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  const ByteSource source = {"test.session", exact.size(), [&](uint64_t offset, void* out, size_t size) {
                               if (offset > exact.size() || size > exact.size() - offset) {
                                 return Status(Code::kCorrupt, "the file is shorter");
                               }
                               std::memcpy(out, exact.data() + offset, size);
                               return Status();
                             }};
  MOONLIT_ASSIGN_OR_RETURN(SessionReader reader, SessionReader::Open(source, kFacts, {}, *pool));
  MOONLIT_ASSIGN_OR_RETURN(Sequence sequence, Sequence::Make(pool, reader.shape()));
  MOONLIT_RETURN_IF_ERROR(reader.ReadPages(sequence));
  return sequence;
}

TEST(RecurrentState, IsSavedAndRestored) {
  for (const std::vector<uint32_t>& page_tokens : {std::vector<uint32_t>{}, std::vector<uint32_t>{4}}) {
    const auto pool = StatesOnly(4, page_tokens);
    Sequence saved(pool.get());
    EXPECT_TRUE(Restore(Bytes(saved), pool.get()).ok());
    ASSERT_TRUE(Append(saved, {4, 5, 6}).ok());
    const std::string bytes = Bytes(saved);
    auto restored = Restore(bytes, pool.get());
    ASSERT_TRUE(restored.ok()) << restored.status().ToString();
    ExpectHolds(*restored, {4, 5, 6});
    ASSERT_TRUE(Append(*restored, {7}).ok());
    ExpectHolds(*restored, {4, 5, 6, 7});
    ExpectHolds(saved, {4, 5, 6});
    std::string damaged = bytes;
    damaged[damaged.size() - 9] = static_cast<char>(damaged[damaged.size() - 9] ^ 1);  // the last byte of the state
    EXPECT_EQ(Restore(damaged, pool.get()).status().code(), Code::kCorrupt);
    EXPECT_EQ(Restore(bytes.substr(0, bytes.size() - 4), pool.get()).status().code(), Code::kCorrupt);
    EXPECT_EQ(pool->states()->free(), 2u) << "failed restores keep nothing";
  }
}

TEST(RecurrentState, AFileOfAModelWithoutOneIsRefusedAndTheOtherWayRound) {
  const auto with = StatesOnly(2, {4}), without = MakePool({4}, 8);
  Sequence a(with.get()), b(without.get());
  const Status first = Restore(Bytes(a), without.get()).status(), second = Restore(Bytes(b), with.get()).status();
  EXPECT_EQ(first.code(), Code::kUnsupported);
  EXPECT_THAT(std::string(first.message()), HasSubstr("expected a recurrent state of 0 numbers, found one of 40"));
  EXPECT_EQ(second.code(), Code::kUnsupported);
  EXPECT_THAT(std::string(second.message()), HasSubstr("expected a recurrent state of 40 numbers, found one of 0"));
}

}  // namespace
}  // namespace moonlit
