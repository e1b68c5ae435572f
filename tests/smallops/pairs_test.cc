// SPDX-License-Identifier: Apache-2.0
#include "kernels/pairs/pairs.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/pairs/reference.h"
#include "tests/smallops/variants.h"

namespace moonlit {
namespace {

constexpr size_t kRows = 5;

class PairsTest : public testing::TestWithParam<Variant> {
 protected:
  const PairTable& table() const { return GetPairTable(GetParam()); }
};

// A sum of n products is off by at most n roundings of the sum of their magnitudes, which is at most n here.
double Bound(size_t n) { return static_cast<double>(n) * static_cast<double>(n) * kUnit; }

TEST_P(PairsTest, DotsAgreeWithDoublePrecision) {
  for (size_t dim : Sizes()) {
    const size_t stride = dim + 3;
    const auto x = RandomFloats(dim, 1), rows = RandomFloats(kRows * stride, 2);
    std::vector<float> out(kRows + 1, 7.0f);
    table().dots(x.data(), rows.data(), stride, kRows, dim, out.data());
    for (size_t j = 0; j < kRows; ++j)
      ASSERT_NEAR(out[j], ReferenceDot(x.data(), rows.data() + j * stride, dim), Bound(dim)) << "dim " << dim;
    EXPECT_EQ(out[kRows], 7.0f);
  }
}

TEST_P(PairsTest, WeightedSumsAgreeWithDoublePrecision) {
  for (size_t dim : Sizes()) {
    const size_t stride = dim + 3;
    const auto weights = RandomFloats(kRows, 1), rows = RandomFloats(kRows * stride, 2);
    std::vector<float> out(dim + 1, 7.0f);
    table().weighted_sum(weights.data(), rows.data(), stride, kRows, dim, out.data());
    for (size_t c = 0; c < dim; ++c) {
      ASSERT_NEAR(out[c], ReferenceWeightedSum(weights.data(), rows.data() + c, stride, kRows), Bound(kRows))
          << "dim " << dim << " column " << c;
    }
    EXPECT_EQ(out[dim], 7.0f);
  }
}

// The bits of a column do not depend on how many there are: they are those of one accumulator, rows ascending.
TEST_P(PairsTest, ColumnsDoNotKnowOfEachOther) {
  constexpr size_t kDim = 150;
  const auto weights = RandomFloats(kRows, 1), rows = RandomFloats(kRows * kDim, 2);
  std::vector<float> all(kDim), one(1);
  table().weighted_sum(weights.data(), rows.data(), kDim, kRows, kDim, all.data());
  for (size_t c = 0; c < kDim; ++c) {
    table().weighted_sum(weights.data(), rows.data() + c, kDim, kRows, 1, one.data());
    ASSERT_EQ(one[0], all[c]) << "column " << c;
  }
}

TEST_P(PairsTest, NoRows) {
  std::vector<float> out(3, 7.0f);
  table().dots(out.data(), nullptr, 0, 0, 3, out.data());
  EXPECT_EQ(out, std::vector<float>(3, 7.0f));
  table().weighted_sum(nullptr, nullptr, 0, 0, 3, out.data());
  EXPECT_EQ(out, std::vector<float>(3, 0.0f));
}

INSTANTIATE_TEST_SUITE_P(Variants, PairsTest, testing::ValuesIn(RunnableVariants()),
                         [](const auto& info) { return std::string(VariantName(info.param)); });

}  // namespace
}  // namespace moonlit
