// SPDX-License-Identifier: Apache-2.0
// What rounding activations to A8 costs an output, beside channels that are a hundred times as large as the rest (as some
// models have them).
//
// A value errs by at most half of its group's scale, evenly spread in between; so an output errs by at most sum |w| scale / 2,
// and by sqrt(sum w^2 scale^2 / 12) in the mean.
#include <gtest/gtest.h>
#include <math.h>

#include "tests/matmul/cases.h"

namespace moonlit {
namespace {

constexpr size_t kK = 2048, kOutputs = 512;

struct Errors {
  double worst_of_bound = 0;  // |error| / its bound
  double of_mean = 0;         // root mean square of error / its expectation
  double relative = 0;        // norm of errors / norm of outputs
};

Errors Measure(Variant variant, const std::vector<float>& x) {
  std::mt19937 random(31);
  const ProductKernel& kernel = GetProductKernel(variant, Format::kQ8_0);
  const std::vector<uint8_t> weights = MakeWeights(Format::kQ8_0, Weights::kGaussian, kOutputs, kK, &random);
  const PackedMatrix packed(kernel, Format::kQ8_0, weights, kOutputs, kK);
  const QuantizedRows a8(variant, x, 1, kK);
  std::vector<float> out(kOutputs);
  ProductArgs args = {};
  args.k = kK;
  args.n = kOutputs;
  args.weights = packed.bytes.data();
  args.tile_end = packed.tiles;
  args.rows = 1;
  args.a8 = a8.view;
  args.out = out.data();
  args.out_stride = kOutputs;
  kernel.multiply(args);

  Errors errors;
  double squares = 0, outputs = 0;
  std::vector<float> w(kK);
  for (size_t n = 0; n < kOutputs; ++n) {
    Traits(Format::kQ8_0).dequantize(weights.data() + n * RowBytes(Format::kQ8_0, kK), w.data(), kK);
    double exact = 0, bound = 0, variance = 0, magnitude = 0;
    for (size_t i = 0; i < kK; ++i) {
      const double scale = *A8Scale(a8.view, 0, i / kA8Group), wi = w[i];
      exact += double{x[i]} * wi;
      bound += fabs(wi) * scale / 2;
      variance += wi * wi * scale * scale / 12;
      magnitude += fabs(double{x[i]} * wi);
    }
    const double error = out[n] - exact;
    // The contract's own float operations: at most three a group, each 2^-24 of what it adds up.
    const double rounding = 3 * (kK / kA8Group) * 0x1p-24 * magnitude;
    errors.worst_of_bound = fmax(errors.worst_of_bound, fabs(error) / (bound + rounding));
    squares += error * error / variance;
    errors.relative += error * error;
    outputs += exact * exact;
  }
  errors.of_mean = sqrt(squares / kOutputs);
  errors.relative = sqrt(errors.relative / outputs);
  return errors;
}

class A8Accuracy : public testing::TestWithParam<Variant> {};

TEST_P(A8Accuracy, GaussianActivations) {
  std::mt19937 random(32);
  const Errors errors = Measure(GetParam(), Gaussian(kK, &random));
  EXPECT_LE(errors.worst_of_bound, 1.0);
  EXPECT_NEAR(errors.of_mean, 1.0, 0.2);  // 512 outputs: the mean of squares has a standard deviation of 6%
  EXPECT_LT(errors.relative, 0.01);       // largest of 32 normal values: about 2.1; 2.1 / 127 / sqrt(12) = 0.5%
}

TEST_P(A8Accuracy, TwoChannelsOfAHundredStandardDeviations) {
  std::mt19937 random(33);
  std::vector<float> x = Gaussian(kK, &random);
  x[300] = 100.0f;
  x[1701] = -100.0f;
  const Errors errors = Measure(GetParam(), x);
  EXPECT_LE(errors.worst_of_bound, 1.0);
  EXPECT_NEAR(errors.of_mean, 1.0, 0.2);
  // 62 values share the outliers' scale of 100 / 127, whose rounding is 0.23; the other outputs' norm is sqrt(2 * 100^2 + 2046).
  EXPECT_LT(errors.relative, 0.02);
}

INSTANTIATE_TEST_SUITE_P(Variants, A8Accuracy, testing::ValuesIn(RunnableVariants()),
                         [](const auto& info) { return std::string(VariantName(info.param)); });

}  // namespace
}  // namespace moonlit
