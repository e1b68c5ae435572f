// SPDX-License-Identifier: Apache-2.0
// How a tile of kTile outputs lies in memory, for every format at once.
//
// Packing transposes: a file block is a list of fields (32-bit words of quants and scales, 16-bit floats, bytes), and the
// tile holds each element of a field for all outputs of the tile side by side. A vector load then gives the same element of
// kLanes outputs, in lane order, and the bits inside a word stay where the file has them. So packing is lossless for any
// format, costs a copy, and adds no bytes; what a word means is told by the format's codec alone (matmul_<stem>.cc).
//
//   tile  = groups of kGroup blocks, K ascending
//   group = big fields of block 0 | small fields of block 0, of block 1, ... | big fields of block 1, ...
//   field = [count][kTile] elements
//
// kGroup is the smallest number of blocks whose small fields fill whole words, so that every word field is aligned to the
// vectors that read it: 2 for Q4_0 (a 2-byte scale), 4 for MXFP4 (one byte), 1 for Q4_K. The last group may hold fewer
// blocks and ends after them: with the small fields behind the first block's big ones, an odd block costs no room.
#pragma once

#include "kernels/base/round.h"
#include "kernels/cpu/variant-inl.h"
#include "kernels/matmul/matmul.h"
#include "kernels/matmul/transpose-inl.h"
#include "kernels/simd/dot-inl.h"
#include "kernels/simd/unroll-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Outputs a tile: one vector where vectors are wide; two where a load of activations should serve more than four lanes.
constexpr size_t kTile = kLanes == 4 && !MOONLIT_EMULATED ? 8 : kLanes;
constexpr size_t kVectors = kTile / kLanes;

enum class FieldKind : uint8_t {
  kByte,
  kHalf,
  kWord,
  // A word of 32 single bits, bit k for value k, kept with bit 4s + i moved to bit s of byte i: step s of four values then
  // finds its bits in four bytes by one shift.
  kSpreadWord,
};

struct Field {
  FieldKind kind;
  uint16_t offset;  // in the file's block
  uint16_t count;
};

constexpr size_t Width(FieldKind kind) { return kind == FieldKind::kByte ? 1 : kind == FieldKind::kHalf ? 2 : 4; }

template <size_t kCount>
constexpr size_t FieldBytes(const Field (&fields)[kCount]) {
  size_t bytes = 0;
  for (const Field& f : fields) bytes += Width(f.kind) * f.count;
  return bytes;
}

constexpr size_t BlocksToWholeWords(size_t small_bytes) {
  return small_bytes % 4 == 0 ? 1 : small_bytes % 2 == 0 ? 2 : 4;
}

// Byte offsets of a codec's tile.
template <class Codec>
struct Layout {
  static constexpr size_t kSmallBytes = FieldBytes(Codec::kSmall);
  static constexpr size_t kBigBytes = FieldBytes(Codec::kBig);
  static_assert(kSmallBytes + kBigBytes == Codec::kBytes, "the fields must cover the file's block");
  static constexpr size_t kGroup = BlocksToWholeWords(kSmallBytes);
  static constexpr size_t kSmallRoom = kGroup * kSmallBytes * kTile;
  static constexpr size_t kStride = kGroup * Codec::kBytes * kTile;

  static HWY_INLINE size_t Small(size_t block) {
    return block / kGroup * kStride + kBigBytes * kTile + block % kGroup * kSmallBytes * kTile;
  }
  static HWY_INLINE size_t Big(size_t block) {
    const size_t i = block % kGroup;
    return block / kGroup * kStride + i * kBigBytes * kTile + (i != 0 ? kSmallRoom : 0);
  }
  static HWY_INLINE size_t Used(size_t blocks) {
    const size_t tail = blocks % kGroup;
    const size_t small = tail == 0 ? 0 : tail == 1 ? kSmallBytes * kTile : kSmallRoom;
    return blocks / kGroup * kStride + tail * kBigBytes * kTile + small;
  }
};

template <class Codec>
size_t TileBytes(size_t k) {
  return RoundUp(Layout<Codec>::Used(k / Codec::kBlock), 64);
}

HWY_INLINE uint32_t SpreadBits(uint32_t bits) {
  uint32_t spread = 0;
  for (uint32_t s = 0; s < 8; ++s) spread |= (((bits >> (4 * s) & 15) * 0x00204081u) & 0x01010101u) << s;
  return spread;
}

HWY_INLINE uint32_t GatherBits(uint32_t spread) {
  uint32_t bits = 0;
  for (uint32_t s = 0; s < 8; ++s) bits |= (((spread >> s & 0x01010101u) * 0x10204080u) >> 28) << (4 * s);
  return bits;
}

template <size_t kBytes>
HWY_INLINE void CopyBytes(void* to, const void* from) {
  memcpy(to, from, kBytes);
}

// One element: file -> tile.
template <FieldKind kKind>
HWY_INLINE void PackElement(const uint8_t* file, uint8_t* to) {
  if constexpr (kKind == FieldKind::kSpreadWord) {
    uint32_t bits;
    memcpy(&bits, file, 4);
    bits = SpreadBits(bits);
    memcpy(to, &bits, 4);
  } else {
    CopyBytes<Width(kKind)>(to, file);
  }
}

// All elements of one field for the first `valid` rows; `file` is the field in the first row's block.
template <FieldKind kKind>
HWY_INLINE void PackField(const uint8_t* HWY_RESTRICT file, size_t row_stride, size_t valid, size_t count,
                          uint8_t* HWY_RESTRICT field) {
  constexpr size_t kWidth = Width(kKind);
  size_t e = 0;
  if (kKind == FieldKind::kWord && valid == kTile) {
    for (; e + 4 <= count; e += 4) {
      for (size_t n = 0; n < kTile; n += 4) {
        TransposeWords(file + n * row_stride + 4 * e, row_stride, field + 4 * (e * kTile + n), 4 * kTile);
      }
    }
  }
  for (; e < count; ++e) {
    for (size_t n = 0; n < valid; ++n) {
      PackElement<kKind>(file + n * row_stride + e * kWidth, field + (e * kTile + n) * kWidth);
    }
  }
}

template <FieldKind kKind>
HWY_INLINE void UnpackField(const uint8_t* HWY_RESTRICT field, size_t count, size_t n, uint8_t* HWY_RESTRICT file) {
  constexpr size_t kWidth = Width(kKind);
  for (size_t e = 0; e < count; ++e) {
    const uint8_t* from = field + (e * kTile + n) * kWidth;
    if constexpr (kKind == FieldKind::kSpreadWord) {
      uint32_t bits;
      memcpy(&bits, from, 4);
      bits = GatherBits(bits);
      memcpy(file + 4 * e, &bits, 4);
    } else {
      CopyBytes<kWidth>(file + e * kWidth, from);
    }
  }
}

// Calls visit(field index as Index<>, byte offset in the region as Index<>) for each field; offsets for all kTile outputs.
template <class Codec, bool kBigFields, size_t kField = 0, size_t kOffset = 0, class Visit>
HWY_INLINE void ForEachField(Visit&& visit) {
  constexpr size_t kCount = kBigFields ? sizeof(Codec::kBig) / sizeof(Field) : sizeof(Codec::kSmall) / sizeof(Field);
  if constexpr (kField < kCount) {
    constexpr Field f = kBigFields ? Codec::kBig[kField] : Codec::kSmall[kField];
    visit(Index<static_cast<size_t>(f.kind)>(), f, Index<kOffset>());
    ForEachField<Codec, kBigFields, kField + 1, kOffset + Width(f.kind) * f.count * kTile>(visit);
  }
}

template <class Codec>
void PackTile(const uint8_t* rows, size_t row_stride, size_t valid, size_t k, uint8_t* tile) {
  using L = Layout<Codec>;
  const size_t blocks = k / Codec::kBlock;
  if (valid < kTile || blocks % L::kGroup != 0) memset(tile, 0, TileBytes<Codec>(k));
  for (size_t b = 0; b < blocks; ++b) {
    uint8_t* small = tile + L::Small(b);
    uint8_t* big = tile + L::Big(b);
    const uint8_t* file = rows + b * Codec::kBytes;
    ForEachField<Codec, false>([&](auto kind, const Field& f, auto at) MOONLIT_INLINE_LAMBDA {
      PackField<static_cast<FieldKind>(decltype(kind)::value)>(file + f.offset, row_stride, valid, f.count, small + at);
    });
    ForEachField<Codec, true>([&](auto kind, const Field& f, auto at) MOONLIT_INLINE_LAMBDA {
      PackField<static_cast<FieldKind>(decltype(kind)::value)>(file + f.offset, row_stride, valid, f.count, big + at);
    });
  }
  const size_t used = L::Used(blocks);
  memset(tile + used, 0, TileBytes<Codec>(k) - used);
}

// The file's block of output n, byte for byte.
template <class Codec>
HWY_INLINE void UnpackBlock(const uint8_t* tile, size_t n, size_t block, uint8_t* file) {
  using L = Layout<Codec>;
  const uint8_t* small = tile + L::Small(block);
  const uint8_t* big = tile + L::Big(block);
  ForEachField<Codec, false>([&](auto kind, const Field& f, auto at) MOONLIT_INLINE_LAMBDA {
    UnpackField<static_cast<FieldKind>(decltype(kind)::value)>(small + at, f.count, n, file + f.offset);
  });
  ForEachField<Codec, true>([&](auto kind, const Field& f, auto at) MOONLIT_INLINE_LAMBDA {
    UnpackField<static_cast<FieldKind>(decltype(kind)::value)>(big + at, f.count, n, file + f.offset);
  });
}

// Values [k_begin, k_begin + count) of output n: the file's bytes again, read by the scalar decoder that defines them.
// k_begin and count are multiples of the block.
template <class Codec>
void UnpackRange(const uint8_t* tile, size_t n, size_t k_begin, size_t count, float* values) {
  constexpr size_t kBlocks = Codec::kBlock >= 256 ? 1 : 256 / Codec::kBlock;
  uint8_t file[kBlocks * Codec::kBytes];
  const auto dequantize = Traits(Codec::kFormat).dequantize;
  const size_t first = k_begin / Codec::kBlock;
  const size_t blocks = count / Codec::kBlock;
  for (size_t b = 0; b < blocks; b += kBlocks) {
    const size_t some = blocks - b < kBlocks ? blocks - b : kBlocks;
    for (size_t i = 0; i < some; ++i) UnpackBlock<Codec>(tile, n, first + b + i, file + i * Codec::kBytes);
    dequantize(file, values + b * Codec::kBlock, some * Codec::kBlock);
  }
}

template <class Codec>
void UnpackRow(const uint8_t* tile, size_t row, size_t k, float* values) {
  UnpackRange<Codec>(tile, row, 0, k, values);
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
