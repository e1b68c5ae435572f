// SPDX-License-Identifier: Apache-2.0
// The table of formats: ids, names, sizes, and what non-finite scales do.
#include "kernels/quant/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "kernels/quant/mxfp4.h"

namespace moonlit {
namespace {

TEST(Format, BitsAWeight) {
  // Written out by hand from the format pages, not computed from the table.
  const struct {
    const char* name;
    double bits;
  } rows[] = {{"F32", 32},       {"F16", 16},         {"BF16", 16},      {"Q4_0", 4.5},       {"Q4_1", 5},
              {"Q5_0", 5.5},     {"Q5_1", 6},         {"Q8_0", 8.5},     {"Q2_K", 2.625},     {"Q3_K", 3.4375},
              {"Q4_K", 4.5},     {"Q5_K", 5.5},       {"Q6_K", 6.5625},  {"IQ4_NL", 4.5},     {"IQ4_XS", 4.25},
              {"MXFP4", 4.25},   {"IQ1_S", 1.5625},   {"IQ1_M", 1.75},   {"IQ2_XXS", 2.0625}, {"IQ2_XS", 2.3125},
              {"IQ2_S", 2.5625}, {"IQ3_XXS", 3.0625}, {"IQ3_S", 3.4375}, {"TQ1_0", 1.6875},   {"TQ2_0", 2.0625}};
  std::set<std::string> named;
  for (const auto& row : rows) {
    Format format;
    ASSERT_TRUE(FindFormatByName(row.name, &format)) << row.name;
    EXPECT_EQ(row.bits, 8.0 * Traits(format).block_bytes / Traits(format).block_values) << row.name;
    EXPECT_EQ(row.bits * 1024 / 8, static_cast<double>(RowBytes(format, 1024))) << row.name;
    named.insert(row.name);
  }
  for (Format format : kAllFormats) EXPECT_EQ(1u, named.count(Traits(format).name)) << Traits(format).name;
}

TEST(Format, IdsAndNamesFindTheirRow) {
  for (Format format : kAllFormats) {
    Format found;
    ASSERT_TRUE(FindFormat(Traits(format).gguf_type, &found));
    EXPECT_EQ(format, found);
    std::string lower = Traits(format).name;
    for (char& c : lower) c = static_cast<char>(tolower(c));
    ASSERT_TRUE(FindFormatByName(lower.c_str(), &found)) << lower;
    EXPECT_EQ(format, found);
  }
}

TEST(Format, UnknownIdsAndNamesAreRefused) {
  Format found = Format::kQ8_0;
  // 4 and 5 were Q4_2 and Q4_3 and are free; 24 to 28 are integers and F64, which are no weights.
  for (uint32_t id : {4u, 5u, 9u, 15u, 24u, 28u, 40u, 255u, 0xFFFFFFFFu}) EXPECT_FALSE(FindFormat(id, &found)) << id;
  for (const char* name : {"", "Q4", "Q4_", "Q4_0 ", "Q4_KM", "Q4_K_M", "F1"})
    EXPECT_FALSE(FindFormatByName(name, &found)) << name;
  EXPECT_EQ(Format::kQ8_0, found) << "the output is left alone";
}

// All F16 fields of a block set to `scale`; nibbles and codes such that every value depends on the scales.
std::vector<uint8_t> BlockWithScales(Format format, uint16_t scale) {
  const FormatTraits& t = Traits(format);
  std::vector<uint8_t> block(t.block_bytes, 0x11);
  const auto put = [&](size_t offset) { memcpy(block.data() + offset, &scale, 2); };
  switch (format) {
    case Format::kQ2_K:
      put(80);
      put(82);
      break;
    case Format::kQ3_K:
      put(108);
      break;
    case Format::kTQ1_0:
      put(52);
      break;
    case Format::kTQ2_0:
      put(64);
      break;
    case Format::kIQ1_M:  // four bits in each of four words
      for (size_t w = 0; w < 4; ++w) {
        uint8_t& high = block[49 + 2 * w];
        high = static_cast<uint8_t>((high & 15) | (scale >> (4 * w) & 15) << 4);
      }
      break;
    case Format::kQ6_K:
      put(208);
      break;
    case Format::kQ4_1:
    case Format::kQ5_1:
    case Format::kQ4_K:
    case Format::kQ5_K:
      put(0);
      put(2);
      break;
    default:
      put(0);
      break;
  }
  return block;
}

TEST(Format, NonFiniteScalesGiveNonFiniteValues) {
  for (Format format : kAllFormats) {
    if (format == Format::kF32 || format == Format::kBF16 || format == Format::kMXFP4) continue;
    const FormatTraits& t = Traits(format);
    for (uint16_t scale : {0x7C00, 0xFC00, 0x7E00}) {
      const std::vector<uint8_t> block = BlockWithScales(format, scale);
      std::vector<float> values(t.block_values);
      t.dequantize(block.data(), values.data(), values.size());
      for (float v : values) ASSERT_FALSE(std::isfinite(v)) << t.name << " scale bits " << scale;
    }
    const std::vector<uint8_t> block = BlockWithScales(format, 0x3C00);
    std::vector<float> values(t.block_values);
    t.dequantize(block.data(), values.data(), values.size());
    for (float v : values) ASSERT_TRUE(std::isfinite(v)) << t.name;
  }
}

TEST(Format, Mxfp4ScaleOf255IsNan) {
  std::vector<uint8_t> block(17, 0x11);
  block[0] = 255;
  float values[32];
  mxfp4::Dequantize(block.data(), values, 32);
  for (float v : values) EXPECT_TRUE(std::isnan(v));
}

TEST(Format, AllZeroBytesAreZeros) {
  for (Format format : kAllFormats) {
    const FormatTraits& t = Traits(format);
    const std::vector<uint8_t> block(t.block_bytes, 0);
    std::vector<float> values(t.block_values, 1.0f);
    t.dequantize(block.data(), values.data(), values.size());
    for (float v : values) ASSERT_EQ(0.0f, v) << t.name;
  }
}

}  // namespace
}  // namespace moonlit
