// SPDX-License-Identifier: Apache-2.0
// Recurrent layers: what replaces attention's growing cache by a state of constant size. docs/attention.md derives the forms.
//
//   linear attention   S += phi(k) v^T, z += phi(k), out = (phi(q)^T S) / (phi(q) . z), phi(x) = elu(x) + 1
//                      (Katharopoulos, Vyas, Pappas & Fleuret 2020, arXiv:2006.16236)
//   gated delta rule   S = exp(g) S, S += beta k (v - S^T k)^T, out = S^T q, g <= 0, beta in [0, 1] (or up to 2)
//                      (Yang, Kautz & Hatamizadeh 2024, arXiv:2412.06464)
//   short convolution  out[t, c] = bias[c] + sum over j < width of weight[j, c] * x[t - (width - 1) + j, c]
//   decay              g = rate * softplus(alpha + bias)          (Gu & Dao 2023, arXiv:2312.00752)
//
//   RecurrentArgs args = {};  // one value head, consecutive tokens of one sequence
//   args.tokens = n, args.position = p, args.key_dim = ..., args.state = state, args.scratch = scratch, ...
//   GetLinearAttentionTable(variant).gated_delta(args);  // reads n tokens, moves the state on
//
// Numeric contract: a call runs the chunked form on every 64 tokens that begin at a multiple of 64 of the absolute position and lie
// in the call whole, and the step form on all others. Either form's order of additions depends on key_dim, value_dim and the
// variant only: one accumulator an output, key dimensions ascending, tokens ascending. So bits do not depend on how a sequence is
// cut into calls as long as cuts are multiples of 64; otherwise results differ by rounding (1e-4 is the bound, 1e-6 usual). A
// token's output depends on no later token: a NaN spoils what comes after it, nothing before. The convolution's bits do not
// depend on cuts at all. All state and arithmetic is f32.
// Pure: no allocation, no threads. No alignment needed but where it is said.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/variant.h"

namespace moonlit {

inline constexpr size_t kRecurrentChunk = 64;      // tokens of the chunked form
inline constexpr size_t kRecurrentMostDim = 1024;  // of keys and of values
inline constexpr size_t kShortConvMostWidth = 16;

// Rows of states and scratch are whole vectors of every variant; what is added is zero.
static inline size_t RecurrentPadded(size_t dim) { return (dim + 15) / 16 * 16; }

// Floats of one head's state: S as [key_dim, RecurrentPadded(value_dim)]; for linear attention then z as
// [RecurrentPadded(key_dim)]. A new sequence has all zeros.
static inline size_t LinearStateFloats(size_t key_dim, size_t value_dim) {
  return key_dim * RecurrentPadded(value_dim) + RecurrentPadded(key_dim);
}
static inline size_t DeltaStateFloats(size_t key_dim, size_t value_dim) { return key_dim * RecurrentPadded(value_dim); }

// A thread's scratch, for any number of tokens: keys, transposed keys, queries, values and outputs of a chunk, and its scores
// twice. 193 KiB for heads of 128.
static inline size_t RecurrentScratchBytes(size_t key_dim, size_t value_dim) {
  const size_t keys = RecurrentPadded(key_dim), values = RecurrentPadded(value_dim);
  return kRecurrentChunk * (3 * keys + 2 * values + 2 * kRecurrentChunk + 4) * sizeof(float);
}

struct RecurrentArgs {
  size_t tokens;
  int64_t position;  // absolute, of the first token; at least 0
  size_t key_dim;    // 1 .. kRecurrentMostDim, as is value_dim
  size_t value_dim;
  const float* q;  // [tokens, key_dim], rows q_stride floats apart; the others likewise
  size_t q_stride;
  const float* k;  // [tokens, key_dim]
  size_t k_stride;
  const float* v;  // [tokens, value_dim]
  size_t v_stride;
  float* out;  // [tokens, value_dim]
  size_t out_stride;
  float* state;     // before the first token; after the call that after the last
  float* scratch;   // 64-byte aligned, RecurrentScratchBytes; uninitialised
  bool steps_only;  // the step form for all tokens: for tests and measurements
  float eps;        // linear attention: added to the denominator. Delta rule: inside the root of the L2 norm
  // The delta rule's own. g and beta of token t lie at decay[t * gate_stride] and beta[t * gate_stride].
  const float* decay;  // g: the logarithm of the decay; -inf clears the state
  const float* beta;
  size_t gate_stride;
  bool normalise;  // q and k are each divided by sqrt(sum of squares + eps)
  float scale;     // multiplies q, after its norm
};

struct ShortConvArgs {
  size_t tokens;
  size_t channels;
  size_t width;    // 1 .. kShortConvMostWidth
  const float* x;  // [tokens, channels], rows x_stride floats apart
  size_t x_stride;
  const float* weight;  // [width, channels], rows weight_stride floats apart: the last row meets the token itself
  size_t weight_stride;
  const float* bias;  // [channels], null: 0
  float* out;         // [tokens, channels]; not x
  size_t out_stride;
  float*
      state;  // [width - 1, channels], rows state_stride floats apart: the inputs before the first token, oldest first
  size_t state_stride;
};

struct LinearAttentionTable {
  // A denominator of exactly 0 gives zeros.
  void (*linear_attention)(const RecurrentArgs& args);
  void (*gated_delta)(const RecurrentArgs& args);
  void (*short_conv)(const ShortConvArgs& args);
  // out[i] = rate[i] * log(1 + exp(alpha[i] + bias[i])); out may be equal to alpha. Within 4 units in the last place.
  void (*decay)(const float* alpha, const float* rate, const float* bias, float* out, size_t n);
};

// REQUIRES: IsBuilt(variant).
const LinearAttentionTable& GetLinearAttentionTable(Variant variant);

}  // namespace moonlit
