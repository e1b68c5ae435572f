// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/page_layout.h"

#include <string.h>

#include "kernels/attention/attention.h"
#include "kernels/attention/page_offsets.h"
#include "kernels/base/float16.h"

namespace moonlit {
namespace {

uint64_t Aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

char Lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool EqualInAnyCase(const char* a, const char* b) {
  while (*a != 0 && Lower(*a) == Lower(*b)) ++a, ++b;
  return Lower(*a) == Lower(*b);
}

uint32_t LoadLane(const uint8_t* base, size_t lane) {
  uint32_t bits;
  memcpy(&bits, base + 4 * lane, sizeof(bits));
  return bits;
}

// Element `place` of a lane, not yet scaled for the quantized types.
float Element(CacheType type, uint32_t lane, size_t place) {
  switch (type) {
    case CacheType::kF32:
      return F32FromBits(lane);
    case CacheType::kF16:
      return F32FromF16(static_cast<uint16_t>(lane >> (16 * place)));
    case CacheType::kBF16:
      return F32FromBF16(static_cast<uint16_t>(lane >> (16 * place)));
    case CacheType::kQ8_0:
      return static_cast<int8_t>(lane >> (8 * place));
    case CacheType::kQ4_0:
      break;
  }
  return static_cast<float>((lane >> (8 * (place % 4) + 4 * (place / 4))) & 15u) - 8.0f;
}

// The bits of a lane's first `count` elements, which are not all of them.
uint32_t BitsOfElements(CacheType type, size_t count) {
  const size_t bits = BitsOf(type);
  uint32_t mask = 0;
  for (size_t place = 0; place < count; ++place) {
    const size_t shift = type == CacheType::kQ4_0 ? 8 * (place % 4) + 4 * (place / 4) : bits * place;
    mask |= ((1u << bits) - 1) << shift;
  }
  return mask;
}

// Rows of kPageGroup tokens' cells, as keys and their scales lie: [page_tokens / 16][rows][16] cells.
void ClearTokenRows(const PageLayout& layout, size_t slot, size_t rows, size_t cell_bytes, uint8_t* cells) {
  const size_t row_bytes = kPageGroup * cell_bytes, kept = slot % kPageGroup * cell_bytes;
  for (size_t row = slot / kPageGroup * rows; row < layout.page_tokens / kPageGroup * rows; ++row) {
    const size_t first = row < (slot / kPageGroup + 1) * rows ? kept : 0;
    memset(cells + row * row_bytes + first, 0, row_bytes - first);
  }
}

void ClearKeys(const PageLayout& layout, size_t slot, uint8_t* part) {
  ClearTokenRows(layout, slot, PaddedKeyDim(layout) / ElementsInLane(layout.key_type), 4, part);
  if (!IsQuantized(layout.key_type)) return;
  ClearTokenRows(layout, slot, PaddedKeyDim(layout) / kScaleGroup, 2, part + layout.key_scale_offset);
}

void ClearValues(const PageLayout& layout, size_t slot, uint8_t* part) {
  const size_t in_lane = ElementsInLane(layout.value_type), lanes = PaddedValueDim(layout);
  uint8_t* values = part + layout.value_offset;
  const uint32_t kept = BitsOfElements(layout.value_type, slot % in_lane);
  size_t lane = slot / in_lane * lanes;
  for (const size_t end = kept == 0 ? lane : lane + lanes; lane < end; ++lane) {
    const uint32_t bits = LoadLane(values, lane) & kept;
    memcpy(values + 4 * lane, &bits, sizeof(bits));
  }
  memset(values + 4 * lane, 0, 4 * (layout.page_tokens / in_lane * lanes - lane));
  if (!IsQuantized(layout.value_type)) return;
  uint8_t* scales = part + layout.value_scale_offset;
  for (size_t dim = 0; dim < lanes; dim += kScaleGroup) {
    memset(scales + 2 * ValueScaleIndex(layout, slot, dim), 0, 2 * (layout.page_tokens - slot));
  }
}

float Scale(const uint8_t* scales, size_t index) {
  uint16_t bits;
  memcpy(&bits, scales + 2 * index, sizeof(bits));
  return F32FromF16(bits);
}

}  // namespace

const char* CacheTypeName(CacheType type) {
  switch (type) {
    case CacheType::kF32:
      return "f32";
    case CacheType::kF16:
      return "f16";
    case CacheType::kBF16:
      return "bf16";
    case CacheType::kQ8_0:
      return "q8_0";
    case CacheType::kQ4_0:
      break;
  }
  return "q4_0";
}

bool FindCacheType(const char* name, CacheType* type) {
  for (CacheType candidate : kAllCacheTypes) {
    if (!EqualInAnyCase(name, CacheTypeName(candidate))) continue;
    *type = candidate;
    return true;
  }
  return false;
}

bool FinishPageLayout(PageLayout* layout) {
  PageLayout& l = *layout;
  if (l.page_tokens == 0 || l.page_tokens % kAttentionTile != 0 || l.layers == 0 || l.kv_heads == 0) return false;
  if (l.key_dim == 0 || l.value_dim == 0 || l.key_dim > kMaxHeadDim || l.value_dim > kMaxHeadDim) return false;
  if (l.page_tokens > (1u << 20)) return false;
  const uint64_t tokens = l.page_tokens;
  const uint64_t key_scales = IsQuantized(l.key_type) ? tokens * PaddedKeyDim(l) / kScaleGroup * 2 : 0;
  const uint64_t value_scales = IsQuantized(l.value_type) ? tokens * PaddedValueDim(l) / kScaleGroup * 2 : 0;
  const uint64_t key_scale = Aligned(tokens / kPageGroup * KeyGroupBytes(l));
  const uint64_t value = Aligned(key_scale + key_scales);
  const uint64_t value_scale = Aligned(value + tokens * PaddedValueDim(l) * BitsOf(l.value_type) / 8);
  const uint64_t part = Aligned(value_scale + value_scales);  // below 2^34
  const uint64_t bounds = Aligned(2 * sizeof(float) * l.key_dim);
  const uint64_t parts = static_cast<uint64_t>(l.layers) * l.kv_heads;
  if (parts > (SIZE_MAX / 2) / (part + bounds)) return false;
  l.key_scale_offset = static_cast<size_t>(key_scale);
  l.value_offset = static_cast<size_t>(value);
  l.value_scale_offset = static_cast<size_t>(value_scale);
  l.part_bytes = static_cast<size_t>(part);
  l.bounds_bytes = static_cast<size_t>(bounds);
  l.page_bytes = static_cast<size_t>(parts * (part + bounds));
  return true;
}

void UnpackKey(const PageLayout& layout, const uint8_t* part, size_t slot, float* key) {
  const size_t g = ElementsInLane(layout.key_type);
  for (size_t i = 0; i < layout.key_dim; ++i) {
    key[i] = Element(layout.key_type, LoadLane(part, KeyLane(layout, slot, i)), i % g);
    if (IsQuantized(layout.key_type)) key[i] *= Scale(part + layout.key_scale_offset, KeyScaleIndex(layout, slot, i));
  }
}

void UnpackValue(const PageLayout& layout, const uint8_t* part, size_t slot, float* value) {
  const size_t g = ElementsInLane(layout.value_type);
  for (size_t j = 0; j < layout.value_dim; ++j) {
    value[j] = Element(layout.value_type, LoadLane(part + layout.value_offset, ValueLane(layout, slot, j)), slot % g);
    if (IsQuantized(layout.value_type))
      value[j] *= Scale(part + layout.value_scale_offset, ValueScaleIndex(layout, slot, j));
  }
}

void SummarizeKeys(const PageLayout& layout, uint8_t* page, size_t part_offset) {
  float key[kMaxHeadDim];
  float lowest[kMaxHeadDim];
  float highest[kMaxHeadDim];
  for (size_t t = 0; t < layout.page_tokens; ++t) {
    UnpackKey(layout, page + part_offset, t, key);
    for (size_t i = 0; i < layout.key_dim; ++i) {
      // A NaN stays: no comparison with it holds, and a key that is one replaces the bound.
      lowest[i] = t == 0 || key[i] < lowest[i] || key[i] != key[i] ? key[i] : lowest[i];
      highest[i] = t == 0 || key[i] > highest[i] || key[i] != key[i] ? key[i] : highest[i];
    }
  }
  uint8_t* bounds = page + KeyBoundsOffset(layout, part_offset);
  memcpy(bounds, lowest, layout.key_dim * sizeof(float));
  memcpy(bounds + layout.key_dim * sizeof(float), highest, layout.key_dim * sizeof(float));
}

void ClearSlots(const PageLayout& layout, uint8_t* page, size_t slot) {
  if (slot == layout.page_tokens) return;
  const size_t parts = static_cast<size_t>(layout.layers) * layout.kv_heads;
  for (size_t i = 0; i < parts; ++i) {
    ClearKeys(layout, slot, page + i * layout.part_bytes);
    ClearValues(layout, slot, page + i * layout.part_bytes);
  }
  memset(page + parts * layout.part_bytes, 0, parts * layout.bounds_bytes);
}

}  // namespace moonlit
