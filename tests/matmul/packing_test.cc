// SPDX-License-Identifier: Apache-2.0
// Packing is lossless for every format on every variant, and costs no memory.
#include <gtest/gtest.h>

#include "kernels/base/round.h"
#include "tests/matmul/cases.h"

namespace moonlit {
namespace {

using Case = std::tuple<Variant, Format>;
class PackingTest : public testing::TestWithParam<Case> {
 protected:
  Variant variant() const { return std::get<0>(GetParam()); }
  Format format() const { return std::get<1>(GetParam()); }
  const ProductKernel& kernel() const { return GetProductKernel(variant(), format()); }
};

TEST_P(PackingTest, UnpackGivesTheDecodersBits) {
  std::mt19937 random(2);
  for (size_t k : Widths(format())) {
    const size_t n = 2 * kernel().n_tile + 3;
    const size_t row_bytes = RowBytes(format(), k);
    // Any bytes at all, scales that are not finite included.
    std::vector<uint8_t> rows(n * row_bytes);
    for (uint8_t& b : rows) b = static_cast<uint8_t>(random());
    const PackedMatrix packed(kernel(), format(), rows, n, k);
    std::vector<float> values(k), expected(k);
    for (size_t i = 0; i < n; ++i) {
      kernel().unpack_row(packed.bytes.data() + i / kernel().n_tile * kernel().tile_bytes(k), i % kernel().n_tile, k,
                          values.data());
      Traits(format()).dequantize(rows.data() + i * row_bytes, expected.data(), k);
      ASSERT_EQ(FirstDifference(values.data(), k, expected.data(), 1, k), "") << "k " << k << " row " << i;
    }
  }
}

TEST_P(PackingTest, MissingRowsAreZeroWeights) {
  std::mt19937 random(3);
  const size_t k = Widths(format())[0];
  const std::vector<uint8_t> rows = MakeWeights(format(), Weights::kRandomBytes, 1, k, &random);
  const PackedMatrix packed(kernel(), format(), rows, 1, k);
  std::vector<float> values(k);
  for (size_t i = 1; i < kernel().n_tile; ++i) {
    kernel().unpack_row(packed.bytes.data(), i, k, values.data());
    for (float v : values) ASSERT_EQ(v, 0.0f);
  }
}

// Two packings of the same rows are the same bytes, whatever was in the memory before: packed caches are compared by hash.
TEST_P(PackingTest, EveryByteOfATileIsWritten) {
  std::mt19937 random(4);
  for (size_t k : Widths(format())) {
    const size_t n = kernel().n_tile;
    const std::vector<uint8_t> rows = MakeWeights(format(), Weights::kRandomBytes, n, k, &random);
    AlignedBytes first(kernel().tile_bytes(k), 0x00), second(kernel().tile_bytes(k), 0xFF);
    kernel().pack_tile(rows.data(), RowBytes(format(), k), n, k, first.data());
    kernel().pack_tile(rows.data(), RowBytes(format(), k), n, k, second.data());
    for (size_t i = 0; i < kernel().tile_bytes(k); ++i)
      ASSERT_EQ(first.data()[i], second.data()[i]) << "k " << k << " byte " << i;
  }
}

TEST_P(PackingTest, TakesNoMoreThanTheFile) {
  EXPECT_EQ(kernel().k_group, kernel().arithmetic == Arithmetic::kInt8   ? 4u
                              : kernel().arithmetic == Arithmetic::kBF16 ? 2u
                                                                         : 1u);
  for (size_t k : Widths(format())) {
    const double file = static_cast<double>(RowBytes(format(), k) * kernel().n_tile);
    EXPECT_EQ(kernel().tile_bytes(k) % 64, 0u);
    // The design's bound, in whole cache lines; narrow tiles may have an odd block's scales besides.
    const double bound = k >= 256 ? RoundUp(static_cast<size_t>(1.04 * file), 64) : file + 128.0;
    EXPECT_LE(static_cast<double>(kernel().tile_bytes(k)), bound) << "k " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PackingTest,
                         testing::Combine(testing::ValuesIn(RunnableVariants()), testing::ValuesIn(kAllFormats)),
                         [](const auto& info) {
                           return std::string(VariantName(std::get<0>(info.param))) + "_" +
                                  Traits(std::get<1>(info.param)).name;
                         });

// The reference's codes, scales and minima are the decoder's values.
class CodesTest : public testing::TestWithParam<Format> {};

TEST_P(CodesTest, AgreesWithTheDecoder) {
  const FormatTraits& traits = Traits(GetParam());
  if (traits.block_values == 1) return;
  std::mt19937 random(5);
  for (int i = 0; i < 200; ++i) {
    const std::vector<uint8_t> block = MakeWeights(GetParam(), Weights::kRandomBytes, 1, traits.block_values, &random);
    std::vector<float> values(traits.block_values);
    traits.dequantize(block.data(), values.data(), values.size());
    BlockCodes codes;
    traits.codes(block.data(), &codes);
    ASSERT_EQ(codes.values, values.size());
    for (size_t j = 0; j < values.size(); ++j) {
      float expected = codes.scale[j / codes.group] * static_cast<float>(codes.code[j]);
      if (codes.has_min) expected -= codes.min[j / codes.group];
      ASSERT_EQ(values[j], expected) << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, CodesTest, testing::ValuesIn(kEncodedFormats),
                         [](const auto& info) { return std::string(Traits(info.param).name); });

}  // namespace
}  // namespace moonlit
