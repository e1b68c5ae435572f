// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/math.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/float16.h"

namespace moonlit::reference {
namespace {

// round-to-nearest, ties by `rounding`.
double RoundStep(double steps, Rounding& rounding) {
  const double below = std::floor(steps);
  const double part = steps - below;
  bool up = part > 0.5;
  if (std::fabs(part - 0.5) < rounding.tie_margin && rounding.flipped.contains(rounding.ties++)) up = !up;
  return up ? below + 1 : below;
}

// Groups of 32: scale = max|x| / 127, q = round(x * (127 / max|x|)), as kernels/matmul/a8.h defines it.
Vector RoundToA8(const Vector& x, Rounding& rounding) {
  Vector y(x.size());
  for (size_t g = 0; g < x.size(); g += 32) {
    const size_t end = std::min(x.size(), g + 32);
    double largest = 0;
    for (size_t i = g; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
    if (largest == 0) continue;
    for (size_t i = g; i < end; ++i) y[i] = largest / 127 * RoundStep(x[i] * 127 / largest, rounding);
  }
  return y;
}

// Eight bits of the magnitude are kept.
Vector RoundToBF16(const Vector& x, Rounding& rounding) {
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == 0) continue;
    const double step = std::ldexp(1.0, std::ilogb(x[i]) - 7);
    y[i] = std::copysign(RoundStep(std::fabs(x[i]) / step, rounding) * step, x[i]);
  }
  return y;
}

}  // namespace

Result<Matrix> ReadMatrix(const WeightSource& source, const std::string& name) {
  const TensorInfo* info = source.Find(name);
  if (info == nullptr) return Errorf(Code::kNotFound, "reference: no tensor %s", name.c_str());
  Matrix m;
  m.rows = info->shape.rows();
  m.columns = info->shape.columns();
  m.quantized = Traits(info->format).codes != nullptr;
  m.half = info->format == Format::kF16 || info->format == Format::kBF16;
  std::vector<uint8_t> bytes(info->bytes);
  MOONLIT_RETURN_IF_ERROR(source.Read(*info, 0, bytes.data(), bytes.size()));
  m.values.resize(m.rows * m.columns);
  const size_t row_bytes = RowBytes(info->format, m.columns);
  for (size_t r = 0; r < m.rows; ++r) {
    Traits(info->format).dequantize(bytes.data() + r * row_bytes, m.values.data() + r * m.columns, m.columns);
  }
  return m;
}

Vector MultiplyRows(const Matrix& w, size_t first, size_t rows, const Vector& x, Rounding* rounding) {
  const bool in_bf16 = rounding != nullptr && rounding->halves_as_bf16 && w.half;
  Vector input = x;
  if (in_bf16) input = RoundToBF16(x, *rounding);
  if (rounding != nullptr && w.quantized) input = RoundToA8(x, *rounding);
  Vector y(rows);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < w.columns; ++c) {
      const float value = w.values[(first + r) * w.columns + c];
      y[r] += double{in_bf16 ? F32FromBF16(BF16FromF32(value)) : value} * input[c];
    }
  }
  return y;
}

Vector RmsNorm(const double* x, size_t n, const float* weight, double eps) {
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += x[i] * x[i];
  const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(n) + eps);
  Vector y(n);
  for (size_t i = 0; i < n; ++i) y[i] = x[i] * inverse * (weight != nullptr ? double{weight[i]} : 1);
  return y;
}

Vector LayerNorm(const double* x, size_t n, const float* weight, const float* bias, double eps) {
  double mean = 0, squares = 0;
  for (size_t i = 0; i < n; ++i) mean += x[i] / static_cast<double>(n);
  for (size_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
  const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(n) + eps);
  Vector y(n);
  for (size_t i = 0; i < n; ++i) {
    y[i] = (x[i] - mean) * inverse * (weight != nullptr ? double{weight[i]} : 1);
    if (bias != nullptr) y[i] += double{bias[i]};
  }
  return y;
}

double Apply(Curve curve, double x) {
  switch (curve) {
    case Curve::kSilu:
      return x / (1.0 + std::exp(-x));
    case Curve::kGelu:
      return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
    case Curve::kGeluTanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    default:
      return x > 0 ? x * x : 0;
  }
}

void Rotate(const Rotation& rotation, double position, double* head) {
  if (rotation.pairs == Rotation::kNone) return;
  const size_t half = rotation.rotated / 2;
  for (size_t i = 0; i < half; ++i) {
    double theta = std::pow(rotation.base, -2.0 * static_cast<double>(i) / static_cast<double>(rotation.rotated));
    if (rotation.factors != nullptr) theta /= double{rotation.factors[i]};
    const double angle = position * rotation.scale * theta;
    double& a = rotation.pairs == Rotation::kHalves ? head[i] : head[2 * i];
    double& b = rotation.pairs == Rotation::kHalves ? head[i + half] : head[2 * i + 1];
    const double cosine = std::cos(angle) * rotation.magnitude, sine = std::sin(angle) * rotation.magnitude;
    const double rotated_a = a * cosine - b * sine;
    b = a * sine + b * cosine;
    a = rotated_a;
  }
}

}  // namespace moonlit::reference
