// SPDX-License-Identifier: Apache-2.0
#include "runtime/xnnpack/float_product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

namespace moonlit {
namespace {

std::vector<float> Random(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  // Spread over 16 binary magnitudes, so that a different order of additions is seen.
  for (float& value : values) {
    const float mantissa = static_cast<float>(static_cast<int32_t>(generator())) * 0x1p-31f;
    value = std::ldexp(mantissa, static_cast<int>(generator() % 16) - 8);
  }
  return values;
}

Status RunAll(FloatProduct& product, size_t rows, const float* x, float* y) {
  for (size_t slice = 0; slice < product.slices(); ++slice) MOONLIT_RETURN_IF_ERROR(product.Run(slice, rows, x, y));
  return Status();
}

class FloatProductTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Status status = FloatProduct::Available();
    if (!status.ok()) {
      // Not offered is a legal answer, and then nothing may be created either.
      ASSERT_EQ(status.code(), Code::kUnsupported) << status.ToString();
      const float weight = 1;
      EXPECT_EQ(FloatProduct::Create(&weight, {.outputs = 1, .inputs = 1}).status().code(), Code::kUnsupported);
      GTEST_SKIP() << status.ToString();
    }
  }
};

struct Case {
  size_t rows, outputs, inputs;
};

TEST_F(FloatProductTest, AgreesWithDoubles) {
  for (const Case& c : {Case{1, 1, 1}, Case{1, 64, 64}, Case{3, 65, 63}, Case{7, 83, 131}, Case{8, 16, 896},
                        Case{17, 200, 576}, Case{33, 5, 7}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.outputs << " outputs, " << c.inputs << " inputs");
    const std::vector<float> weights = Random(c.outputs * c.inputs, 1);
    const std::vector<float> x = Random(c.rows * c.inputs + FloatProduct::kReadablePast, 2);
    std::vector<float> y(c.rows * c.outputs, std::numeric_limits<float>::quiet_NaN());
    auto product = FloatProduct::Create(weights.data(), {.outputs = c.outputs, .inputs = c.inputs});
    ASSERT_TRUE(product.ok()) << product.status().ToString();
    const Status status = RunAll(product.value(), c.rows, x.data(), y.data());
    ASSERT_TRUE(status.ok()) << status.ToString();
    for (size_t r = 0; r < c.rows; ++r) {
      for (size_t n = 0; n < c.outputs; ++n) {
        double sum = 0, magnitude = 0;
        for (size_t k = 0; k < c.inputs; ++k) {
          const double term = static_cast<double>(x[r * c.inputs + k]) * weights[n * c.inputs + k];
          sum += term;
          magnitude += std::fabs(term);
        }
        // Higham, Accuracy and Stability of Numerical Algorithms, 3.1: any order of K products and additions in f32 errs by
        // at most gamma(K) times the sum of magnitudes, gamma(K) = K u / (1 - K u), u = 2^-24.
        const double ku = static_cast<double>(c.inputs) * 0x1p-24;
        ASSERT_LE(std::fabs(y[r * c.outputs + n] - sum), ku / (1 - ku) * magnitude) << "row " << r << ", output " << n;
      }
    }
  }
}

// The reason this provider may be used at all: one row alone (the GEMV path), a full tile, a tile and one more.
TEST_F(FloatProductTest, RowsDoNotDependOnTheirNumber) {
  constexpr size_t kRows = 34;
  for (const Case& c : {Case{kRows, 1, 5}, Case{kRows, 33, 64}, Case{kRows, 130, 577}}) {
    SCOPED_TRACE(testing::Message() << c.outputs << " outputs, " << c.inputs << " inputs");
    const std::vector<float> weights = Random(c.outputs * c.inputs, 3);
    const std::vector<float> x = Random(kRows * c.inputs + FloatProduct::kReadablePast, 4);
    auto product = FloatProduct::Create(weights.data(), {.outputs = c.outputs, .inputs = c.inputs});
    ASSERT_TRUE(product.ok()) << product.status().ToString();
    std::vector<float> alone(kRows * c.outputs), together(kRows * c.outputs);
    for (size_t r = 0; r < kRows; ++r) {
      ASSERT_TRUE(RunAll(product.value(), 1, &x[r * c.inputs], &alone[r * c.outputs]).ok());
    }
    for (size_t rows = 2; rows <= kRows; ++rows) {
      std::fill(together.begin(), together.end(), 0.0f);
      ASSERT_TRUE(RunAll(product.value(), rows, x.data(), together.data()).ok());
      ASSERT_EQ(std::memcmp(alone.data(), together.data(), rows * c.outputs * sizeof(float)), 0) << rows << " rows";
    }
  }
}

TEST_F(FloatProductTest, SlicesWriteTheirOutputsOnly) {
  constexpr size_t kRows = 3, kOutputs = 50, kInputs = 20, kInputStride = 24, kOutputStride = 61;
  const std::vector<float> weights = Random(kOutputs * kInputs, 5);
  const std::vector<float> x = Random(kRows * kInputStride + FloatProduct::kReadablePast, 6);
  auto product = FloatProduct::Create(
      weights.data(),
      {.outputs = kOutputs, .inputs = kInputs, .input_stride = kInputStride, .output_stride = kOutputStride}, 16);
  ASSERT_TRUE(product.ok()) << product.status().ToString();
  ASSERT_EQ(product->slices(), 4u);
  std::vector<float> whole(kRows * kOutputStride, -7.0f);
  ASSERT_TRUE(RunAll(product.value(), kRows, x.data(), whole.data()).ok());
  for (size_t slice = 0; slice < 4; ++slice) {
    std::vector<float> y(kRows * kOutputStride, -7.0f);
    ASSERT_TRUE(product->Run(slice, kRows, x.data(), y.data()).ok());
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t n = 0; n < kOutputStride; ++n) {
        const bool ours = n / 16 == slice && n < kOutputs;
        ASSERT_EQ(y[r * kOutputStride + n], ours ? whole[r * kOutputStride + n] : -7.0f)
            << "slice " << slice << ", output " << n;
      }
    }
  }
  // One row by hand, to see that strides and slices point where they should.
  for (size_t n = 0; n < kOutputs; ++n) {
    double sum = 0, magnitude = 0;
    for (size_t k = 0; k < kInputs; ++k) {
      sum += static_cast<double>(x[2 * kInputStride + k]) * weights[n * kInputs + k];
      magnitude += std::fabs(static_cast<double>(x[2 * kInputStride + k]) * weights[n * kInputs + k]);
    }
    ASSERT_NEAR(whole[2 * kOutputStride + n], sum, kInputs * 0x1p-23 * magnitude);
  }
}

TEST_F(FloatProductTest, SlicesRunOnSeveralThreads) {
  constexpr size_t kRows = 9, kOutputs = 256, kInputs = 300;
  const std::vector<float> weights = Random(kOutputs * kInputs, 7);
  const std::vector<float> x = Random(kRows * kInputs + FloatProduct::kReadablePast, 8);
  auto product = FloatProduct::Create(weights.data(), {.outputs = kOutputs, .inputs = kInputs}, 32);
  ASSERT_TRUE(product.ok()) << product.status().ToString();
  std::vector<float> one(kRows * kOutputs), many(kRows * kOutputs);
  ASSERT_TRUE(RunAll(product.value(), kRows, x.data(), one.data()).ok());
  std::vector<std::thread> threads;
  for (size_t slice = 0; slice < product->slices(); ++slice) {
    threads.emplace_back([&, slice] { EXPECT_TRUE(product->Run(slice, kRows, x.data(), many.data()).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)), 0);
}

TEST_F(FloatProductTest, NoRowsWriteNothing) {
  const float weights[2] = {1, 2};
  auto product = FloatProduct::Create(weights, {.outputs = 1, .inputs = 2});
  ASSERT_TRUE(product.ok());
  float y = -7;
  const std::vector<float> x(2 + FloatProduct::kReadablePast);
  EXPECT_TRUE(product->Run(0, 0, x.data(), &y).ok());
  EXPECT_EQ(y, -7);
}

TEST_F(FloatProductTest, RefusesBadShapes) {
  const float weights[4] = {1, 2, 3, 4};
  const FloatProductShape bad[] = {{.outputs = 0, .inputs = 2},
                                   {.outputs = 2, .inputs = 0},
                                   {.outputs = SIZE_MAX / 2, .inputs = 2},
                                   {.outputs = 2, .inputs = 2, .input_stride = 1},
                                   {.outputs = 2, .inputs = 2, .output_stride = 1}};
  for (const FloatProductShape& shape : bad) {
    EXPECT_EQ(FloatProduct::Create(weights, shape).status().code(), Code::kInvalidArgument)
        << shape.outputs << " " << shape.inputs;
  }
  EXPECT_EQ(FloatProduct::Create(nullptr, {.outputs = 1, .inputs = 1}).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace moonlit
