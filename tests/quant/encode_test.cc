// SPDX-License-Identifier: Apache-2.0
// Encoders: the same bytes as ggml's where the method is fixed, at most ggml's error where it is a search
// (tests/data/recipes/make_quant_encode_golden.py), bounds from the formats' own step sizes, and hostile magnitudes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "kernels/quant/format.h"

namespace moonlit {
namespace {

constexpr size_t kRows = 16, kColumns = 1024;

uint64_t SplitMix64(uint64_t state) {
  uint64_t z = state + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Nearly normal, with one value in 64 four times as large.
std::vector<float> MadeUpWeights() {
  std::vector<float> x(kRows * kColumns);
  for (size_t i = 0; i < x.size(); ++i) {
    const uint64_t r = SplitMix64(i);
    const int64_t total = static_cast<int64_t>((r & 0xFFFF) + ((r >> 16) & 0xFFFF) + ((r >> 32) & 0xFFFF)) - 3 * 32768;
    x[i] = static_cast<float>(static_cast<double>(total * ((r >> 48) % 64 == 0 ? 4 : 1)) * 0x1p-20);
  }
  return x;
}

std::vector<float> MadeUpImportance() {
  std::vector<float> w(kColumns);
  for (size_t i = 0; i < w.size(); ++i) {
    const double r = static_cast<double>(SplitMix64(i + (uint64_t{1} << 32)) & 0xFF);
    w[i] = static_cast<float>((1 + r) * (1 + r) / 1024.0);
  }
  return w;
}

std::vector<uint8_t> Encode(Format format, const std::vector<float>& x, size_t columns, const float* importance) {
  std::vector<uint8_t> bytes(RowBytes(format, x.size()));
  for (size_t r = 0; r < x.size() / columns; ++r) {
    Traits(format).quantize(x.data() + r * columns, importance, bytes.data() + r * RowBytes(format, columns), columns);
  }
  return bytes;
}

std::vector<float> Decode(Format format, const std::vector<uint8_t>& bytes, size_t k) {
  std::vector<float> x(k);
  Traits(format).dequantize(bytes.data(), x.data(), k);
  return x;
}

std::vector<float> RoundTrip(Format format, const std::vector<float>& x) {
  return Decode(format, Encode(format, x, x.size(), nullptr), x.size());
}

double WeightedRmse(const std::vector<float>& x, const std::vector<float>& y, const float* importance) {
  double error = 0, total = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double w = importance == nullptr ? 1.0 : double{importance[i % kColumns]};
    error += w * (double{x[i]} - y[i]) * (double{x[i]} - y[i]);
    total += w;
  }
  return std::sqrt(error / total);
}

uint64_t Fnv1a(const std::vector<uint8_t>& bytes) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001B3u;
  return hash;
}

struct Golden {
  double rmse, weighted_rmse;
  uint64_t hash;  // 0: a search, bytes may differ
};

std::map<std::string, Golden> ReadGoldens() {
  std::ifstream file(MOONLIT_SOURCE_DIR "/tests/data/quant_encode_golden.txt");
  std::map<std::string, Golden> goldens;
  std::string name, hash;
  Golden golden;
  while (file >> name >> golden.rmse >> golden.weighted_rmse >> hash) {
    golden.hash = std::stoull(hash, nullptr, 16);
    goldens[name] = golden;
  }
  return goldens;
}

TEST(Encode, EveryFormatHasAnEncoderAndAGolden) {
  const auto goldens = ReadGoldens();
  for (Format format : kEncodedFormats) {
    EXPECT_NE(nullptr, Traits(format).quantize) << Traits(format).name;
    EXPECT_EQ(format == Format::kF32 ? 0u : 1u, goldens.count(Traits(format).name)) << Traits(format).name;
  }
}

TEST(Encode, GivesGgmlsBytesWhereTheMethodIsFixed) {
  const std::vector<float> x = MadeUpWeights();
  size_t compared = 0;
  for (const auto& [name, golden] : ReadGoldens()) {
    if (golden.hash == 0) continue;
    Format format;
    ASSERT_TRUE(FindFormatByName(name.c_str(), &format));
    EXPECT_EQ(golden.hash, Fnv1a(Encode(format, x, kColumns, nullptr))) << name;
    ++compared;
  }
  EXPECT_EQ(8u, compared);
}

TEST(Encode, ErrorIsAtMostGgmls) {
  const std::vector<float> x = MadeUpWeights(), w = MadeUpImportance();
  for (const auto& [name, golden] : ReadGoldens()) {
    Format format;
    ASSERT_TRUE(FindFormatByName(name.c_str(), &format));
    // The goldens have seven digits.
    const double rmse = WeightedRmse(x, Decode(format, Encode(format, x, kColumns, nullptr), x.size()), nullptr);
    EXPECT_LE(rmse, golden.rmse * (1 + 1e-6)) << name;
    const double weighted = WeightedRmse(x, Decode(format, Encode(format, x, kColumns, w.data()), x.size()), w.data());
    EXPECT_LE(weighted, golden.weighted_rmse * (1 + 1e-6)) << name;
    RecordProperty(name, std::to_string(rmse / golden.rmse) + " " + std::to_string(weighted / golden.weighted_rmse));
  }
}

TEST(Encode, ImportanceLowersTheErrorThatItWeighs) {
  const std::vector<float> x = MadeUpWeights(), w = MadeUpImportance();
  for (Format format : {Format::kQ4_0, Format::kQ4_1, Format::kQ5_0, Format::kQ5_1, Format::kQ2_K, Format::kQ3_K,
                        Format::kQ4_K, Format::kQ5_K, Format::kQ6_K, Format::kIQ4_NL, Format::kIQ4_XS}) {
    const double without = WeightedRmse(x, Decode(format, Encode(format, x, kColumns, nullptr), x.size()), w.data());
    const double with = WeightedRmse(x, Decode(format, Encode(format, x, kColumns, w.data()), x.size()), w.data());
    EXPECT_LT(with, without) << Traits(format).name;
  }
}

// Grid points with a scale that F16 holds come back as they were.
TEST(Encode, GridPointsAreExact) {
  const struct {
    Format format;
    int low, high;
    float scale, offset;
  } rows[] = {{Format::kQ4_0, -8, 7, 0.25f, 0},
              {Format::kQ4_1, 0, 15, 0.25f, -1.5f},
              {Format::kQ5_0, -16, 15, 0.125f, 0},
              {Format::kQ5_1, 0, 31, 0.125f, 3.0f},
              {Format::kQ8_0, -127, 127, 0x1p-7f, 0}};
  for (const auto& row : rows) {
    std::vector<float> x(256);
    for (size_t i = 0; i < x.size(); ++i) {
      // Both ends in every block of 32, so that the span is full.
      const int span = row.high - row.low + 1;
      const int q = i % 32 == 0 ? row.low : i % 32 == 1 ? row.high : row.low + static_cast<int>(i * 7) % span;
      x[i] = static_cast<float>(q) * row.scale + row.offset;
    }
    EXPECT_EQ(x, RoundTrip(row.format, x)) << Traits(row.format).name;
  }
}

// Distance from a value to what it decodes to, per step of the block. Q4_0 and Q5_0 put the extreme value on the lowest
// code, so a value near the opposite end may be a whole step away; the others round to nearest. The F16 scale may be
// off by 2^-11 of itself, which moves the outermost code by its number times that.
TEST(Encode, StaysWithinOneStep) {
  const std::vector<float> x = MadeUpWeights();
  const struct {
    Format format;
    double codes, steps;
    bool spanning;
  } rows[] = {{Format::kQ4_0, 8, 1.0, false},
              {Format::kQ4_1, 15, 0.5, true},
              {Format::kQ5_0, 16, 1.0, false},
              {Format::kQ5_1, 31, 0.5, true},
              {Format::kQ8_0, 127, 0.5, false}};
  for (const auto& row : rows) {
    const std::vector<float> y = RoundTrip(row.format, x);
    for (size_t b = 0; b < x.size(); b += 32) {
      const auto [low, high] =
          std::minmax_element(x.begin() + static_cast<ptrdiff_t>(b), x.begin() + static_cast<ptrdiff_t>(b) + 32);
      const double extent = row.spanning ? double{*high} - *low : std::max(std::fabs(*low), std::fabs(*high));
      const double offset = row.spanning ? std::fabs(*low) : 0.0;
      const double step = extent / row.codes;
      const double bound = step * (row.steps + row.codes * 0x1p-11) + offset * 0x1p-11 + extent * 0x1p-20;
      for (size_t i = b; i < b + 32; ++i)
        ASSERT_LE(std::fabs(double{x[i]} - y[i]), bound) << Traits(row.format).name << " " << i;
    }
  }
}

TEST(Encode, ZerosStayZeros) {
  const std::vector<float> zeros(512, 0.0f), importance(512, 0.0f);
  for (Format format : kEncodedFormats) {
    EXPECT_EQ(zeros, RoundTrip(format, zeros)) << Traits(format).name;
    // Importance that is all zero says nothing.
    for (float v : Decode(format, Encode(format, zeros, 512, importance.data()), 512))
      ASSERT_EQ(0.0f, v) << Traits(format).name;
  }
}

// A block of one value: the formats hold it up to the rounding of their scales (F16: 2^-11 of it, twice for a scale
// under a scale), except FP4, whose powers of two are up to a fifth away.
TEST(Encode, ConstantBlocks) {
  for (Format format : kEncodedFormats) {
    if (format == Format::kMXFP4) continue;
    for (float value : {0.37f, -0.37f}) {
      const std::vector<float> x(256, value);
      for (float y : RoundTrip(format, x)) {
        const float bound = format == Format::kBF16 ? 0x1p-8f : 0x1p-10f;  // half a step of BF16's eight bits
        ASSERT_NEAR(value, y, std::fabs(value) * bound * 1.01f) << Traits(format).name;
      }
    }
  }
}

TEST(Encode, AnyMagnitudeDecodesFinite) {
  const std::vector<float> shape = MadeUpWeights();
  const float huge = std::numeric_limits<float>::max();
  for (Format format : kEncodedFormats) {
    if (format == Format::kF16 || format == Format::kBF16) continue;  // these overflow to infinity by definition
    for (float scale : {1e-44f, 1e-38f, 1e-30f, 1e-12f, 1e-8f, 1e-6f, 1e6f, 1e12f, 1e30f, huge}) {
      std::vector<float> x(512);
      for (size_t i = 0; i < x.size(); ++i) x[i] = scale * std::clamp(shape[i] * 4.0f, -1.0f, 1.0f);
      x[3] = scale;
      x[300] = -scale;
      for (bool weighted : {false, true}) {
        const std::vector<float> importance(512, 1e-20f);
        const auto bytes = Encode(format, x, 512, weighted ? importance.data() : nullptr);
        for (float y : Decode(format, bytes, 512)) ASSERT_TRUE(std::isfinite(y)) << Traits(format).name << " " << scale;
      }
    }
  }
}

// Small weights must not be lost to a scale of scales that rounds to zero. With d at F16's smallest step, 2^-24, a
// group's step is at most that much wider than the search's, so the error may grow by that. (IQ4_XS is left out: its
// levels are about ten steps of d apart.)
TEST(Encode, SmallWeightsAreHeldByTheKFormats) {
  const std::vector<float> shape = MadeUpWeights();
  auto goldens = ReadGoldens();
  for (Format format : {Format::kQ2_K, Format::kQ3_K, Format::kQ4_K, Format::kQ5_K, Format::kQ6_K}) {
    std::vector<float> x = shape;
    for (float& v : x) v *= 2e-5f;  // about 1e-6: d of Q4_K would be 1e-9
    const double error = WeightedRmse(x, RoundTrip(format, x), nullptr);
    EXPECT_LE(error, goldens[Traits(format).name].rmse * 2e-5 + 0x1p-24) << Traits(format).name;
    EXPECT_LT(error, 0.5 * WeightedRmse(x, std::vector<float>(x.size()), nullptr)) << Traits(format).name;
  }
}

}  // namespace
}  // namespace moonlit
