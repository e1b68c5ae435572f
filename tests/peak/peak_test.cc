// SPDX-License-Identifier: Apache-2.0
// The loops of kernels/peak do all the work that they count: their sums against plain recomputations. Nothing about speed.
#include "kernels/peak/peak.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/base/float16.h"
#include "tests/smallops/variants.h"

namespace moonlit {
namespace {

using Term = double (*)(const PeakInput& in, size_t phase, size_t row, size_t column, size_t lane, size_t d);

double Int8Term(const PeakInput& in, size_t phase, size_t row, size_t, size_t lane, size_t d) {
  return in.w8[phase][4 * lane + d % 4] * in.a8[row][d];
}
double BF16Term(const PeakInput& in, size_t phase, size_t row, size_t column, size_t lane, size_t d) {
  return F32FromBF16(in.a16[phase][row][2 * lane + d]) * F32FromBF16(in.b16[column][2 * lane + d]);
}
double F32Term(const PeakInput& in, size_t phase, size_t row, size_t column, size_t lane, size_t) {
  return in.a32[phase][row][lane] * in.b32[column][lane];
}

// What one round of the phase adds to all accumulators together.
double RoundSum(const PeakLoop& loop, const PeakInput& in, size_t phase, Term term) {
  double sum = 0;
  for (size_t r = 0; r < loop.rows; ++r) {
    for (size_t c = 0; c < loop.columns; ++c) {
      for (size_t l = 0; l < loop.lanes; ++l) {
        for (size_t d = 0; d < loop.depth; ++d) sum += term(in, phase, r, c, l, d);
      }
    }
  }
  return sum * static_cast<double>(loop.repeats);
}

class PeakTest : public testing::TestWithParam<Variant> {
 protected:
  // All values are integers far below 2^53, so equality is the right comparison.
  void Check(const PeakLoop& loop, Term term) {
    if (loop.run == nullptr) return;
    auto input = std::make_unique<PeakInput>();
    for (uint32_t seed : {1u, 2u, 77u}) {
      FillPeakInput(seed, input.get());
      const double phases[2] = {RoundSum(loop, *input, 0, term), RoundSum(loop, *input, 1, term)};
      ASSERT_NE(phases[0], phases[1]) << "the phases must differ, or a wrong one would not show";
      ASSERT_NE(phases[0] + phases[1], 0) << "rounds must add up, or missing ones would not show";
      for (size_t rounds : {size_t{0}, size_t{1}, size_t{2}, size_t{3}, size_t{10}, kPeakMaxRounds}) {
        const double expected = phases[0] * std::ceil(static_cast<double>(rounds) / 2) +
                                phases[1] * std::floor(static_cast<double>(rounds) / 2);
        EXPECT_EQ(loop.run(*input, rounds), expected) << loop.name << ", " << rounds << " rounds, seed " << seed;
      }
    }
  }
};

TEST_P(PeakTest, Int8LoopDoesEveryMultiplyAdd) { Check(GetPeakTable(GetParam()).int8, &Int8Term); }
TEST_P(PeakTest, BF16LoopDoesEveryMultiplyAdd) { Check(GetPeakTable(GetParam()).bf16, &BF16Term); }
TEST_P(PeakTest, F32LoopDoesEveryMultiplyAdd) { Check(GetPeakTable(GetParam()).f32, &F32Term); }

// The largest operands: documented bounds must hold the largest number of rounds.
TEST_P(PeakTest, ExtremesDoNotOverflow) {
  auto input = std::make_unique<PeakInput>();
  std::memset(input->w8, 15, sizeof input->w8);
  std::memset(input->a8, -127, sizeof input->a8);
  for (auto& phase : input->a16) {
    for (auto& row : phase) {
      for (uint16_t& x : row) x = BF16FromF32(4);
    }
  }
  for (auto& row : input->b16) {
    for (uint16_t& x : row) x = BF16FromF32(4);
  }
  for (auto& phase : input->a32) {
    for (auto& row : phase) {
      for (float& x : row) x = 4;
    }
  }
  for (auto& row : input->b32) {
    for (float& x : row) x = 4;
  }
  const PeakTable& table = GetPeakTable(GetParam());
  const double rounds = static_cast<double>(kPeakMaxRounds);
  EXPECT_EQ(table.int8.run(*input, kPeakMaxRounds), -15.0 * 127 * rounds * PeakOps(table.int8) / 2);
  EXPECT_EQ(table.f32.run(*input, kPeakMaxRounds), 16.0 * rounds * PeakOps(table.f32) / 2);
  if (table.bf16.run != nullptr) {
    EXPECT_EQ(table.bf16.run(*input, kPeakMaxRounds), 16.0 * rounds * PeakOps(table.bf16) / 2);
  }
}

TEST_P(PeakTest, ReadSumsEveryWordOnce) {
  const PeakTable& table = GetPeakTable(GetParam());
  for (size_t units : {8, 16, 24, 104}) {
    const size_t words = units * kReadUnit / sizeof(uint64_t);
    std::vector<uint64_t> storage(words + 8);
    auto* data = reinterpret_cast<uint64_t*>((reinterpret_cast<uintptr_t>(storage.data()) + 63) / 64 * 64);
    uint64_t expected = 0;
    for (size_t i = 0; i < words; ++i) {
      data[i] = (i + 1) * 0x9E3779B97F4A7C15u;
      expected += data[i];
    }
    for (size_t streams : kReadStreams) {
      EXPECT_EQ(table.read(reinterpret_cast<const uint8_t*>(data), units * kReadUnit, streams), expected)
          << units << " units, " << streams << " streams";
    }
  }
}

// A bf16 loop exists exactly where attention and products would use bf16 dots.
TEST_P(PeakTest, EveryLoopHasANameAndWork) {
  const PeakTable& table = GetPeakTable(GetParam());
  for (const PeakLoop* loop : {&table.int8, &table.bf16, &table.f32}) {
    EXPECT_NE(loop->name, nullptr);
    EXPECT_GT(PeakOps(*loop), 0);
  }
  EXPECT_EQ(table.bf16.run != nullptr, (VariantFeatures(GetParam()) & (kAvx512Bf16 | kBf16)) != 0);
}

INSTANTIATE_TEST_SUITE_P(Variants, PeakTest, testing::ValuesIn(RunnableVariants()),
                         [](const auto& info) { return std::string(VariantName(info.param)); });

}  // namespace
}  // namespace moonlit
