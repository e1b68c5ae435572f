// SPDX-License-Identifier: Apache-2.0
// Normalisation of rows (Zhang & Sennrich 2019; Ba, Kiros & Hinton 2016).
//
//   RMS    out[r, i] = (x[r, i] / sqrt(mean_i x[r, i]^2 + eps)) * weight[i]                    arXiv:1910.07467
//   layer  out[r, i] = ((x[r, i] - mean) / sqrt(variance + eps)) * weight[i] + bias[i]    arXiv:1607.06450
//
// A norm per attention head is the same call with rows = heads, d = head_dim and strides of one head.
//
//   NormArgs args{.x = x, .x_stride = d, .rows = n, .d = d, .weight = w, .bias = nullptr, .eps = 1e-5f, .out = y,
//                 .out_stride = d};
//   GetNormTable(variant).rms_norm_rows(args);
//
// Numeric contract: the sums run in an order that depends on d and the variant only, so a row's bits depend on the row
// alone. The root and the quotient are the correctly rounded ones, never an estimate. Values whose squares leave the
// float range are still normalised; a row with an inf or a NaN gives NaN. Pure: no allocation, no threads.
#pragma once

#include <stddef.h>

#include "kernels/cpu/variant.h"

namespace moonlit {

struct NormArgs {
  const float* x;  // [rows, d], rows x_stride floats apart; no alignment needed
  size_t x_stride;
  size_t rows;
  size_t d;             // at least 1
  const float* weight;  // [d], null: 1
  const float* bias;    // [d], null: 0; only layer_norm_rows reads it
  float eps;            // above 0
  float* out;           // [rows, d], rows out_stride floats apart; may be equal to x (with equal strides)
  size_t out_stride;
};

struct NormTable {
  void (*rms_norm_rows)(const NormArgs& args);
  void (*layer_norm_rows)(const NormArgs& args);
};

// REQUIRES: IsBuilt(variant).
const NormTable& GetNormTable(Variant variant);

}  // namespace moonlit
