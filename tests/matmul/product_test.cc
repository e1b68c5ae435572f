// SPDX-License-Identifier: Apache-2.0
// Every kernel of every format against the scalar reference, bit for bit: random and extreme weights, widths that are no
// multiples of 256, any number of rows, any split of tiles, the epilogue, numbers that are not finite.
#include <gtest/gtest.h>
#include <math.h>

#include "kernels/base/round.h"
#include "tests/matmul/cases.h"
#include "tests/support/slowed.h"

namespace moonlit {
namespace {

using Case = std::tuple<Variant, Format>;

constexpr size_t kOutputs =
    83;  // no multiple of any n_tile; more than four tiles of 16, so that GEMV runs both of its bodies

class ProductTest : public testing::TestWithParam<Case> {
 protected:
  // One piece of code multiplies all formats that are only read, and packing_test reads every one of them: where time is short, one of
  // them stands for all.
  void SetUp() override {
    const bool only_read = Traits(format()).codes == nullptr && !IsPlain(format());
    if (kSlowed && only_read && format() != Format::kIQ2_XS) GTEST_SKIP() << "tested with IQ2_XS";
  }
  Variant variant() const { return std::get<0>(GetParam()); }
  Format format() const { return std::get<1>(GetParam()); }
  const ProductKernel& kernel() const { return GetProductKernel(variant(), format()); }
  bool exact_only() const { return kernel().activation == Activation::kF32; }
};

// Weights, activations and everything that a call needs.
struct Problem {
  Problem(Variant variant, Format format, Weights kind, size_t n, size_t k, const std::vector<float>& x, size_t rows,
          std::mt19937* random)
      : kernel(GetProductKernel(variant, format)),
        format(format),
        fused(IsFused(variant)),
        pair_rounding(PairRoundingOf(variant)),
        n(n),
        k(k),
        rows(rows),
        x(x),
        weights(MakeWeights(format, kind, n, k, random)),
        packed(kernel, format, weights, n, k),
        a8(variant, x, rows, k) {}

  ReferenceProduct Reference() const { return {format, weights.data(), RowBytes(format, k), n, k}; }

  ProductArgs Args(float* out) const {
    ProductArgs args = {};
    args.k = k;
    args.n = n;
    args.weights = packed.bytes.data();
    args.tile_end = packed.tiles;
    args.rows = rows;
    args.a8 = a8.view;
    args.x = x.data();
    args.x_stride = k;
    args.out = out;
    args.out_stride = n;
    return args;
  }

  // [rows, n], from the reference of `multiply`, or of `multiply_exact`.
  std::vector<float> Expected(bool exact) const {
    std::vector<float> expected(rows * n);
    for (size_t r = 0; r < rows; ++r) {
      if (!exact && kernel.arithmetic == Arithmetic::kBF16) {
        ReferencePairs(Reference(), x.data() + r * k, pair_rounding, expected.data() + r * n);
      } else if (exact || kernel.activation == Activation::kF32) {
        ReferenceFloat(Reference(), x.data() + r * k, fused, expected.data() + r * n);
      } else {
        ReferenceA8(Reference(), a8.view, r, fused, expected.data() + r * n);
      }
    }
    return expected;
  }

  const ProductKernel& kernel;
  Format format;
  bool fused;
  PairRounding pair_rounding;
  size_t n, k, rows;
  std::vector<float> x;
  std::vector<uint8_t> weights;
  PackedMatrix packed;
  QuantizedRows a8;
};

TEST_P(ProductTest, EqualsTheReferenceAtEveryWidth) {
  std::mt19937 random(11);
  for (size_t k : Widths(format())) {
    const size_t rows = k > 1000 ? 3 : 6;
    for (Weights kind : {Weights::kRandomBytes, Weights::kGaussian}) {
      const Problem p(variant(), format(), kind, kOutputs, k, Gaussian(rows * k, &random), rows, &random);
      const std::vector<float> expected = p.Expected(false);
      std::vector<float> out(rows * kOutputs, 77.0f);
      kernel().multiply(p.Args(out.data()));
      ASSERT_EQ(FirstDifference(out.data(), kOutputs, expected.data(), rows, kOutputs), "") << "k " << k;
    }
  }
}

// 16-bit sums that saturate or wrap at the extremes, on exactly one kind of machine.
TEST_P(ProductTest, EqualsTheReferenceAtTheExtremes) {
  std::mt19937 random(12);
  const size_t k = 2 * Traits(format()).block_values * (IsPlain(format()) ? 32 : 1);
  for (Weights kind : {Weights::kAllOnes, Weights::kAllZeros, Weights::kAlternating}) {
    // Rows of A8: all 127, all -127, alternating by one, by two, by four, by sixteen.
    const size_t rows = 6;
    std::vector<float> x(rows * k);
    for (size_t i = 0; i < k; ++i) {
      x[i] = 1.0f;
      x[k + i] = -1.0f;
      x[2 * k + i] = i % 2 ? 1.0f : -1.0f;
      x[3 * k + i] = i / 2 % 2 ? 1.0f : -1.0f;
      x[4 * k + i] = i / 4 % 2 ? 1.0f : -1.0f;
      x[5 * k + i] = i / 16 % 2 ? 1.0f : -1.0f;
    }
    const Problem p(variant(), format(), kind, 19, k, x, rows, &random);
    const std::vector<float> expected = p.Expected(false);
    std::vector<float> out(rows * p.n);
    kernel().multiply(p.Args(out.data()));
    ASSERT_EQ(FirstDifference(out.data(), p.n, expected.data(), rows, p.n), "") << static_cast<int>(kind);
  }
}

// One row gives the bits that it gives among many, at every number of rows.
TEST_P(ProductTest, RowsDoNotKnowEachOther) {
  std::mt19937 random(13);
  const size_t k = RoundUp(320, Traits(format()).block_values);
  const size_t most = 33;
  const Problem p(variant(), format(), Weights::kRandomBytes, kOutputs, k, Gaussian(most * k, &random), most, &random);
  const std::vector<float> expected = p.Expected(false);
  std::vector<size_t> counts = {most};
  for (size_t rows = 1; rows <= 20; ++rows) counts.push_back(rows);
  for (size_t rows : counts) {
    std::vector<float> out((rows + 1) * kOutputs, 77.0f);
    ProductArgs args = p.Args(out.data());
    args.rows = rows;
    kernel().multiply(args);
    ASSERT_EQ(FirstDifference(out.data(), kOutputs, expected.data(), rows, kOutputs), "") << rows << " rows";
    for (size_t i = rows * kOutputs; i < out.size(); ++i) ASSERT_EQ(out[i], 77.0f) << "a row too many was written";
  }
}

// The loop over blocks of rows: many rows of a width at which a block is few.
TEST_P(ProductTest, ManyRowsEqualRowsAlone) {
  std::mt19937 random(14);
  const size_t k = RoundUp(4096, Traits(format()).block_values);
  const size_t rows = 150;
  const Problem p(variant(), format(), Weights::kRandomBytes, 5, k, Gaussian(rows * k, &random), rows, &random);
  std::vector<float> together(rows * p.n), alone(rows * p.n);
  kernel().multiply(p.Args(together.data()));
  for (size_t r = 0; r < rows; ++r) {
    ProductArgs args = p.Args(alone.data() + r * p.n);
    args.rows = 1;
    args.a8 = A8From(args.a8, r, 0);
    args.x += r * args.x_stride;
    kernel().multiply(args);
  }
  EXPECT_EQ(FirstDifference(together.data(), p.n, alone.data(), rows, p.n), "");
}

TEST_P(ProductTest, AnySplitOfTilesAndAnyPlaceForTheOutput) {
  std::mt19937 random(15);
  const size_t k = RoundUp(96, Traits(format()).block_values);
  for (size_t rows : {1, 5}) {
    const Problem p(variant(), format(), Weights::kRandomBytes, kOutputs, k, Gaussian(rows * k, &random), rows,
                    &random);
    const std::vector<float> expected = p.Expected(false);
    for (size_t split = 0; split <= p.packed.tiles; ++split) {
      const size_t first = split * kernel().n_tile < kOutputs ? split * kernel().n_tile : kOutputs;
      std::vector<float> out(rows * kOutputs, 77.0f), scratch(rows * (kOutputs + 5), 77.0f);
      ProductArgs args = p.Args(out.data());
      args.tile_end = split;
      kernel().multiply(args);
      args = p.Args(scratch.data());
      args.tile_begin = split;
      args.out_first = split * kernel().n_tile;
      args.out_stride = kOutputs + 5;
      kernel().multiply(args);
      for (size_t r = 0; r < rows; ++r) {
        for (size_t i = 0; i < kOutputs; ++i) {
          const float value = i < first ? out[r * kOutputs + i] : scratch[r * (kOutputs + 5) + i - first];
          ASSERT_TRUE(SameBits(value, expected[r * kOutputs + i])) << "split " << split << " output " << i;
          if (i >= first) {
            ASSERT_EQ(out[r * kOutputs + i], 77.0f) << "an output of another tile was written";
          }
        }
        for (size_t i = kOutputs - first; i < kOutputs + 5; ++i) ASSERT_EQ(scratch[r * (kOutputs + 5) + i], 77.0f);
      }
    }
  }
}

TEST_P(ProductTest, BiasThenAddendWhichMayBeTheOutput) {
  std::mt19937 random(16);
  const size_t k = RoundUp(64, Traits(format()).block_values), rows = 7;
  const Problem p(variant(), format(), Weights::kGaussian, kOutputs, k, Gaussian(rows * k, &random), rows, &random);
  const std::vector<float> bias = Gaussian(kOutputs, &random);
  const std::vector<float> addend = Gaussian(rows * kOutputs, &random);
  for (bool exact : {false, true}) {
    std::vector<float> expected = p.Expected(exact);
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i] = expected[i] + bias[i % kOutputs];
      expected[i] = expected[i] + addend[i];
    }
    std::vector<float> out = addend;
    ProductArgs args = p.Args(out.data());
    args.bias = bias.data();
    args.addend = out.data();
    args.addend_stride = kOutputs;
    (exact ? kernel().multiply_exact : kernel().multiply)(args);
    ASSERT_EQ(FirstDifference(out.data(), kOutputs, expected.data(), rows, kOutputs), "") << (exact ? "exact" : "fast");
  }
}

TEST_P(ProductTest, ExactEqualsTheFloatReference) {
  std::mt19937 random(17);
  for (size_t k : {Widths(format())[0], RoundUp(800, Traits(format()).block_values)}) {
    const Problem p(variant(), format(), Weights::kRandomBytes, 21, k, Gaussian(70 * k, &random), 70, &random);
    const std::vector<float> expected = p.Expected(true);
    for (size_t rows : {1, 2, 6, 17, 70}) {
      std::vector<float> out(rows * p.n);
      ProductArgs args = p.Args(out.data());
      args.rows = rows;
      kernel().multiply_exact(args);
      ASSERT_EQ(FirstDifference(out.data(), p.n, expected.data(), rows, p.n), "") << "k " << k << " rows " << rows;
    }
  }
}

// The contract's arithmetic itself is near the real product: every float operation errs by at most 2^-24 of its result, and
// no partial result exceeds the sum of magnitudes; there are at most 4 operations a group and one rounding in each weight.
TEST_P(ProductTest, IsWithinTheRoundingBoundOfFloat64) {
  if (exact_only()) return;
  std::mt19937 random(18);
  const size_t k = RoundUp(896, Traits(format()).block_values), n = 21;
  const Problem p(variant(), format(), Weights::kGaussian, n, k, Gaussian(k, &random), 1, &random);
  std::vector<float> out(n);
  std::vector<double> expected(n);
  kernel().multiply(p.Args(out.data()));
  ReferenceA8Double(p.Reference(), p.a8.view, 0, expected.data());
  const FormatTraits& traits = Traits(format());
  for (size_t i = 0; i < n; ++i) {
    double magnitude = 0.0;
    size_t groups = 0;
    for (size_t b = 0; b < k / traits.block_values; ++b) {
      BlockCodes codes;
      traits.codes(p.weights.data() + i * RowBytes(format(), k) + b * traits.block_bytes, &codes);
      groups += codes.values / codes.group;
      for (size_t j = 0; j < codes.values; ++j) {
        const size_t at = b * codes.values + j, g = j / codes.group;
        const double a = fabs(static_cast<double>(*A8Scale(p.a8.view, 0, at / kA8Group)) * p.a8.q(0, at));
        magnitude +=
            a * (fabs(static_cast<double>(codes.scale[g]) * codes.code[j]) + fabs(static_cast<double>(codes.min[g])));
      }
    }
    EXPECT_NEAR(out[i], expected[i], (4.0 * static_cast<double>(groups) + 2.0) * 0x1p-24 * magnitude) << i;
  }
}

// A scale that is inf or NaN poisons its own outputs and no others, and the result is the reference's.
TEST_P(ProductTest, NotFiniteScalesStayInTheirOutput) {
  if (exact_only()) return;
  std::mt19937 random(19);
  const size_t block_bytes = Traits(format()).block_bytes;
  const size_t k = 2 * Traits(format()).block_values, rows = 3, n = 19;
  Problem p(variant(), format(), Weights::kGaussian, n, k, Gaussian(rows * k, &random), rows, &random);
  const std::vector<float> before = p.Expected(false);
  // Some byte patterns make the scale not finite in each format; which, the reference says.
  uint8_t* block = p.weights.data() + 5 * RowBytes(format(), k);
  for (size_t i = 0; i < block_bytes; ++i) block[i] = 0xFF;
  const PackedMatrix packed(kernel(), format(), p.weights, n, k);
  std::vector<float> out(rows * n);
  ProductArgs args = p.Args(out.data());
  args.weights = packed.bytes.data();
  kernel().multiply(args);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < n; ++i) {
      if (i == 5) {
        EXPECT_TRUE(isnan(out[r * n + i]));
      } else {
        EXPECT_TRUE(SameBits(out[r * n + i], before[r * n + i])) << i;
      }
    }
  }
}

TEST_P(ProductTest, NotFiniteActivationsGiveNaNInTheirRow) {
  if (exact_only()) return;
  std::mt19937 random(20);
  const size_t k = RoundUp(64, Traits(format()).block_values), rows = 3, n = 19;
  std::vector<float> x = Gaussian(rows * k, &random);
  x[k + 7] = INFINITY;
  const Problem p(variant(), format(), Weights::kGaussian, n, k, x, rows, &random);
  std::vector<float> out(rows * n);
  kernel().multiply(p.Args(out.data()));
  for (size_t i = 0; i < n; ++i) {
    EXPECT_TRUE(isfinite(out[i]));
    EXPECT_TRUE(isnan(out[n + i]));
    EXPECT_TRUE(isfinite(out[2 * n + i]));
  }
}

// Rounding to odd shows at the edges: products below the normal numbers and beyond the largest, sums that cancel, any weights.
TEST_P(ProductTest, PairsThatRoundToOddDoSoAtTheEdges) {
  if (kernel().arithmetic != Arithmetic::kBF16 || PairRoundingOf(variant()) != PairRounding::kToOdd) return;
  std::mt19937 random(22);
  const size_t k = 96, rows = 13, n = 19;
  std::vector<float> x(rows * k);
  for (size_t i = 0; i < x.size(); ++i) {
    const int exponent = static_cast<int>(random() % 200) - (i % 3 == 0 ? 140 : 80);
    x[i] = ldexpf(random() % 2 ? 1.0f + static_cast<float>(random() % 256) / 256 : -1.5f, exponent);
    if (i % 7 == 1) x[i] = -x[i - 1];
  }
  Problem p(variant(), format(), Weights::kGaussian, n, k, x, rows, &random);
  // Every third output gets weights of any size, infinite ones and NaN too.
  for (size_t i = 0; i < p.weights.size(); ++i) {
    if (i / (2 * k) % 3 == 0 && random() % 4 == 0) p.weights[i] = static_cast<uint8_t>(random());
  }
  const PackedMatrix packed(kernel(), format(), p.weights, n, k);
  std::vector<float> out(rows * n);
  ProductArgs args = p.Args(out.data());
  args.weights = packed.bytes.data();
  kernel().multiply(args);
  const std::vector<float> expected = p.Expected(false);
  EXPECT_EQ(FirstDifference(out.data(), n, expected.data(), rows, n), "");
  size_t finite = 0;
  for (float value : expected) finite += isfinite(value) && value != 0.0f ? 1 : 0;
  EXPECT_GT(finite, rows * n / 8) << "the case no longer tests anything";
}

INSTANTIATE_TEST_SUITE_P(All, ProductTest,
                         testing::Combine(testing::ValuesIn(RunnableVariants()), testing::ValuesIn(kAllFormats)),
                         [](const auto& info) {
                           return std::string(VariantName(std::get<0>(info.param))) + "_" +
                                  Traits(std::get<1>(info.param)).name;
                         });

// Scales below the normal numbers, negative zero, and all f16 bit patterns that are finite.
TEST(SubnormalScales, EqualTheReference) {
  for (Variant variant : RunnableVariants()) {
    if (FlushesSubnormals(variant)) continue;
    std::mt19937 random(21);
    std::vector<float> x = Gaussian(32, &random);
    for (float& v : x) v *= 1e-30f;
    Problem p(variant, Format::kQ4_0, Weights::kRandomBytes, 4096, 32, x, 1, &random);
    for (size_t i = 0; i < p.n; ++i) {
      const uint16_t bits = static_cast<uint16_t>(i * 16 + i % 16);
      p.weights[i * 18] = static_cast<uint8_t>(bits);
      p.weights[i * 18 + 1] = static_cast<uint8_t>(bits >> 8);
    }
    const PackedMatrix packed(p.kernel, p.format, p.weights, p.n, p.k);
    std::vector<float> out(p.n);
    ProductArgs args = p.Args(out.data());
    args.weights = packed.bytes.data();
    p.kernel.multiply(args);
    const std::vector<float> expected = p.Expected(false);
    EXPECT_EQ(FirstDifference(out.data(), p.n, expected.data(), 1, p.n), "") << VariantName(variant);
  }
}

}  // namespace
}  // namespace moonlit
