// SPDX-License-Identifier: Apache-2.0
// The two forms of both recurrences. With decays a[t] = exp(g[t]) and u[t] = beta[t] (v[t] - a[t] S[t-1]^T k[t]) the delta rule is
// S[t] = a[t] S[t-1] + k[t] u[t]^T; linear attention is the same with a = 1 and u = v.
//
// Chunked, with S the state before the chunk, c[r] = a[1] .. a[r] and d[r, i] = a[i+1] .. a[r]:
//   u   solves u[r] = beta[r] (v[r] - c[r] S^T k[r]) - sum over i < r of beta[r] d[r, i] (k[r] . k[i]) u[i]
//   out[r] = c[r] S^T q[r] + sum over i <= r of d[r, i] (q[r] . k[i]) u[i]
//   S   becomes c[64] S + sum over i of d[64, i] k[i] u[i]^T
// Products of decays are made by multiplication, row after row, never by exp of a difference of sums: those would lose the small
// terms beside a large one. None exceeds 1, so nothing can overflow however strong the decays are.
#pragma once

#include "kernels/linear_attention/rows-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

constexpr size_t kChunk = kRecurrentChunk;

// The scratch of RecurrentScratchBytes.
struct Workspace {
  Matrix keys, queries;    // [kChunk, padded key_dim]
  Matrix columns;          // [padded key_dim, kChunk]: keys transposed
  Matrix values, outputs;  // [kChunk, padded value_dim]
  Matrix lower, scores;    // [kChunk, kChunk]
  float* decays;           // [kChunk] a
  float* products;         // [kChunk] d of the current row
  float* leading;          // [kChunk] c
  float* betas;            // [kChunk]
};

Workspace MakeWorkspace(const RecurrentArgs& args) {
  const size_t keys = RecurrentPadded(args.key_dim), values = RecurrentPadded(args.value_dim);
  float* next = args.scratch;
  const auto take = [&](size_t rows, size_t stride) {
    const Matrix matrix = {next, stride};
    next += rows * stride;
    return matrix;
  };
  Workspace w;
  w.keys = take(kChunk, keys);
  w.queries = take(kChunk, keys);
  w.columns = take(keys, kChunk);
  w.values = take(kChunk, values);
  w.outputs = take(kChunk, values);
  w.lower = take(kChunk, kChunk);
  w.scores = take(kChunk, kChunk);
  w.decays = take(1, kChunk).data;
  w.products = take(1, kChunk).data;
  w.leading = take(1, kChunk).data;
  w.betas = take(1, kChunk).data;
  return w;
}

// One token over kVectors vectors of the state's columns.
template <bool kDelta, size_t kVectors>
MOONLIT_INNER void StepColumns(const RecurrentArgs& args, const Workspace& w, size_t column, float decay, float beta) {
  const D tag;
  const size_t lanes = hn::Lanes(tag), stride = w.values.stride;
  const float* key = w.keys.data;
  const float* query = w.queries.data;
  float* state = args.state + column;
  const V keep = hn::Set(tag, decay);
  V update[kVectors], out[kVectors];
  Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA {
    update[v] = hn::LoadU(tag, w.values.data + column + v * lanes);
    out[v] = hn::Zero(tag);
  });
  if constexpr (kDelta) {
    for (size_t d = 0; d < args.key_dim; ++d) {
      const V factor = hn::Set(tag, key[d]);
      Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA {
        out[v] = hn::MulAdd(factor, hn::LoadU(tag, state + d * stride + v * lanes), out[v]);
      });
    }
    const V by = hn::Set(tag, beta);
    Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA {
      update[v] = hn::Mul(by, hn::NegMulAdd(keep, out[v], update[v]));
      out[v] = hn::Zero(tag);
    });
  }
  for (size_t d = 0; d < args.key_dim; ++d) {
    const V factor = hn::Set(tag, key[d]), read = hn::Set(tag, query[d]);
    Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA {
      float* at = state + d * stride + v * lanes;
      V s = hn::LoadU(tag, at);
      if constexpr (kDelta) s = hn::Mul(keep, s);
      s = hn::MulAdd(factor, update[v], s);
      hn::StoreU(s, tag, at);
      out[v] = hn::MulAdd(read, s, out[v]);
    });
  }
  Unroll<kVectors>([&](auto v) MOONLIT_INLINE_LAMBDA { hn::StoreU(out[v], tag, w.outputs.data + column + v * lanes); });
}

template <bool kDelta>
void StepAllColumns(const RecurrentArgs& args, const Workspace& w, float decay, float beta) {
  const size_t lanes = hn::Lanes(D()), columns = w.values.stride;
  size_t n = 0;
  for (; n + kStepVectors * lanes <= columns; n += kStepVectors * lanes) {
    StepColumns<kDelta, kStepVectors>(args, w, n, decay, beta);
  }
  for (; n + 4 * lanes <= columns; n += 4 * lanes) StepColumns<kDelta, 4>(args, w, n, decay, beta);
  for (; n < columns; n += lanes) StepColumns<kDelta, 1>(args, w, n, decay, beta);
}

HWY_INLINE float* SumsOfKeys(const RecurrentArgs& args) {
  return args.state + args.key_dim * RecurrentPadded(args.value_dim);
}

MOONLIT_INNER void AddRow(const float* x, size_t padded, float* sum) {
  const D tag;
  for (size_t i = 0; i < padded; i += hn::Lanes(tag)) {
    hn::StoreU(hn::Add(hn::LoadU(tag, sum + i), hn::LoadU(tag, x + i)), tag, sum + i);
  }
}

template <bool kDelta>
void Step(const RecurrentArgs& args, const Workspace& w, size_t t) {
  PrepareRow<kDelta>(args, args.k + t * args.k_stride, false, w.keys.data);
  PrepareRow<kDelta>(args, args.q + t * args.q_stride, true, w.queries.data);
  CopyRow(args.v + t * args.v_stride, args.value_dim, w.values.data);
  float factor = 1.0f;
  if constexpr (kDelta) {
    StepAllColumns<true>(args, w, ExpOf(args.decay[t * args.gate_stride]), args.beta[t * args.gate_stride]);
  } else {
    StepAllColumns<false>(args, w, 1.0f, 1.0f);
    float* sums = SumsOfKeys(args);
    AddRow(w.keys.data, w.keys.stride, sums);
    factor = InverseOrZero(Dot(w.queries.data, sums, w.keys.stride) + args.eps);
  }
  StoreRow(w.outputs.data, args.value_dim, factor, args.out + t * args.out_stride);
}

// Keys, queries and decays of tokens t .. t + 63.
template <bool kDelta>
void LoadChunk(const RecurrentArgs& args, const Workspace& w, size_t t) {
  const D tag;
  for (size_t r = 0; r < kChunk; ++r) {
    PrepareRow<kDelta>(args, args.k + (t + r) * args.k_stride, false, w.keys.data + r * w.keys.stride);
    PrepareRow<kDelta>(args, args.q + (t + r) * args.q_stride, true, w.queries.data + r * w.queries.stride);
    if constexpr (kDelta) {
      w.decays[r] = args.decay[(t + r) * args.gate_stride];
      w.betas[r] = args.beta[(t + r) * args.gate_stride];
    }
  }
  for (size_t d = 0; d < args.key_dim; ++d) {
    for (size_t r = 0; r < kChunk; ++r) w.columns.data[d * kChunk + r] = w.keys.data[r * w.keys.stride + d];
  }
  if constexpr (kDelta) {
    for (size_t r = 0; r < kChunk; r += hn::Lanes(tag)) {
      hn::StoreU(Exp(tag, hn::LoadU(tag, w.decays + r)), tag, w.decays + r);
    }
    float product = 1.0f;
    for (size_t r = 0; r < kChunk; ++r) w.leading[r] = product *= w.decays[r];
  }
}

// All rows' dots with the chunk's keys: at least those up to the row's own.
MOONLIT_INNER void MultiplyByKeys(const RecurrentArgs& args, const Workspace& w, Matrix rows, Matrix out) {
  constexpr size_t kBlock = 16;
  for (size_t r = 0; r < kChunk; r += kBlock) {
    const Matrix block = {rows.data + r * rows.stride, rows.stride}, result = {out.data + r * out.stride, out.stride};
    Multiply(kBlock, r + kBlock, args.key_dim, block, w.columns, result, kOverwrite);
  }
}

// Dots become factors of the triangles: -beta d (k . k) below the diagonal, d (q . k) on it too. Leaves d of the last row.
void WeighScores(const Workspace& w) {
  const D tag;
  const size_t lanes = hn::Lanes(tag);
  for (size_t i = 0; i < kChunk; ++i) w.products[i] = 0.0f;
  for (size_t r = 0; r < kChunk; ++r) {
    const V decay = hn::Set(tag, w.decays[r]), beta = hn::Set(tag, -w.betas[r]);
    for (size_t i = 0; i < r; i += lanes) {
      hn::StoreU(hn::Mul(decay, hn::LoadU(tag, w.products + i)), tag, w.products + i);
    }
    w.products[r] = 1.0f;
    float* lower = w.lower.data + r * kChunk;
    float* scores = w.scores.data + r * kChunk;
    for (size_t i = 0; i <= r; i += lanes) {
      const V weight = hn::LoadU(tag, w.products + i);
      hn::StoreU(hn::Mul(beta, hn::Mul(weight, hn::LoadU(tag, lower + i))), tag, lower + i);
      hn::StoreU(hn::Mul(weight, hn::LoadU(tag, scores + i)), tag, scores + i);
    }
  }
}

// values: beta v - beta c (S^T k); outputs: c (S^T q).
void WeighProducts(const RecurrentArgs& args, const Workspace& w, size_t t) {
  const D tag;
  const size_t lanes = hn::Lanes(tag), padded = w.values.stride;
  for (size_t r = 0; r < kChunk; ++r) {
    const V beta = hn::Set(tag, w.betas[r]), leading = hn::Set(tag, w.leading[r]);
    const float* v = args.v + (t + r) * args.v_stride;
    float* value = w.values.data + r * padded;
    float* out = w.outputs.data + r * padded;
    for (size_t i = 0; i < padded; i += lanes) {
      const size_t left = i < args.value_dim ? args.value_dim - i : 0;
      const V wanted = left >= lanes ? hn::LoadU(tag, v + i) : hn::LoadN(tag, v + (left != 0 ? i : 0), left);
      const V found = hn::Mul(leading, hn::LoadU(tag, value + i));
      hn::StoreU(hn::Mul(beta, hn::Sub(wanted, found)), tag, value + i);
      hn::StoreU(hn::Mul(leading, hn::LoadU(tag, out + i)), tag, out + i);
    }
  }
}

void DeltaChunk(const RecurrentArgs& args, const Workspace& w, size_t t) {
  const D tag;
  const size_t columns = w.values.stride;
  const Matrix state = {args.state, columns};
  LoadChunk<true>(args, w, t);
  MultiplyByKeys(args, w, w.keys, w.lower);
  MultiplyByKeys(args, w, w.queries, w.scores);
  WeighScores(w);
  Multiply(kChunk, columns, args.key_dim, w.keys, state, w.values, kOverwrite);
  Multiply(kChunk, columns, args.key_dim, w.queries, state, w.outputs, kOverwrite);
  WeighProducts(args, w, t);
  MultiplyTriangle<true>(columns, w.lower, w.values, w.values);
  MultiplyTriangle<false>(columns, w.scores, w.values, w.outputs);
  for (size_t d = 0; d < args.key_dim; ++d) {
    float* keys = w.columns.data + d * kChunk;
    for (size_t i = 0; i < kChunk; i += hn::Lanes(tag)) {
      hn::StoreU(hn::Mul(hn::LoadU(tag, keys + i), hn::LoadU(tag, w.products + i)), tag, keys + i);
    }
  }
  Multiply(args.key_dim, columns, kChunk, w.columns, w.values, state, {true, w.leading[kChunk - 1]});
  for (size_t r = 0; r < kChunk; ++r) {
    StoreRow(w.outputs.data + r * columns, args.value_dim, 1.0f, args.out + (t + r) * args.out_stride);
  }
}

void LinearChunk(const RecurrentArgs& args, const Workspace& w, size_t t) {
  const size_t columns = w.values.stride;
  const Matrix state = {args.state, columns};
  float* sums = SumsOfKeys(args);
  LoadChunk<false>(args, w, t);
  for (size_t r = 0; r < kChunk; ++r) {
    CopyRow(args.v + (t + r) * args.v_stride, args.value_dim, w.values.data + r * columns);
  }
  MultiplyByKeys(args, w, w.queries, w.scores);
  Multiply(kChunk, columns, args.key_dim, w.queries, state, w.outputs, kOverwrite);
  MultiplyTriangle<false>(columns, w.scores, w.values, w.outputs);
  for (size_t r = 0; r < kChunk; ++r) {
    float* scores = w.scores.data + r * kChunk;
    MapRow(scores, r + 1, scores, [](V v) MOONLIT_INLINE_LAMBDA { return v; });  // zeros what the row does not see
    const float before = Dot(w.queries.data + r * w.queries.stride, sums, w.queries.stride);
    const float factor = InverseOrZero(before + SumRow(scores, RecurrentPadded(r + 1)) + args.eps);
    StoreRow(w.outputs.data + r * columns, args.value_dim, factor, args.out + (t + r) * args.out_stride);
  }
  for (size_t r = 0; r < kChunk; ++r) AddRow(w.keys.data + r * w.keys.stride, w.keys.stride, sums);
  Multiply(args.key_dim, columns, kChunk, w.columns, w.values, state, kAddTo);
}

template <bool kDelta>
void Recur(const RecurrentArgs& args) {
  const Workspace w = MakeWorkspace(args);
  const size_t into_chunk = static_cast<size_t>(args.position) % kChunk;
  for (size_t t = 0; t < args.tokens;) {
    if (!args.steps_only && (into_chunk + t) % kChunk == 0 && args.tokens - t >= kChunk) {
      kDelta ? DeltaChunk(args, w, t) : LinearChunk(args, w, t);
      t += kChunk;
    } else {
      Step<kDelta>(args, w, t);
      ++t;
    }
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
