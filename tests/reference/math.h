// SPDX-License-Identifier: Apache-2.0
// Plain arithmetic of the judge, in double: weights as floats, products, norms, activations.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/weights/weight_source.h"
#include "tests/reference/forward.h"

namespace moonlit::reference {

using Vector = std::vector<double>;

struct Matrix {
  size_t rows = 0, columns = 0;
  Format format{};
  bool quantized = false;     // multiplied with A8 activations by the fast path
  bool half = false;          // F16 or BF16
  std::vector<float> values;  // [rows, columns]
};

Result<Matrix> ReadMatrix(const WeightSource& source, const std::string& name);

// Rows [first, first + rows) of w times x. two_terms: what rounding to A8 loses is rounded too, and added.
Vector MultiplyRows(const Matrix& w, size_t first, size_t rows, const Vector& x, Rounding* rounding,
                    bool two_terms = false);

// Of n values at x; weight and bias may be null.
Vector RmsNorm(const double* x, size_t n, const float* weight, double eps);
Vector LayerNorm(const double* x, size_t n, const float* weight, const float* bias, double eps);

enum class Curve { kSilu, kGelu, kGeluTanh, kReluSquared };
double Apply(Curve curve, double x);

// Rotates pairs of the first `rotated` elements by position * frequency (Su et al. 2021, arXiv:2104.09864).
struct Rotation {
  enum Pairs { kNone, kNeighbours, kHalves } pairs;
  size_t rotated;
  double base, scale, magnitude;  // scale multiplies positions, magnitude the result
  const float* factors;           // divide the frequencies; may be null
};
void Rotate(const Rotation& rotation, double position, double* head);

}  // namespace moonlit::reference
