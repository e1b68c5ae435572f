// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/xnnpack_matrix.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/check.h"
#include "kernels/base/round.h"

namespace moonlit {

void XnnpackMatrix::Multiply(const ProductArgs& args, size_t thread) const {
  MOONLIT_DCHECK(args.rows <= 1 || args.x_stride == RoundUp(args.k, kInputUnit));
  float* made = scratch_ + thread * scratch_stride_;
  const size_t most_rows = kRows / product_.tile_rows() * product_.tile_rows();
  for (size_t unit = args.tile_begin; unit < args.tile_end; ++unit) {
    for (size_t row = 0; row < args.rows; row += most_rows) {
      const size_t rows = std::min(most_rows, args.rows - row);
      product_.Run(thread, unit, rows, args.x + row * args.x_stride, made);
      Finish(args, row, rows, unit * FloatProduct::kUnit, made);
    }
  }
}

void XnnpackMatrix::Finish(const ProductArgs& args, size_t first_row, size_t rows, size_t first, float* made) const {
  const size_t count = std::min(FloatProduct::kUnit, args.n - first);
  const size_t place = first - args.out_first;
  for (size_t r = 0; r < rows; ++r) {
    float* sum = made + r * product_.layout().output_stride;
    float* out = args.out + (first_row + r) * args.out_stride + place;
    if (args.bias != nullptr) rows_.add(sum, args.bias + first, sum, count);
    if (args.addend != nullptr) {
      rows_.add(sum, args.addend + (first_row + r) * args.addend_stride + place, out, count);
    } else {
      std::memcpy(out, sum, count * sizeof(float));
    }
  }
}

}  // namespace moonlit
