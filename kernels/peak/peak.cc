// SPDX-License-Identifier: Apache-2.0
#include "kernels/peak/peak.h"

#include "kernels/base/check.h"
#include "kernels/base/float16.h"

namespace moonlit {

#define MOONLIT_TABLE PeakTable
#define MOONLIT_TABLE_CLASS VARIANT
#include "kernels/cpu/variant_table.inc"

namespace {

// Numerical Recipes' linear congruential generator; the upper bits are the better ones.
struct Random {
  uint32_t state;
  uint32_t Below(uint32_t bound) {
    state = state * 1664525u + 1013904223u;
    return (state >> 16) % bound;
  }
  // 1 to 4, of either sign.
  float Small() {
    const float magnitude = static_cast<float>(1 + Below(4));
    return Below(2) == 0 ? magnitude : -magnitude;
  }
};

template <typename T, size_t kCount, class Value>
void FillRow(T (&row)[kCount], Value&& value) {
  for (T& x : row) x = static_cast<T>(value());
}

}  // namespace

void FillPeakInput(uint32_t seed, PeakInput* input) {
  Random random = {seed};
  for (auto& row : input->w8) FillRow(row, [&] { return random.Below(16); });
  for (auto& row : input->a8) FillRow(row, [&] { return static_cast<int>(random.Below(255)) - 127; });
  for (auto& phase : input->a16) {
    for (auto& row : phase) FillRow(row, [&] { return BF16FromF32(random.Small()); });
  }
  for (auto& row : input->b16) FillRow(row, [&] { return BF16FromF32(random.Small()); });
  for (auto& phase : input->a32) {
    for (auto& row : phase) FillRow(row, [&] { return random.Small(); });
  }
  for (auto& row : input->b32) FillRow(row, [&] { return random.Small(); });
}

}  // namespace moonlit
