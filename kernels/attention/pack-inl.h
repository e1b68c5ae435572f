// SPDX-License-Identifier: Apache-2.0
// Cache writes. All arithmetic is element by element in plain C++, so a page's bytes are the same on every variant.
#pragma once

#include "kernels/attention/page_offsets.h"
#include "kernels/base/float16.h"
#include "kernels/cpu/variant-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// Largest code of a quantized type: a step of the scale. Q4_0 has codes -8 .. 7, so max / 7.5 makes the error at either
// end half a step, as everywhere else, and keeps scales positive.
HWY_INLINE float StepsToLargest(CacheType type) { return type == CacheType::kQ8_0 ? 127.0f : 7.5f; }

// F16 bits of the scale of up to 32 values. NaN when a value is not finite.
HWY_INLINE uint16_t ScaleOf(CacheType type, const float* x, size_t count) {
  float largest = 0.0f, not_finite = 0.0f;
  for (size_t i = 0; i < count; ++i) {
    const float magnitude = x[i] < 0.0f ? -x[i] : x[i];
    largest = magnitude > largest ? magnitude : largest;
    not_finite += x[i] * 0.0f;
  }
  if (not_finite != 0.0f) return 0x7E00u;
  return F16FromF32(largest / StepsToLargest(type));
}

HWY_INLINE int CodeOf(CacheType type, float x, float scale) {
  if (!(scale > 0.0f && scale < 65536.0f)) return 0;
  const float lowest = type == CacheType::kQ8_0 ? -127.0f : -8.0f;
  const float highest = type == CacheType::kQ8_0 ? 127.0f : 7.0f;
  const float y = x / scale;
  const float clamped = y < lowest ? lowest : y > highest ? highest : y;
  return static_cast<int>(F32Bits(clamped + 12582912.0f)) - 0x4B400000;
}

// Writes element `place` of a lane.
template <CacheType kType>
HWY_INLINE void StoreElement(uint8_t* lane, size_t place, float x, float scale) {
  if constexpr (kType == CacheType::kF32) {
    memcpy(lane, &x, sizeof(x));
  } else if constexpr (IsSixteenBit(kType)) {
    const uint16_t bits = kType == CacheType::kF16 ? F16FromF32(x) : BF16FromF32(x);
    memcpy(lane + 2 * place, &bits, sizeof(bits));
  } else if constexpr (kType == CacheType::kQ8_0) {
    lane[place] = static_cast<uint8_t>(static_cast<int8_t>(CodeOf(kType, x, scale)));
  } else {
    const unsigned code = static_cast<unsigned>(CodeOf(kType, x, scale) + 8);
    uint8_t* byte = lane + place % 4;
    *byte = static_cast<uint8_t>(place < 4 ? (*byte & 0xF0u) | code : (*byte & 0x0Fu) | code << 4);
  }
}

// Dims i, i + 1, ... of one token lie kPageGroup lanes apart as soon as a lane is full.
template <CacheType kType>
void PackKey(const PageLayout& layout, uint8_t* part, size_t slot, const float* key) {
  constexpr size_t kInLane = ElementsInLane(kType);
  uint8_t* lanes = part + 4 * KeyLane(layout, slot, 0);
  float scale = 0.0f;
  for (size_t i = 0; i < layout.key_dim; ++i) {
    if (IsQuantized(kType) && i % kScaleGroup == 0) {
      const size_t left = layout.key_dim - i;
      const uint16_t bits = ScaleOf(kType, key + i, left < kScaleGroup ? left : kScaleGroup);
      memcpy(part + layout.key_scale_offset + 2 * KeyScaleIndex(layout, slot, i), &bits, sizeof(bits));
      scale = F32FromF16(bits);
    }
    StoreElement<kType>(lanes + i / kInLane * 4 * kPageGroup, i % kInLane, key[i], scale);
  }
}

template <CacheType kType>
void PackValue(const PageLayout& layout, uint8_t* part, size_t slot, const float* value) {
  uint8_t* lanes = part + layout.value_offset + 4 * ValueLane(layout, slot, 0);
  const size_t place = slot % ElementsInLane(kType);
  float scale = 0.0f;
  for (size_t j = 0; j < layout.value_dim; ++j) {
    if (IsQuantized(kType) && j % kScaleGroup == 0) {
      const size_t left = layout.value_dim - j;
      const uint16_t bits = ScaleOf(kType, value + j, left < kScaleGroup ? left : kScaleGroup);
      memcpy(part + layout.value_scale_offset + 2 * ValueScaleIndex(layout, slot, j), &bits, sizeof(bits));
      scale = F32FromF16(bits);
    }
    StoreElement<kType>(lanes + 4 * j, place, value[j], scale);
  }
}

template <CacheType kCacheType>
struct TypeConstant {
  static constexpr CacheType kType = kCacheType;
};

// visit(TypeConstant of `type`): the type is asked for once a call, not at every element.
template <class Visit>
HWY_INLINE void WithType(CacheType type, Visit&& visit) {
  switch (type) {
    case CacheType::kF32:
      return visit(TypeConstant<CacheType::kF32>());
    case CacheType::kF16:
      return visit(TypeConstant<CacheType::kF16>());
    case CacheType::kBF16:
      return visit(TypeConstant<CacheType::kBF16>());
    case CacheType::kQ8_0:
      return visit(TypeConstant<CacheType::kQ8_0>());
    case CacheType::kQ4_0:
      return visit(TypeConstant<CacheType::kQ4_0>());
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
