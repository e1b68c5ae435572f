// SPDX-License-Identifier: Apache-2.0
#include "runtime/xnnpack/float_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "runtime/tensor/buffer.h"

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

// Packed weights with the operators over them.
struct Packed {
  Packed(const std::vector<float>& weights, const FloatProductShape& shape, size_t input_stride, size_t threads)
      : outputs(shape.outputs), layout(FloatProduct::LayOut(shape)) {
    auto buffer = Buffer::Allocate(layout.bytes, "packed weights");
    EXPECT_TRUE(buffer.ok());
    memory = std::move(buffer).value();
    for (size_t s = 0; s < layout.slices; ++s) {
      // As if it had been read alone: nothing lies behind the slice's last row.
      const float* first = &weights[s * layout.slice_outputs * shape.inputs];
      const std::vector<float> rows(first, first + layout.outputs_of(s, shape.outputs) * shape.inputs);
      const Status status = FloatProduct::Pack(shape, s, rows.data(), memory.data());
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
    auto created = FloatProduct::Create(shape, memory.data(), input_stride, threads);
    EXPECT_TRUE(created.ok()) << created.status().ToString();
    product.emplace(std::move(created).value());
  }

  size_t units() const { return (outputs + FloatProduct::kUnit - 1) / FloatProduct::kUnit; }

  void RunUnit(size_t thread, size_t unit, size_t rows, const float* x, float* y) const {
    constexpr float kUntouched = -7;
    const size_t stride = layout.output_stride, first = unit * FloatProduct::kUnit;
    const size_t count = std::min(FloatProduct::kUnit, outputs - first);
    std::vector<float> made(rows * stride, kUntouched);
    product->Run(thread, unit, rows, x, made.data());
    for (size_t r = 0; r < rows; ++r) {
      for (size_t n = count; n < stride; ++n) {
        ASSERT_EQ(made[r * stride + n], kUntouched) << "unit " << unit << ", output " << n;
      }
      std::memcpy(&y[r * outputs + first], &made[r * stride], count * sizeof(float));
    }
  }

  // y [rows, outputs]
  void Run(size_t rows, const float* x, float* y) const {
    for (size_t unit = 0; unit < units(); ++unit) RunUnit(0, unit, rows, x, y);
  }

  size_t outputs;
  FloatLayout layout;
  Buffer memory;
  std::optional<FloatProduct> product;
};

class FloatProductTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Status status = FloatProduct::Available();
    if (!status.ok()) {
      // Not offered is a legal answer, and then nothing may be created either.
      ASSERT_EQ(status.code(), Code::kUnsupported) << status.ToString();
      const FloatProductShape shape{.outputs = 1, .inputs = 1};
      const float weight = 1;
      uint8_t packed[1024];
      EXPECT_EQ(FloatProduct::Pack(shape, 0, &weight, packed).code(), Code::kUnsupported);
      EXPECT_EQ(FloatProduct::Create(shape, packed, 1, 1).status().code(), Code::kUnsupported);
      GTEST_SKIP() << status.ToString();
    }
  }
};

struct Case {
  size_t rows, outputs, inputs;
};

// Sum of terms in double, and the sum of their magnitudes.
struct Sum {
  double value = 0, magnitude = 0;
};
Sum Dot(const float* x, const float* w, size_t inputs) {
  Sum sum;
  for (size_t k = 0; k < inputs; ++k) {
    sum.value += static_cast<double>(x[k]) * w[k];
    sum.magnitude += std::fabs(static_cast<double>(x[k]) * w[k]);
  }
  return sum;
}

TEST_F(FloatProductTest, AgreesWithDoubles) {
  // The last three have several slices, the last one with what is left over.
  for (const Case& c :
       {Case{1, 1, 1}, Case{1, 64, 64}, Case{3, 65, 63}, Case{7, 83, 131}, Case{8, 16, 896}, Case{17, 200, 576},
        Case{33, 5, 7}, Case{2, 1025, 96}, Case{9, 450, 2100}, Case{3, 129, 4096}}) {
    SCOPED_TRACE(testing::Message() << c.rows << " rows, " << c.outputs << " outputs, " << c.inputs << " inputs");
    const size_t stride = c.inputs + 5;
    const std::vector<float> weights = Random(c.outputs * c.inputs, 1);
    const std::vector<float> x = Random(c.rows * stride + FloatProduct::kReadablePast, 2);
    std::vector<float> y(c.rows * c.outputs, std::numeric_limits<float>::quiet_NaN());
    const Packed packed(weights, {.outputs = c.outputs, .inputs = c.inputs}, stride, 1);
    packed.Run(c.rows, x.data(), y.data());
    for (size_t r = 0; r < c.rows; ++r) {
      for (size_t n = 0; n < c.outputs; ++n) {
        const Sum sum = Dot(&x[r * stride], &weights[n * c.inputs], c.inputs);
        // Higham, Accuracy and Stability of Numerical Algorithms, 3.1: any order of K products and additions in f32 errs by
        // at most gamma(K) times the sum of magnitudes, gamma(K) = K u / (1 - K u), u = 2^-24.
        const double ku = static_cast<double>(c.inputs) * 0x1p-24;
        ASSERT_LE(std::fabs(y[r * c.outputs + n] - sum.value), ku / (1 - ku) * sum.magnitude)
            << "row " << r << ", output " << n;
      }
    }
  }
}

// The reason this provider may be used at all: one row alone (the GEMV path), a full tile, a tile and one more.
TEST_F(FloatProductTest, RowsDoNotDependOnTheirNumber) {
  constexpr size_t kRows = 34;
  for (const Case& c :
       {Case{kRows, 1, 5}, Case{kRows, 33, 64}, Case{kRows, 130, 577}, Case{kRows, 1090, 31}, Case{kRows, 64, 1}}) {
    SCOPED_TRACE(testing::Message() << c.outputs << " outputs, " << c.inputs << " inputs");
    const std::vector<float> weights = Random(c.outputs * c.inputs, 3);
    const std::vector<float> x = Random(kRows * c.inputs + FloatProduct::kReadablePast, 4);
    const Packed packed(weights, {.outputs = c.outputs, .inputs = c.inputs}, c.inputs, 1);
    EXPECT_LT(packed.product->tile_rows() + 1, kRows);
    std::vector<float> alone(kRows * c.outputs), together(kRows * c.outputs);
    for (size_t r = 0; r < kRows; ++r) packed.Run(1, &x[r * c.inputs], &alone[r * c.outputs]);
    for (size_t rows = 2; rows <= kRows; ++rows) {
      std::fill(together.begin(), together.end(), 0.0f);
      packed.Run(rows, x.data(), together.data());
      ASSERT_EQ(std::memcmp(alone.data(), together.data(), rows * c.outputs * sizeof(float)), 0) << rows << " rows";
    }
  }
}

// Where an output lies among others, and so where slices are cut, does not change its bits.
TEST_F(FloatProductTest, OutputsDoNotDependOnTheirPlace) {
  constexpr size_t kRows = 9, kOutputs = 1200, kInputs = 77, kSkipped = 129;
  const std::vector<float> weights = Random(kOutputs * kInputs, 11);
  const std::vector<float> x = Random(kRows * kInputs + FloatProduct::kReadablePast, 12);
  std::vector<float> all(kRows * kOutputs), later(kRows * (kOutputs - kSkipped));
  const Packed whole(weights, {.outputs = kOutputs, .inputs = kInputs}, kInputs, 1);
  ASSERT_GT(whole.layout.slices, 1u);
  whole.Run(kRows, x.data(), all.data());
  const std::vector<float> rest(weights.begin() + kSkipped * kInputs, weights.end());
  const Packed part(rest, {.outputs = kOutputs - kSkipped, .inputs = kInputs}, kInputs, 1);
  part.Run(kRows, x.data(), later.data());
  for (size_t r = 0; r < kRows; ++r) {
    ASSERT_EQ(std::memcmp(&all[r * kOutputs + kSkipped], &later[r * (kOutputs - kSkipped)],
                          (kOutputs - kSkipped) * sizeof(float)),
              0)
        << "row " << r;
  }
}

TEST_F(FloatProductTest, TinyNumbersAreKept) {
  const std::vector<float> weights(64 * 2, 0x1p-100f);
  const std::vector<float> x(2 + FloatProduct::kReadablePast, 0x1p-40f);
  std::vector<float> y(64);
  Packed(weights, {.outputs = 64, .inputs = 2}, 2, 1).Run(1, x.data(), y.data());
  EXPECT_EQ(y[0], 0x1p-139f);  // a denormal number: XNNPACK would have its thread pool flush it
}

TEST_F(FloatProductTest, UnitsRunOnSeveralThreads) {
  constexpr size_t kRows = 9, kOutputs = 125, kInputs = 4100, kThreads = 4;
  const std::vector<float> weights = Random(kOutputs * kInputs, 7);
  const std::vector<float> x = Random(kRows * kInputs + FloatProduct::kReadablePast, 8);
  const Packed packed(weights, {.outputs = kOutputs, .inputs = kInputs}, kInputs, kThreads);
  ASSERT_EQ(packed.units(), kThreads);
  std::vector<float> one(kRows * kOutputs), many(kRows * kOutputs);
  packed.Run(kRows, x.data(), one.data());
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t rows : {size_t{1}, kRows}) packed.RunUnit(t, t, rows, x.data(), many.data());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::memcmp(one.data(), many.data(), one.size() * sizeof(float)), 0);
}

TEST_F(FloatProductTest, PackedBytesAreLittleMoreThanTheWeights) {
  for (const FloatProductShape& shape : {FloatProductShape{576, 576}, FloatProductShape{2048, 2048},
                                         FloatProductShape{1536, 576}, FloatProductShape{2048, 8192}}) {
    const double file = static_cast<double>(shape.outputs * shape.inputs) * sizeof(float);
    EXPECT_LE(static_cast<double>(FloatProduct::LayOut(shape).bytes), 1.01 * file)
        << shape.outputs << " " << shape.inputs;
  }
}

TEST_F(FloatProductTest, RefusesBadShapes) {
  const float weights[4] = {1, 2, 3, 4};
  uint8_t packed[64];
  for (const FloatProductShape& shape : {FloatProductShape{0, 2}, FloatProductShape{2, 0},
                                         FloatProductShape{SIZE_MAX / 2, 2}, FloatProductShape{2, SIZE_MAX / 2}}) {
    EXPECT_EQ(FloatProduct::Pack(shape, 0, weights, packed).code(), Code::kInvalidArgument);
    EXPECT_EQ(FloatProduct::Create(shape, packed, 2, 1).status().code(), Code::kInvalidArgument);
  }
}

}  // namespace
}  // namespace moonlit
