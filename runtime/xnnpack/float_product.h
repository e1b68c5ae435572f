// SPDX-License-Identifier: Apache-2.0
// Products with float weights (unquantized models, routers, small heads), carried by XNNPACK where the build has it.
//
//   if (FloatProduct::Available().ok()) {
//     MOONLIT_ASSIGN_OR_RETURN(FloatProduct product, FloatProduct::Create(weights, shape, {}));
//     // one task a slice, on any threads:
//     MOONLIT_RETURN_IF_ERROR(product.Run(slice, rows, input, output));
//   }
//
// y[r][n] = sum over k of x[r][k] · w[n][k], in f32. The contract is the project's: the bits of a row depend on the row and
// the weights alone, never on how many rows go together. Available() proves it on this processor before anything is offered.
//
// XNNPACK keeps a packed copy of the weights (about outputs · inputs · 4 bytes); the caller's may go after Create. It starts no
// threads here: outputs are cut into slices, and the caller's pool runs them.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/base/status.h"

namespace moonlit {

struct FloatProductShape {
  size_t outputs;            // rows of the weights
  size_t inputs;             // their columns
  size_t input_stride = 0;   // floats from one row of x to the next; 0: inputs
  size_t output_stride = 0;  // floats from one row of y to the next; 0: outputs
};

class FloatProduct {
 public:
  // Floats past the last row of x that must be readable (they are not used).
  static constexpr size_t kReadablePast = 32;

  // OK; or kUnsupported: the build has no XNNPACK, this processor is none of its own, or its kernels give a row other bits
  // alone than among others. Thread-safe; the answer is found once a process.
  static Status Available();

  // Packs weights [outputs, inputs], row-major. `slice_outputs` is the number of outputs a slice has (the last one may have
  // fewer); 0 chooses 64. Errors: as Available(); kInvalidArgument for an empty or too large shape or a stride shorter than
  // its row; kOutOfMemory.
  static Result<FloatProduct> Create(const float* weights, const FloatProductShape& shape, size_t slice_outputs = 0);

  FloatProduct(FloatProduct&&) noexcept;
  FloatProduct& operator=(FloatProduct&&) noexcept;
  ~FloatProduct();

  size_t slices() const;

  // Computes the outputs of one slice for `rows` rows: x [rows, inputs] and y [rows, outputs] with the strides of Create;
  // only the slice's columns of y are written. Different slices may run at the same time, one slice only once at a time.
  // rows may be 0.
  Status Run(size_t slice, size_t rows, const float* x, float* y);

 private:
  struct Rep;
  explicit FloatProduct(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace moonlit
