// SPDX-License-Identifier: Apache-2.0
#include "kernels/quant/f32.h"

#include "kernels/quant/block.h"

namespace moonlit::f32 {

void Dequantize(const uint8_t* bytes, float* values, size_t k) { memcpy(values, bytes, k * sizeof(float)); }

void Quantize(const float* values, const float* /*importance*/, uint8_t* bytes, size_t k) {
  memcpy(bytes, values, k * sizeof(float));
}

}  // namespace moonlit::f32
