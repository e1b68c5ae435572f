// SPDX-License-Identifier: Apache-2.0
// Folding the triples of segments, first visited upwards, and the last division. `attend` and `merge` both run these
// functions, so their bits are equal.
#pragma once

#include "kernels/attention/workspace-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

struct RunningRow {
  float max;
  float sum;
};

HWY_INLINE bool IsEmpty(float max, float sum) { return max == kNegInf && sum == 0.0f; }

// out: [value_dim], holds the row's unnormalised outputs; nothing before the first segment that is not empty.
void FoldTriple(const float* triple, size_t value_dim, RunningRow* row, float* out) {
  const DF32 df;
  if (IsEmpty(triple[0], triple[1])) return;
  if (IsEmpty(row->max, row->sum)) {
    row->max = triple[0];
    row->sum = triple[1];
    memcpy(out, triple + 16, value_dim * sizeof(float));
    return;
  }
  const float max = triple[0] > row->max ? triple[0] : row->max;
  const float old_weight = Exp2Of(row->max - max);
  const float new_weight = Exp2Of(triple[0] - max);
  row->max = max;
  row->sum = row->sum * old_weight + triple[1] * new_weight;
  const VF32 a = hn::Set(df, old_weight);
  const VF32 b = hn::Set(df, new_weight);
  size_t i = 0;
  for (; i + kLanes <= value_dim; i += kLanes) {
    hn::StoreU(hn::MulAdd(hn::LoadU(df, triple + 16 + i), b, hn::Mul(hn::LoadU(df, out + i), a)), df, out + i);
  }
  if (i < value_dim) {
    const size_t rest = value_dim - i;
    const VF32 folded = hn::MulAdd(hn::LoadU(df, triple + 16 + i), b, hn::Mul(hn::LoadN(df, out + i, rest), a));
    hn::StoreN(folded, df, out + i, rest);
  }
}

// A row that saw nothing gives zeros, with or without a sink.
void FinishRow(const RunningRow& row, size_t value_dim, float sink, float* out) {
  if (IsEmpty(row.max, row.sum)) {
    memset(out, 0, value_dim * sizeof(float));
    return;
  }
  const float sink2 = sink * kLog2E;
  const float max = sink2 > row.max ? sink2 : row.max;
  const float weight = Exp2Of(row.max - max);
  const float sum = row.sum * weight + Exp2Of(sink2 - max);
  const float factor = weight / sum;
  for (size_t i = 0; i < value_dim; ++i) out[i] *= factor;
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
