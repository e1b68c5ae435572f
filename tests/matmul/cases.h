// SPDX-License-Identifier: Apache-2.0
// What the tests of products share: which variants run here, random and extreme weights, packing, comparison of bits.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <random>
#include <string>
#include <vector>

#include "kernels/matmul/matmul.h"
#include "kernels/matmul/reference.h"
#include "tests/support/runnable_variants.h"

namespace moonlit {

// Whether the variant's MulAdd rounds once.
bool IsFused(Variant variant);
// How the variant's bf16 dot products round, where it has them.
PairRounding PairRoundingOf(Variant variant);
// NEON on ARMv7 takes numbers below the normal ones as zeros.
bool FlushesSubnormals(Variant variant);
bool IsPlain(Format format);

// Memory for vector loads: begins at a multiple of 64.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t bytes, uint8_t fill = 0);
  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }

 private:
  std::vector<uint8_t> storage_;
  uint8_t* data_;
};

enum class Weights { kRandomBytes, kGaussian, kAllOnes, kAllZeros, kAlternating };

// [n] rows of k values in file format. Scales are finite, zero or of magnitude 1e-20 .. 1e6; kAllOnes, kAllZeros and
// kAlternating set every bit that does not decide a scale's size to one, to zero, to 0x55.
std::vector<uint8_t> MakeWeights(Format format, Weights kind, size_t n, size_t k, std::mt19937* random);

std::vector<float> Gaussian(size_t count, std::mt19937* random);

// Widths that the format allows, from one block up to Falcon's.
std::vector<size_t> Widths(Format format);

struct PackedMatrix {
  PackedMatrix(const ProductKernel& kernel, Format format, const std::vector<uint8_t>& rows, size_t n, size_t k);
  AlignedBytes bytes;
  size_t tiles;
};

struct QuantizedRows {
  QuantizedRows(Variant variant, const std::vector<float>& x, size_t rows, size_t k);
  AlignedBytes bytes;
  int q(size_t row, size_t i) const { return A8Values(view, row, i / kA8Group)[i % kA8Group]; }
  A8View view;
};

// Equal bits, or both NaN.
bool SameBits(float a, float b);
// Empty if out[rows][n] (row stride `stride`) has the bits of expected[rows][n], else the first difference.
std::string FirstDifference(const float* out, size_t stride, const float* expected, size_t rows, size_t n);

}  // namespace moonlit
