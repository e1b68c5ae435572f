// SPDX-License-Identifier: Apache-2.0
// Products of one row with rows that are computed too, not weights: the two halves of attention in its plain form, with a table
// of scores between them. For lessons and for looking into a layer; models attend by kernels/attention, which needs no table.
//
//   GetPairTable(variant).dots(q, k, stride, keys, dim, scores);              // q . k_j
//   GetPairTable(variant).weighted_sum(w, v, stride, keys, dim, out);         // sum over j of w_j v_j
//
// The order of additions depends on `dim` and the variant only for dots, and is that of the rows, ascending, for sums. No
// alignment needed. Pure: no allocation, no threads.
#pragma once

#include <stddef.h>

#include "kernels/cpu/variant.h"

namespace moonlit {

struct PairTable {
  // out[j] = sum over c < dim of x[c] * rows[j * stride + c], for j < n.  x: [dim], out: [n]
  void (*dots)(const float* x, const float* rows, size_t stride, size_t n, size_t dim, float* out);
  // out[c] = sum over j < n of weights[j] * rows[j * stride + c], for c < dim.  weights: [n], out: [dim], apart from the inputs
  void (*weighted_sum)(const float* weights, const float* rows, size_t stride, size_t n, size_t dim, float* out);
};

// REQUIRES: IsBuilt(variant).
const PairTable& GetPairTable(Variant variant);

}  // namespace moonlit
