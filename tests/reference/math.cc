// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/math.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/float16.h"
#include "kernels/matmul/reference.h"

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

// What the fast path had in place of x.
std::vector<float> Seen(const Vector& x, Rounding& rounding) {
  double largest = 0;
  for (double value : x) largest = std::max(largest, std::fabs(value));
  std::vector<float> seen;
  for (size_t g = 0; g < x.size(); g += kA8Group) {
    const size_t n = std::min(kA8Group, x.size() - g);
    const SeenGroups::Group* group = rounding.seen->Find(x.data() + g, n, rounding.seen_margin * largest);
    if (group == nullptr) ++rounding.unseen;
    for (size_t i = 0; i < n; ++i) seen.push_back(group != nullptr ? (*group)[i] : static_cast<float>(x[g + i]));
  }
  return seen;
}

Vector RoundToA8(const Vector& x, bool two_terms, Rounding& rounding) {
  std::vector<float> term = Seen(x, rounding);
  const size_t k = x.size(), groups = (k + kA8Group - 1) / kA8Group;
  std::vector<int8_t> q(groups * kA8Group);
  std::vector<float> scale(groups);
  std::vector<int32_t> minus_sum(2 * groups);
  Vector y(k);
  for (int terms = two_terms ? 2 : 1; terms > 0; --terms) {
    ReferenceQuantizeA8(term.data(), k, q.data(), scale.data(), minus_sum.data());
    for (size_t i = 0; i < k; ++i) y[i] += double{scale[i / kA8Group]} * q[i];
    const std::vector<float> whole = term;
    ReferenceLostByA8(whole.data(), k, q.data(), scale.data(), term.data());
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
  m.format = info->format;
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

Vector MultiplyRows(const Matrix& w, size_t first, size_t rows, const Vector& x, Rounding* rounding, bool two_terms) {
  const bool in_bf16 = rounding != nullptr && rounding->halves_as_bf16 && w.half;
  Vector input = x;
  if (in_bf16) input = RoundToBF16(x, *rounding);
  if (rounding != nullptr && w.quantized) input = RoundToA8(x, two_terms, *rounding);
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
