// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/a8.h"

#include "kernels/base/round.h"

namespace moonlit {

namespace {
constexpr size_t kAlign = 64;

// An odd number of cache lines: rows whose distance is a power of two would share one set of the first-level cache.
size_t OddLines(size_t bytes) { return (CeilDiv(bytes, kAlign) | 1) * kAlign; }

// In elements.
struct Strides {
  size_t q, scale, sum;
};

Strides StridesOf(size_t k) {
  const size_t groups = CeilDiv(k, kA8Group);
  return {OddLines(groups * kA8Group), OddLines(groups * sizeof(float)) / sizeof(float),
          OddLines(2 * groups * sizeof(int16_t)) / sizeof(int16_t)};
}
}  // namespace

size_t A8Bytes(size_t rows, size_t k) {
  const Strides s = StridesOf(k);
  return rows * (s.q + s.scale * sizeof(float) + s.sum * sizeof(int16_t));
}

A8View MakeA8View(void* memory, size_t rows, size_t k) {
  const Strides s = StridesOf(k);
  auto* bytes = static_cast<uint8_t*>(memory);
  A8View view;
  view.q = reinterpret_cast<int8_t*>(bytes);
  view.scale = reinterpret_cast<float*>(bytes + rows * s.q);
  view.sum16 = reinterpret_cast<int16_t*>(bytes + rows * (s.q + s.scale * sizeof(float)));
  view.q_stride = s.q;
  view.scale_stride = s.scale;
  view.sum_stride = s.sum;
  return view;
}

}  // namespace moonlit
