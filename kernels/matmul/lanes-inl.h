// SPDX-License-Identifier: Apache-2.0
// Reading a packed tile's fields as vectors in lane order: what codecs are written with.
#pragma once

#include "kernels/simd/f16-inl.h"
#include "kernels/matmul/layout-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Element `e` of a field of words, for the outputs of vector `v`.
MOONLIT_INNER VU32 Words(const uint8_t* field, size_t e, size_t v) {
  return hn::LoadU(DU32(), reinterpret_cast<const uint32_t*>(field) + e * kTile + v * kLanes);
}

// Element `e` of a field of f16 numbers, as floats.
MOONLIT_INNER VF32 Halves(const uint8_t* field, size_t e, size_t v) {
  return LoadHalves(field + 2 * (e * kTile + v * kLanes));
}

// Element `e` of a field of 16-bit numbers.
MOONLIT_INNER VU32 Shorts(const uint8_t* field, size_t e, size_t v) {
  const hn::Rebind<uint16_t, DU32> du16;
  return hn::PromoteTo(DU32(), hn::LoadU(du16, reinterpret_cast<const uint16_t*>(field) + e * kTile + v * kLanes));
}

// Element `e` of a field of bytes.
MOONLIT_INNER VU32 Bytes(const uint8_t* field, size_t e, size_t v) {
  const hn::Rebind<uint8_t, DU32> du8;
  return hn::PromoteTo(DU32(), hn::LoadU(du8, field + e * kTile + v * kLanes));
}

// Bytes of the field [count][kTile] of words.
constexpr size_t WordsBytes(size_t count) { return 4 * count * kTile; }
constexpr size_t HalvesBytes(size_t count) { return 2 * count * kTile; }

MOONLIT_INNER VF32 ToFloat(VU32 small) { return hn::ConvertTo(DF32(), hn::BitCast(DI32(), small)); }

// Bits [kShift, kShift + kBits) of every word as a number.
template <int kShift, int kBits>
MOONLIT_INNER VU32 BitsOfWord(VU32 words) {
  if constexpr (kShift + kBits == 32) {
    return hn::ShiftRight<kShift>(words);
  } else if constexpr (kShift == 0) {
    return hn::And(words, hn::Set(DU32(), (1u << kBits) - 1));
  } else {
    return hn::And(hn::ShiftRight<kShift>(words), hn::Set(DU32(), (1u << kBits) - 1));
  }
}

// Byte `kByte` of every word as a signed number.
template <int kByte>
MOONLIT_INNER VI32 SignedByteOfWord(VU32 words) {
  const VI32 top = hn::BitCast(DI32(), kByte == 3 ? words : hn::ShiftLeft<(3 - kByte) * 8>(words));
  return hn::ShiftRight<24>(top);
}

// Every byte shifted right by kShift (left by -kShift), then masked.
template <int kShift>
MOONLIT_INNER VU8 ShiftAndMask(VU32 words, uint8_t mask) {
  VU32 shifted = words;
  if constexpr (kShift > 0) shifted = hn::ShiftRight<kShift>(words);
  if constexpr (kShift < 0) shifted = hn::ShiftLeft<-kShift>(words);
  return hn::And(hn::BitCast(DU8(), shifted), hn::Set(DU8(), mask));
}

// Sixteen signed codes looked up by nibbles; biased where the dot instruction wants unsigned weights.
MOONLIT_INNER VU8 Codebook(const int8_t* sixteen, VU8 nibbles) {
  const DU8 du8;
  VU8 table = hn::LoadDup128(du8, reinterpret_cast<const uint8_t*>(sixteen));
  if (kBiasSignedWeights) table = hn::Xor(table, hn::Set(du8, 0x80));
  return hn::TableLookupBytes(table, nibbles);
}

// Eight words of sixteen packed nibbles: steps 0 .. 3 are the low ones, 4 .. 7 the high ones, as Q4_0 and its relatives have it.
MOONLIT_INNER void Nibbles(const uint8_t* quants, size_t v, VU8 (&w)[8]) {
  Unroll<4>([&](auto i) MOONLIT_INLINE_LAMBDA {
    const VU32 words = Words(quants, i, v);
    w[i] = ShiftAndMask<0>(words, 0x0F);
    w[4 + i] = ShiftAndMask<4>(words, 0x0F);
  });
}

// The fifth bits of such a block, from a spread word.
MOONLIT_INNER void AddFifthBits(VU32 spread, VU8 (&w)[8]) {
  Unroll<8>([&](auto s) MOONLIT_INLINE_LAMBDA {
    w[s] = hn::Or(w[s], ShiftAndMask<static_cast<int>(decltype(s)::value) - 4>(spread, 0x10));
  });
}

// Q4_K's and Q5_K's small fields: f16 d, dmin, then three words with eight 6-bit scales and eight 6-bit minima. The first
// two words hold the low four of each in their low 6 bits; the third and the first two's high pairs hold the other four.
MOONLIT_INNER void SixBitScalesAndMins(const uint8_t* small, size_t v, VF32* scale, VF32* min) {
  const DU32 du32;
  const VF32 d = Halves(small, 0, v);
  const VF32 dmin = Halves(small, 1, v);
  const uint8_t* fields = small + HalvesBytes(2);
  const VU32 w0 = Words(fields, 0, v), w1 = Words(fields, 1, v), w2 = Words(fields, 2, v);
  const VU32 six = hn::Set(du32, 0x3F3F3F3Fu), nibble = hn::Set(du32, 0x0F0F0F0Fu), pair = hn::Set(du32, 0x30303030u);
  const VU32 scales[2] = {hn::And(w0, six), hn::Or(hn::And(w2, nibble), hn::And(hn::ShiftRight<2>(w0), pair))};
  const VU32 mins[2] = {hn::And(w1, six),
                        hn::Or(hn::And(hn::ShiftRight<4>(w2), nibble), hn::And(hn::ShiftRight<2>(w1), pair))};
  Unroll<8>([&](auto i) MOONLIT_INLINE_LAMBDA {
    scale[i] = hn::Mul(d, ToFloat(BitsOfWord<8 * (i % 4), 8>(scales[i / 4])));
    min[i] = hn::Mul(dmin, ToFloat(BitsOfWord<8 * (i % 4), 8>(mins[i / 4])));
  });
}

// The codebook of IQ4_NL and IQ4_XS.
alignas(16) constexpr int8_t kIq4Codes[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
