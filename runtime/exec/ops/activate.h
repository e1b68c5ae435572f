// SPDX-License-Identifier: Apache-2.0
// From the graph's kinds of activation to the kernels' functions.
#pragma once

#include "kernels/activation/activation.h"
#include "runtime/graph/graph.h"

namespace moonlit {

// out = f(x); out may be x. [n]
inline void Activate(const ActivationTable& table, ActivationKind kind, const float* x, float* out, size_t n) {
  switch (kind) {
    case ActivationKind::kSilu:
      return table.silu(x, out, n);
    case ActivationKind::kGelu:
      return table.gelu(x, out, n);
    case ActivationKind::kGeluTanh:
      return table.gelu_tanh(x, out, n);
    case ActivationKind::kReluSquared:
      return table.relu_squared(x, out, n);
  }
}

// out = f(gate) * up; out may be either. [n]
inline void ActivateGate(const ActivationTable& table, ActivationKind kind, const float* gate, const float* up,
                         float* out, size_t n) {
  switch (kind) {
    case ActivationKind::kSilu:
      return table.swiglu(gate, up, out, n);
    case ActivationKind::kGelu:
      return table.geglu(gate, up, out, n);
    case ActivationKind::kGeluTanh:
      return table.geglu_tanh(gate, up, out, n);
    case ActivationKind::kReluSquared:
      return table.reglu_squared(gate, up, out, n);
  }
}

}  // namespace moonlit
