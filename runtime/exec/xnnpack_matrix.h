// SPDX-License-Identifier: Apache-2.0
// A matrix that XNNPACK multiplies with, as a stage sees it: ProductKernel's contract over FloatProduct's.
#pragma once

#include <cstddef>

#include "kernels/activation/activation.h"
#include "kernels/matmul/matmul.h"
#include "runtime/xnnpack/float_product.h"

namespace moonlit {

class XnnpackMatrix {
 public:
  // Rows of x are RoundUp(k, kInputUnit) floats apart, as in the arena.
  static constexpr size_t kInputUnit = 16;
  // Floats that a thread needs while it multiplies.
  static size_t ScratchFloats(const FloatLayout& layout) { return kRows * layout.output_stride; }

  // `scratch`: ScratchFloats a thread, `scratch_stride` floats apart; it outlives the matrix, and matrices may share it.
  XnnpackMatrix(FloatProduct product, const ActivationTable& rows, float* scratch, size_t scratch_stride)
      : product_(std::move(product)), rows_(rows), scratch_(scratch), scratch_stride_(scratch_stride) {}

  // As ProductKernel::multiply, with the epilogue in its order: sum, + bias, + addend. A tile is FloatProduct::kUnit outputs.
  // Calls with different threads may run at the same time. REQUIRES: FloatProduct::kReadablePast floats behind the last row of x
  // are readable.
  void Multiply(const ProductArgs& args, size_t thread) const;
  const FloatProduct& product() const { return product_; }

 private:
  static constexpr size_t kRows = 64;  // of one call of XNNPACK, at most
  void Finish(const ProductArgs& args, size_t first_row, size_t rows, size_t first, float* made) const;

  FloatProduct product_;
  const ActivationTable& rows_;
  float* scratch_;
  size_t scratch_stride_;
};

}  // namespace moonlit
