// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts: against a plain reference in double precision with float weights, and bit for bit against the experts'
// plain networks for every kind of product; for any number of rows, threads and any chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "kernels/activation/activation.h"
#include "tests/exec/experts_fixture.h"
#include "tests/models/loaded_model.h"
#include "tests/smallops/variants.h"
#include "tests/support/slowed.h"

namespace moonlit::test {
namespace {

ExpertsSpec Spec(size_t experts, size_t used, RouterScores scores = RouterScores::kSoftmax, bool normalise = false,
                 float scale = 1) {
  ExpertsSpec spec;
  spec.route.experts = experts;
  spec.route.used = used;
  spec.route.scores = scores;
  spec.route.normalise = normalise;
  spec.route.scale = scale;
  return spec;
}

bool SameBits(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::span<const float> Row(const std::vector<float>& out, const Mixture& m, size_t row) {
  return std::span(out).subspan(row * m.shape().out, m.shape().out);
}

// Each product is off by at most (terms + 1) roundings of its magnitude; silu bends by at most 1.1 and is off by 12 units, a
// weight by a few tens (tests/smallops), what is left are single roundings.
void ExpectNearReference(const Mixture& m, const std::vector<float>& out, size_t row) {
  const Mixture::Expected expected = m.Reference(row);
  const double units = 2.1 * static_cast<double>(m.shape().d + 1) + static_cast<double>(m.shape().ffn + 1) + 128;
  for (size_t n = 0; n < m.shape().out; ++n) {
    ASSERT_NEAR(Row(out, m, row)[n], expected.values[n], units * kUnit * expected.magnitudes[n])
        << "row " << row << " output " << n;
  }
}

struct RouteCase {
  const char* name;
  ExpertsSpec spec;
  bool biases, addend, selection;
};

class ExpertsRouteTest : public testing::TestWithParam<RouteCase> {};

TEST_P(ExpertsRouteTest, AgreesWithTheReference) {
  const RouteCase& c = GetParam();
  Mixture m({.biases = c.biases, .addend = c.addend}, c.spec);
  if (c.selection) m.selection_bias = RandomFloats(c.spec.route.experts, 9, 0.5f);
  for (size_t rows : {size_t{1}, m.shape().rows}) {
    const std::vector<float> out = m.Run(rows, rows, 2);
    for (size_t row = 0; row < rows; ++row) ExpectNearReference(m, out, row);
  }
}

ExpertsSpec Weighed(ExpertsSpec spec) {
  spec.weigh_inputs = true;
  return spec;
}

const RouteCase kRoutes[] = {
    {"mixtral", Spec(8, 2, RouterScores::kSoftmaxOfChosen), false, true, false},
    {"qwen3", Spec(40, 8, RouterScores::kSoftmax, true), false, true, false},
    {"olmoe", Spec(16, 8), false, false, false},
    {"deepseek", Spec(12, 3, RouterScores::kSigmoid, true, 2.5f), false, true, true},
    {"ernie", Spec(12, 3, RouterScores::kSoftmax, true), false, false, true},
    {"gpt_oss", Spec(8, 4, RouterScores::kSoftmaxOfChosen), true, true, false},
    {"llama4", Weighed(Spec(6, 1, RouterScores::kSigmoid)), false, false, false},
    {"weighed_with_biases", Weighed(Spec(6, 2, RouterScores::kSigmoid)), true, true, false},
    {"one_expert", Spec(1, 1), false, false, false},
    {"all_experts", Spec(5, 5), true, false, false},
    {"many_experts", Spec(300, 3), false, false, false},
};
INSTANTIATE_TEST_SUITE_P(Families, ExpertsRouteTest, testing::ValuesIn(kRoutes),
                         [](const auto& info) { return std::string(info.param.name); });

struct BitsCase {
  Format format;
  size_t d, ffn;
  bool exact;
};

class ExpertsBitsTest : public testing::TestWithParam<BitsCase> {
 protected:
  Mixture Make(const ExpertsSpec& spec) const {
    const BitsCase& c = GetParam();
    return Mixture({.d = c.d, .ffn = c.ffn, .out = 80, .format = c.format}, spec);
  }
};

// The weighted sum of what the experts give as plain networks, by ascending expert. Weights are equal powers of two, so that a
// softmax that is off in the last place does not matter.
TEST_P(ExpertsBitsTest, IsTheSumOfItsExperts) {
  Mixture m = Make(Spec(6, 4, RouterScores::kSoftmaxOfChosen));
  // Four of six logits are equal and above the others; which ones depends on the row.
  for (size_t i = 0; i < m.logits.size(); ++i) m.logits[i] = (i / 6 * 5 + i) % 6 < 4 ? 3.0f : -1.0f;
  std::vector<std::vector<float>> alone;
  for (size_t e = 0; e < 6; ++e) alone.push_back(m.RunExpert(e, GetParam().exact));
  const size_t rows = m.shape().rows;
  const std::vector<float> out = m.Prepare(m.Source(), 3, GetParam().exact).Run(rows, rows, m.shape().out);
  const ActivationTable& activations = GetActivationTable(TestVariant());
  for (size_t row = 0; row < rows; ++row) {
    std::set<size_t> chosen;
    for (const auto& [expert, weight] : m.Route(row)) chosen.insert(expert);
    ASSERT_EQ(chosen.size(), 4u);
    std::vector<float> sum(m.shape().out);
    for (size_t e : chosen) activations.add_scaled(Row(alone[e], m, row).data(), 0.25f, sum.data(), sum.size());
    ASSERT_TRUE(SameBits(Row(out, m, row), sum)) << "row " << row;
  }
}

// A row's bits do not depend on what else is in its step.
TEST_P(ExpertsBitsTest, RowsDependOnThemselvesOnly) {
  const Mixture m = Make(Spec(9, 3, RouterScores::kSoftmax, true));
  const size_t rows = m.shape().rows;
  const MemorySource source = m.Source();
  const std::vector<float> expected = m.Prepare(source, 1, GetParam().exact).Run(rows, 1, m.shape().out);
  for (size_t threads : {1, 2, 3, 4}) {
    TokenRunner runner = m.Prepare(source, threads, GetParam().exact);
    for (size_t chunk : {7, 16, 17, 64}) {
      if (kSlowed && threads != 3) break;
      ASSERT_TRUE(SameBits(runner.Run(rows, chunk, m.shape().out), expected)) << chunk << " rows, " << threads;
    }
    // Every number of rows with one of the numbers of threads; where time is short, every third one.
    for (size_t count = threads; count <= rows; count += kSlowed ? 12 : 4) {
      const std::vector<float> out = runner.Run(count, count, m.shape().out);
      ASSERT_TRUE(SameBits(out, std::span(expected).first(out.size()))) << count << " rows, " << threads;
    }
  }
}

const BitsCase kBits[] = {{Format::kF32, 40, 20, false},    {Format::kF16, 72, 40, false},
                          {Format::kQ4_0, 96, 160, false},  {Format::kQ8_0, 64, 32, false},
                          {Format::kQ4_K, 256, 256, false}, {Format::kQ6_K, 256, 512, false},
                          {Format::kQ4_0, 64, 96, true}};
INSTANTIATE_TEST_SUITE_P(Formats, ExpertsBitsTest, testing::ValuesIn(kBits), [](const auto& info) {
  return std::string(Traits(info.param.format).name) + (info.param.exact ? "_exact" : "");
});

TEST(ExpertsTest, AllRowsMayChooseTheSameExperts) {
  Mixture m({.format = Format::kF32}, Spec(64, 2));
  for (size_t i = 0; i < m.logits.size(); ++i) m.logits[i] = i % 64 == 41 ? 5.0f : i % 64 == 7 ? 4.0f : -1.0f;
  const std::vector<float> out = m.Run(70, 70, 4);
  for (size_t row = 0; row < 70; ++row) {
    ASSERT_EQ(m.Route(row)[0].first, 41u);
    ASSERT_EQ(m.Route(row)[1].first, 7u);
    ExpectNearReference(m, out, row);
  }
}

// More rows than a block has, so that experts have several.
TEST(ExpertsTest, ManyRowsOfOneExpert) {
  Mixture m({.d = 64, .ffn = 96, .out = 32, .rows = 700, .format = Format::kQ4_0}, Spec(3, 2));
  for (size_t i = 0; i < m.logits.size(); ++i) m.logits[i] = i % 3 == 1 ? 5.0f : m.logits[i];
  const MemorySource source = m.Source();
  const std::vector<float> expected = m.Prepare(source, 1, false).Run(700, 1, 32);
  for (size_t threads : {1, 4}) {
    if (kSlowed && threads == 1) continue;
    TokenRunner runner = m.Prepare(source, threads, false);
    for (size_t chunk : {300, 517, 700}) EXPECT_TRUE(SameBits(runner.Run(700, chunk, 32), expected)) << chunk;
  }
}

TEST(ExpertsTest, EqualLogitsGoToTheLowestExperts) {
  Mixture m({}, Spec(10, 3));
  m.logits = m.FilledLogits(0.5f);
  const std::vector<float> equal = m.Run(70, 70, 2);
  for (size_t i = 0; i < m.logits.size(); ++i) m.logits[i] = i % 10 < 3 ? 0.5f : -INFINITY;
  m.spec.route.scale = 0.3f;  // a third each, where it was a tenth
  const std::vector<float> lowest = m.Run(70, 70, 2);
  for (size_t i = 0; i < equal.size(); ++i) ASSERT_NEAR(equal[i], lowest[i], 1e-5 * (1 + std::fabs(equal[i])));
}

// A single row reads nothing of the experts that it did not choose, nor do any rows multiply with them.
TEST(ExpertsTest, OtherExpertsDoNotMatter) {
  Mixture m({}, Spec(8, 2));
  for (size_t i = 0; i < m.logits.size(); ++i) m.logits[i] = i % 8 == 2 ? 1.0f : i % 8 == 5 ? 0.5f : -9.0f;
  const std::vector<float> expected = m.Run(70, 70, 2);
  for (std::vector<float>* weights : {&m.gate, &m.up, &m.down}) {
    const size_t size = weights->size() / 8;
    for (size_t i = 0; i < weights->size(); ++i) {
      if (i / size != 2 && i / size != 5) (*weights)[i] = std::numeric_limits<float>::quiet_NaN();
    }
  }
  EXPECT_TRUE(SameBits(m.Run(70, 70, 2), expected));
  EXPECT_TRUE(SameBits(m.Run(70, 1, 2), expected));
}

// NaN comes last. After a softmax the whole row is NaN, after a sigmoid only a row that must take the NaN; other rows keep their
// bits.
TEST(ExpertsTest, NanLogitsHaveADefinedResult) {
  for (RouterScores scores : {RouterScores::kSoftmax, RouterScores::kSigmoid, RouterScores::kSoftmaxOfChosen}) {
    Mixture m({.rows = 20}, Spec(6, 3, scores));
    const std::vector<float> expected = m.Run(20, 20, 2);
    m.logits[7 * 6 + 0] = kNan;                        // one of row 7
    std::fill_n(m.logits.begin() + 11 * 6, 4, kNan);   // all but two of row 11
    std::fill_n(m.logits.begin() + 15 * 6, 6, kNan);   // all of row 15
    std::fill_n(m.logits.begin() + 16 * 6, 5, -kInf);  // all but one of row 16, which is no NaN
    const std::vector<float> out = m.Run(20, 20, 2);
    for (size_t row = 0; row < 20; ++row) {
      const bool touched = row == 7 || row == 11 || row == 15 || row == 16;
      if (!touched) {
        ASSERT_TRUE(SameBits(Row(out, m, row), Row(expected, m, row))) << row;
        continue;
      }
      const bool is_nan = row == 11 || row == 15 || (row == 7 && scores == RouterScores::kSoftmax);
      for (float v : Row(out, m, row)) ASSERT_EQ(std::isnan(v), is_nan) << row;
      if (!is_nan) ExpectNearReference(m, out, row);
    }
  }
}

TEST(ExpertsTest, ScoresThatVanishGiveZeros) {
  Mixture m({.rows = 4}, Spec(6, 2, RouterScores::kSigmoid, true));
  m.logits = m.FilledLogits(-1000);
  for (float v : m.Run(4, 4, 2)) ASSERT_EQ(v, 0.0f);
}

}  // namespace
}  // namespace moonlit::test
