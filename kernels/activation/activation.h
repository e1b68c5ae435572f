// SPDX-License-Identifier: Apache-2.0
// Element-wise functions on rows of [n] floats.
//
//   sigmoid(x)    = 1 / (1 + exp(-x))
//   silu(x)       = x / (1 + exp(-x))                                            Elfwing et al. 2017, arXiv:1702.03118
//   gelu(x)       = x * (1 + erf(x / sqrt 2)) / 2                          Hendrycks & Gimpel 2016, arXiv:1606.08415
//   gelu_tanh(x)  = x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2        its approximation in the same paper
//   relu2(x)      = max(x, 0)^2                                                  So et al. 2021, arXiv:2109.08668
//   swiglu, geglu, geglu_tanh, reglu_squared = silu, gelu, gelu_tanh, relu2 of the gate, times up    arXiv:2002.05202
//   softcap(x)    = cap * tanh(x / cap)                                          Gemma 2, 2024, arXiv:2408.00118
//   clamp(x)      = min(max(x, -limit), limit)
//
//   GetActivationTable(variant).swiglu(gate, up, out, n);
//
// An element's bits depend on its inputs and the variant only, never on its place in the row. Errors stay within a few
// units in the last place of x (of x * up for the gated ones, of the cap for softcap): see tests/smallops. MulAdd is fused where the variant has it. NaN in, NaN out; silu and gelu of
// -inf are NaN. No alignment needed; `out` may be equal to an input. Pure: no allocation, no threads.
#pragma once

#include <stddef.h>

#include "kernels/cpu/variant.h"

namespace moonlit {

struct ActivationTable {
  void (*sigmoid)(const float* x, float* out, size_t n);
  void (*silu)(const float* x, float* out, size_t n);
  void (*gelu)(const float* x, float* out, size_t n);
  void (*gelu_tanh)(const float* x, float* out, size_t n);
  void (*relu_squared)(const float* x, float* out, size_t n);
  void (*swiglu)(const float* gate, const float* up, float* out, size_t n);
  void (*geglu)(const float* gate, const float* up, float* out, size_t n);
  void (*geglu_tanh)(const float* gate, const float* up, float* out, size_t n);
  void (*reglu_squared)(const float* gate, const float* up, float* out, size_t n);
  void (*softcap)(const float* x, float cap, float* out, size_t n);  // cap above 0
  void (*clamp)(const float* x, float limit, float* out, size_t n);  // limit at least 0
  void (*add)(const float* a, const float* b, float* out, size_t n);
  void (*mul)(const float* a, const float* b, float* out, size_t n);
  void (*scale)(const float* x, float factor, float* out, size_t n);
  void (*add_scaled)(const float* x, float factor, float* out, size_t n);  // out = MulAdd(x, factor, out)
};

// REQUIRES: IsBuilt(variant).
const ActivationTable& GetActivationTable(Variant variant);

}  // namespace moonlit
