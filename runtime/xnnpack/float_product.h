// SPDX-License-Identifier: Apache-2.0
// Products with float weights (unquantized models, routers, small heads), carried by XNNPACK where the build has it.
//
//   y[r][n] = sum over k of x[r][k] * w[n][k], in f32
//
//   const FloatLayout layout = FloatProduct::LayOut({.outputs = n, .inputs = k});
//   for (size_t s = 0; s < layout.slices; ++s)                                  // in any order, on any threads
//     MOONLIT_RETURN_IF_ERROR(FloatProduct::Pack(shape, s, rows_of_slice, packed));
//   MOONLIT_ASSIGN_OR_RETURN(FloatProduct product, FloatProduct::Create(shape, packed, input_stride, threads));
//   product.Run(thread, unit, rows, x, y);                                      // a task of any pool
//
// The contract is the project's: the bits of a row depend on the row and the weights alone, never on how many rows go together
// or where outputs are cut. Available() proves it on this processor before anything is offered. Which kernel XNNPACK takes
// follows from the processor and not from our kernel variant.
//
// The packed weights are the only copy: XNNPACK packs them into the caller's memory and multiplies from there. It starts no
// threads, and Run allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/status.h"

namespace moonlit {

struct FloatProductShape {
  size_t outputs;  // rows of the weights
  size_t inputs;   // their columns
};

// Packed weights: slices of whole rows, so that they can be read and packed piece by piece.
struct FloatLayout {
  size_t slices;
  size_t slice_outputs;  // slice s holds outputs from s * slice_outputs on; the last one has the rest, too
  size_t slice_bytes;    // from one slice to the next
  size_t bytes;          // of all
  size_t output_stride;  // floats from one row of Run's y to the next
  // Outputs of slice s.
  size_t outputs_of(size_t s, size_t all) const { return s + 1 == slices ? all - s * slice_outputs : slice_outputs; }
};

class FloatProduct {
 public:
  static constexpr size_t kUnit = 32;  // outputs that Run makes at once: a multiple of every kernel's tile
  // Floats past the last row of x that must be readable (they are not used).
  static constexpr size_t kReadablePast = 32;

  // OK; or kUnsupported: the build has no XNNPACK, this processor is none of its own, or its kernels give a row other bits
  // alone than among others. Thread-safe; the answer is found once a process.
  static Status Available();

  // REQUIRES: outputs and inputs from 1 to 2^24.
  static FloatLayout LayOut(const FloatProductShape& shape);

  // Packs one slice: rows [outputs of the slice, inputs] from row slice * slice_outputs on. `packed`: the start of the whole
  // matrix's memory, LayOut(shape).bytes, 64-byte aligned. Thread-safe for different slices. Errors: as Available();
  // kInvalidArgument for an empty or too large shape; kOutOfMemory.
  static Status Pack(const FloatProductShape& shape, size_t slice, const float* rows, uint8_t* packed);

  // Operators over packed weights, which live as long as the product. `input_stride`: floats from one row of x to the next.
  // Errors: as Pack.
  static Result<FloatProduct> Create(const FloatProductShape& shape, const uint8_t* packed, size_t input_stride,
                                     size_t threads);

  FloatProduct(FloatProduct&&) noexcept;
  FloatProduct& operator=(FloatProduct&&) noexcept;
  ~FloatProduct();

  // Outputs [unit * kUnit, (unit + 1) * kUnit), as far as there are any, of `rows` rows: x [rows, inputs] with the stride of
  // Create, y [rows, kUnit] with the layout's output_stride. `thread`: below `threads` of Create; calls with different threads
  // may run at the same time.
  void Run(size_t thread, size_t unit, size_t rows, const float* x, float* y) const;

  const FloatLayout& layout() const;
  size_t tile_rows() const;  // rows that XNNPACK's kernel multiplies at once: fewer take as long
  // For logs: "xnnpack_f32_7x32", with the tile of the kernel that XNNPACK has for this processor.
  const std::string& name() const;

 private:
  struct Rep;
  explicit FloatProduct(std::unique_ptr<Rep> rep);
  static Result<FloatProduct> Bind(const FloatProductShape& shape, const uint8_t* packed, size_t input_stride,
                                   size_t threads);
  static Status ProveRowsIndependent(const FloatProductShape& shape);
  std::unique_ptr<Rep> rep_;
};

}  // namespace moonlit
