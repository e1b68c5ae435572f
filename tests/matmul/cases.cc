// SPDX-License-Identifier: Apache-2.0
#include "tests/matmul/cases.h"

#include <math.h>

#include "kernels/base/float16.h"
#include "kernels/base/round.h"

namespace moonlit {

bool IsFused(Variant variant) { return variant != Variant::x86_ssse3 && variant != Variant::scalar; }
PairRounding PairRoundingOf(Variant variant) {
  return variant == Variant::arm_i8mm ? PairRounding::kToOdd : PairRounding::kNearest;
}
bool FlushesSubnormals(Variant variant) { return variant == Variant::arm_v7; }
bool IsPlain(Format format) { return Traits(format).block_values == 1; }

AlignedBytes::AlignedBytes(size_t bytes, uint8_t fill) : storage_(bytes + 64, fill) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(storage_.data());
  data_ = storage_.data() + (RoundUp(address, 64) - address);
}

namespace {

bool IsSane(float value) {
  return value == 0.0f || (isfinite(value) && fabsf(value) >= 1e-20f && fabsf(value) <= 1e6f);
}

bool HasSaneScales(Format format, const uint8_t* block, bool nonzero) {
  bool any = false;
  if (Traits(format).codes == nullptr) {
    std::vector<float> values(Traits(format).block_values);
    Traits(format).dequantize(block, values.data(), values.size());
    for (float value : values) {
      if (!IsSane(value)) return false;
      any = any || fabsf(value) > 1e-4f;
    }
    return any || !nonzero || IsPlain(format);
  }
  BlockCodes codes;
  Traits(format).codes(block, &codes);
  for (size_t g = 0; g < codes.values / codes.group; ++g) {
    if (!IsSane(codes.scale[g]) || !IsSane(codes.min[g])) return false;
    any = any || fabsf(codes.scale[g]) > 1e-4f;
  }
  return any || !nonzero;
}

void FillRandom(Format format, uint8_t* block, std::mt19937* random) {
  const size_t bytes = Traits(format).block_bytes;
  do {
    for (size_t i = 0; i < bytes; ++i) block[i] = static_cast<uint8_t>((*random)());
  } while (!HasSaneScales(format, block, false));
}

// Sets whole bytes where the scales stay sane and do not vanish.
void FillWith(Format format, uint8_t value, uint8_t* block, std::mt19937* random) {
  do {
    FillRandom(format, block, random);
  } while (!HasSaneScales(format, block, true));
  for (size_t i = 0; i < Traits(format).block_bytes; ++i) {
    const uint8_t before = block[i];
    block[i] = value;
    if (!HasSaneScales(format, block, true)) block[i] = before;
  }
}

}  // namespace

std::vector<uint8_t> MakeWeights(Format format, Weights kind, size_t n, size_t k, std::mt19937* random) {
  const FormatTraits& traits = Traits(format);
  const size_t row_bytes = RowBytes(format, k);
  std::vector<uint8_t> rows(n * row_bytes);
  if (kind == Weights::kGaussian && traits.quantize != nullptr) {
    for (size_t i = 0; i < n; ++i) {
      const std::vector<float> values = Gaussian(k, random);
      traits.quantize(values.data(), nullptr, rows.data() + i * row_bytes, k);
    }
    return rows;
  }
  for (size_t at = 0; at < rows.size(); at += traits.block_bytes) {
    uint8_t* block = rows.data() + at;
    switch (kind) {
      case Weights::kRandomBytes:
      case Weights::kGaussian:
        FillRandom(format, block, random);
        break;
      case Weights::kAllOnes:
        FillWith(format, 0xFF, block, random);
        break;
      case Weights::kAllZeros:
        FillWith(format, 0x00, block, random);
        break;
      case Weights::kAlternating:
        FillWith(format, at % 2 ? 0x80 : 0x7F, block, random);
        break;
    }
  }
  return rows;
}

std::vector<float> Gaussian(size_t count, std::mt19937* random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(*random);
  return values;
}

std::vector<size_t> Widths(Format format) {
  std::vector<size_t> widths;
  for (size_t k : {32, 64, 96, 256, 512, 576, 768, 896, 4544, 4608}) {
    const size_t block = Traits(format).block_values;
    if (k % block == 0 && (block == 256 || k % 256 != 0 || k == 512)) widths.push_back(k);
  }
  if (IsPlain(format)) widths.insert(widths.end(), {1, 7, 72});
  return widths;
}

PackedMatrix::PackedMatrix(const ProductKernel& kernel, Format format, const std::vector<uint8_t>& rows, size_t n,
                           size_t k)
    : bytes(CeilDiv(n, kernel.n_tile) * kernel.tile_bytes(k), 0xA5), tiles(CeilDiv(n, kernel.n_tile)) {
  const size_t row_bytes = RowBytes(format, k);
  for (size_t t = 0; t < tiles; ++t) {
    const size_t first = t * kernel.n_tile;
    const size_t valid = n - first < kernel.n_tile ? n - first : kernel.n_tile;
    kernel.pack_tile(rows.data() + first * row_bytes, row_bytes, valid, k, bytes.data() + t * kernel.tile_bytes(k));
  }
}

QuantizedRows::QuantizedRows(Variant variant, const std::vector<float>& x, size_t rows, size_t k)
    : bytes(A8Bytes(rows, k)), view(MakeA8View(bytes.data(), rows, k)) {
  GetProductTable(variant).quantize_a8(x.data(), k, rows, k, view);
}

bool SameBits(float a, float b) { return (isnan(a) && isnan(b)) || F32Bits(a) == F32Bits(b); }

std::string FirstDifference(const float* out, size_t stride, const float* expected, size_t rows, size_t n) {
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < n; ++i) {
      if (!SameBits(out[r * stride + i], expected[r * n + i])) {
        char text[160];
        snprintf(text, sizeof(text), "row %zu of %zu, output %zu: %.9g, expected %.9g", r, rows, i,
                 static_cast<double>(out[r * stride + i]), static_cast<double>(expected[r * n + i]));
        return text;
      }
    }
  }
  return "";
}

}  // namespace moonlit
