// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/reference.h"

#include <math.h>
#include <string.h>

#include <vector>

#include "kernels/base/check.h"
#include "kernels/base/float16.h"
#include "kernels/base/round.h"

namespace moonlit {
namespace {

float Half(const uint8_t* bytes) { return F32FromF16(static_cast<uint16_t>(bytes[0] | bytes[1] << 8)); }

constexpr int kIq4Codes[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
constexpr int kDoubledE2M1[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// Sixteen bytes: value i in the low nibble of byte i, value i + 16 in the high one.
void Nibbles(const uint8_t* bytes, int* code) {
  for (int i = 0; i < 16; ++i) {
    code[i] = bytes[i] & 15;
    code[i + 16] = bytes[i] >> 4;
  }
}

void AddFifthBits(const uint8_t* bytes, int* code) {
  for (int i = 0; i < 32; ++i) code[i] += (bytes[i / 8] >> (i % 8) & 1) << 4;
}

void Begin(BlockCodes* c, size_t values, size_t group, bool has_min) {
  c->values = values;
  c->group = group;
  c->has_min = has_min;
  for (float& m : c->min) m = 0.0f;
}

void Decode_q4_0(const uint8_t* b, BlockCodes* c) {
  Begin(c, 32, 32, false);
  c->scale[0] = Half(b);
  Nibbles(b + 2, c->code);
  for (int i = 0; i < 32; ++i) c->code[i] -= 8;
}

void Decode_q4_1(const uint8_t* b, BlockCodes* c) {
  Begin(c, 32, 32, true);
  c->scale[0] = Half(b);
  c->min[0] = -Half(b + 2);
  Nibbles(b + 4, c->code);
}

void Decode_q5_0(const uint8_t* b, BlockCodes* c) {
  Begin(c, 32, 32, false);
  c->scale[0] = Half(b);
  Nibbles(b + 6, c->code);
  AddFifthBits(b + 2, c->code);
  for (int i = 0; i < 32; ++i) c->code[i] -= 16;
}

void Decode_q5_1(const uint8_t* b, BlockCodes* c) {
  Begin(c, 32, 32, true);
  c->scale[0] = Half(b);
  c->min[0] = -Half(b + 2);
  Nibbles(b + 8, c->code);
  AddFifthBits(b + 4, c->code);
}

void Decode_q8_0(const uint8_t* b, BlockCodes* c) {
  Begin(c, 32, 32, false);
  c->scale[0] = Half(b);
  for (int i = 0; i < 32; ++i) c->code[i] = static_cast<int8_t>(b[2 + i]);
}

void Decode_iq4_nl(const uint8_t* b, BlockCodes* c) {
  Begin(c, 32, 32, false);
  c->scale[0] = Half(b);
  Nibbles(b + 2, c->code);
  for (int i = 0; i < 32; ++i) c->code[i] = kIq4Codes[c->code[i]];
}

void Decode_mxfp4(const uint8_t* b, BlockCodes* c) {
  Begin(c, 32, 32, false);
  c->scale[0] = b[0] == 255 ? NAN : ldexpf(1.0f, b[0] - 128);
  Nibbles(b + 1, c->code);
  for (int i = 0; i < 32; ++i) c->code[i] = kDoubledE2M1[c->code[i]];
}

void Decode_iq4_xs(const uint8_t* b, BlockCodes* c) {
  Begin(c, 256, 32, false);
  const int high = b[2] | b[3] << 8;
  for (int g = 0; g < 8; ++g) {
    const int scale = (b[4 + g / 2] >> (4 * (g % 2)) & 15) | (high >> (2 * g) & 3) << 4;
    c->scale[g] = Half(b) * static_cast<float>(scale - 32);
    Nibbles(b + 8 + 16 * g, c->code + 32 * g);
  }
  for (int i = 0; i < 256; ++i) c->code[i] = kIq4Codes[c->code[i]];
}

// Value 128h + 32j + l is in bits 2j, 2j + 1 of byte 32h + l.
int TwoBits(const uint8_t* bytes, int i) { return bytes[i / 128 * 32 + i % 32] >> (i % 128 / 32 * 2) & 3; }

void Decode_q2_k(const uint8_t* b, BlockCodes* c) {
  Begin(c, 256, 16, true);
  for (int g = 0; g < 16; ++g) {
    c->scale[g] = Half(b + 80) * static_cast<float>(b[g] & 15);
    c->min[g] = Half(b + 82) * static_cast<float>(b[g] >> 4);
  }
  for (int i = 0; i < 256; ++i) c->code[i] = TwoBits(b + 16, i);
}

void Decode_q3_k(const uint8_t* b, BlockCodes* c) {
  Begin(c, 256, 16, false);
  const uint8_t* s = b + 96;
  for (int g = 0; g < 16; ++g) {
    const int low = s[g % 8] >> (g / 8 * 4) & 15;
    const int high = s[8 + g % 4] >> (g / 4 * 2) & 3;
    c->scale[g] = Half(b + 108) * static_cast<float>((low | high << 4) - 32);
  }
  for (int i = 0; i < 256; ++i) c->code[i] = TwoBits(b + 32, i) + 4 * (b[i % 32] >> (i / 32) & 1) - 4;
}

void SixBitScales(const uint8_t* b, BlockCodes* c) {
  const uint8_t* s = b + 4;
  for (int g = 0; g < 8; ++g) {
    const int j = g % 4;
    const int scale = g < 4 ? s[j] & 63 : (s[8 + j] & 15) | (s[j] >> 6) << 4;
    const int min = g < 4 ? s[4 + j] & 63 : s[8 + j] >> 4 | (s[4 + j] >> 6) << 4;
    c->scale[g] = Half(b) * static_cast<float>(scale);
    c->min[g] = Half(b + 2) * static_cast<float>(min);
  }
}

void Decode_q4_k(const uint8_t* b, BlockCodes* c) {
  Begin(c, 256, 32, true);
  SixBitScales(b, c);
  for (int i = 0; i < 256; ++i) c->code[i] = b[16 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15;
}

void Decode_q5_k(const uint8_t* b, BlockCodes* c) {
  Begin(c, 256, 32, true);
  SixBitScales(b, c);
  for (int i = 0; i < 256; ++i) {
    c->code[i] = (b[48 + i / 64 * 32 + i % 32] >> (i / 32 % 2 * 4) & 15) + 16 * (b[16 + i % 32] >> (i / 32) & 1);
  }
}

void Decode_q6_k(const uint8_t* b, BlockCodes* c) {
  Begin(c, 256, 16, false);
  for (int g = 0; g < 16; ++g) c->scale[g] = Half(b + 208) * static_cast<float>(static_cast<int8_t>(b[192 + g]));
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, l = i % 128;
    const int low = b[half * 64 + l % 64] >> (l / 64 * 4) & 15;
    const int high = b[128 + half * 32 + l % 32] >> (l / 32 * 2) & 3;
    c->code[i] = (low | high << 4) - 32;
  }
}

void Decode_f32(const uint8_t*, BlockCodes*) { MOONLIT_CHECK(!"F32 has no blocks"); }
void Decode_f16(const uint8_t*, BlockCodes*) { MOONLIT_CHECK(!"F16 has no blocks"); }
void Decode_bf16(const uint8_t*, BlockCodes*) { MOONLIT_CHECK(!"BF16 has no blocks"); }

float MultiplyAdd(float a, float b, float c, bool fused) {
  if (fused) return fmaf(a, b, c);
  const float product = a * b;
  return product + c;
}

std::vector<float> Dequantized(const ReferenceProduct& p, size_t n) {
  std::vector<float> values(p.k);
  Traits(p.format).dequantize(p.weights + n * p.row_stride, values.data(), p.k);
  return values;
}

}  // namespace

void DecodeBlock(Format format, const uint8_t* block, BlockCodes* codes) {
  switch (format) {
#define MOONLIT_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes) \
  case Format::enumerator:                                                           \
    return Decode_##stem(block, codes);
#include "kernels/quant/formats.inc"
#undef MOONLIT_FORMAT
  }
}

void ReferenceA8(const ReferenceProduct& p, const A8View& a8, size_t row, bool fused, float* out) {
  const FormatTraits& traits = Traits(p.format);
  const int8_t* q = a8.q + row * a8.q_stride;
  const float* a_scale = a8.scale + row * a8.scale_stride;
  BlockCodes codes;
  for (size_t n = 0; n < p.n; ++n) {
    float acc = 0.0f;
    for (size_t b = 0; b < p.k / traits.block_values; ++b) {
      DecodeBlock(p.format, p.weights + n * p.row_stride + b * traits.block_bytes, &codes);
      for (size_t g = 0; g < codes.values / codes.group; ++g) {
        int64_t isum = 0, asum = 0;
        const size_t at = b * codes.values + g * codes.group;
        for (size_t i = 0; i < codes.group; ++i) {
          isum += static_cast<int64_t>(codes.code[g * codes.group + i]) * q[at + i];
          asum += q[at + i];
        }
        const float a = a_scale[at / kA8Group];
        acc = MultiplyAdd(static_cast<float>(isum), a * codes.scale[g], acc, fused);
        if (codes.has_min) acc = MultiplyAdd(static_cast<float>(asum), a * -codes.min[g], acc, fused);
      }
    }
    out[n] = acc;
  }
}

void ReferenceFloat(const ReferenceProduct& p, const float* x, bool fused, float* out) {
  for (size_t n = 0; n < p.n; ++n) {
    const std::vector<float> w = Dequantized(p, n);
    float acc = 0.0f;
    for (size_t i = 0; i < p.k; ++i) acc = MultiplyAdd(x[i], w[i], acc, fused);
    out[n] = acc;
  }
}

void ReferenceA8Double(const ReferenceProduct& p, const A8View& a8, size_t row, double* out) {
  for (size_t n = 0; n < p.n; ++n) {
    const std::vector<float> w = Dequantized(p, n);
    double acc = 0.0;
    for (size_t i = 0; i < p.k; ++i) {
      const double a =
          static_cast<double>(a8.scale[row * a8.scale_stride + i / kA8Group]) * a8.q[row * a8.q_stride + i];
      acc += a * static_cast<double>(w[i]);
    }
    out[n] = acc;
  }
}

void ReferenceDouble(const ReferenceProduct& p, const float* x, double* out) {
  for (size_t n = 0; n < p.n; ++n) {
    const std::vector<float> w = Dequantized(p, n);
    double acc = 0.0;
    for (size_t i = 0; i < p.k; ++i) acc += static_cast<double>(x[i]) * static_cast<double>(w[i]);
    out[n] = acc;
  }
}

void ReferenceQuantizeA8(const float* x, size_t k, int8_t* q, float* scale, int16_t* sum16) {
  for (size_t g = 0; g < CeilDiv(k, kA8Group); ++g) {
    const size_t begin = g * kA8Group;
    const size_t end = begin + kA8Group < k ? begin + kA8Group : k;
    float largest = 0.0f;
    bool finite = true;
    for (size_t i = begin; i < end; ++i) {
      finite = finite && isfinite(x[i]);
      if (fabsf(x[i]) > largest) largest = fabsf(x[i]);
    }
    const bool zeros = largest < kA8Smallest;
    scale[g] = !finite ? NAN : zeros ? 0.0f : largest / 127.0f;
    sum16[2 * g] = sum16[2 * g + 1] = 0;
    for (size_t i = 0; i < kA8Group; ++i) {
      const bool used = finite && !zeros && begin + i < end;
      // nearbyintf: to nearest, ties to even, in the default rounding mode.
      q[begin + i] = used ? static_cast<int8_t>(nearbyintf(x[begin + i] * (127.0f / largest))) : int8_t{0};
      sum16[2 * g + i / 16] = static_cast<int16_t>(sum16[2 * g + i / 16] + q[begin + i]);
    }
  }
}

}  // namespace moonlit
