// SPDX-License-Identifier: Apache-2.0
#include "runtime/xnnpack/float_product.h"

#include <xnnpack.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace moonlit {
namespace {

constexpr size_t kDefaultSliceOutputs = 64;
// XNNPACK computes sizes without overflow checks; far above any model's, far below where they would matter.
constexpr size_t kMaxDimension = size_t{1} << 24;

Status ToStatus(xnn_status status, const char* step) {
  switch (status) {
    case xnn_status_success:
      return Status();
    case xnn_status_out_of_memory:
      return Errorf(Code::kOutOfMemory, "float product: XNNPACK found no memory to %s", step);
    case xnn_status_unsupported_hardware:
    case xnn_status_unsupported_parameter:
      return Errorf(Code::kUnsupported, "float product: XNNPACK can't %s on this processor", step);
    default:
      return Errorf(Code::kInternal, "float product: XNNPACK failed to %s (its status %d)", step,
                    static_cast<int>(status));
  }
}

struct OperatorDeleter {
  void operator()(xnn_operator_t op) const { xnn_delete_operator(op); }
};
using Operator = std::unique_ptr<xnn_operator, OperatorDeleter>;

Result<Operator> CreateOperator(const float* weights, size_t outputs, size_t inputs, size_t input_stride,
                                size_t output_stride) {
  xnn_operator_t op = nullptr;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const xnn_status status = xnn_create_fully_connected_nc_f32(inputs, outputs, input_stride, output_stride, weights,
                                                              /*bias=*/nullptr, -kInfinity, kInfinity, /*flags=*/0,
                                                              /*code_cache=*/nullptr, /*weights_cache=*/nullptr, &op);
  MOONLIT_RETURN_IF_ERROR(ToStatus(status, "pack the weights"));
  return Operator(op);
}

Status RunOperator(xnn_operator_t op, size_t rows, const float* x, float* y) {
  if (rows == 0) return Status();
  MOONLIT_RETURN_IF_ERROR(
      ToStatus(xnn_reshape_fully_connected_nc_f32(op, rows, /*threadpool=*/nullptr), "take the rows"));
  MOONLIT_RETURN_IF_ERROR(ToStatus(xnn_setup_fully_connected_nc_f32(op, x, y), "take the operands"));
  return ToStatus(xnn_run_operator(op, /*threadpool=*/nullptr), "run");
}

// Whether a row's bits are the same alone and as one of up to kRows rows, with sizes that leave tails in every direction.
// XNNPACK's tiles have at most 16 rows, so 17 rows pass through every tile it chooses among, and through a tail of one.
Status ProveRowsIndependent() {
  constexpr size_t kRows = 17, kInputs = 131, kOutputs = 83;
  std::vector<float> weights(kOutputs * kInputs), x(kRows * kInputs + FloatProduct::kReadablePast);
  uint32_t state = 1;
  // Magnitudes from 2^-8 to 2^8, so that another order of additions shows in the last bits.
  const auto next = [&state] {
    state = state * 1664525u + 1013904223u;
    const float mantissa = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
    return mantissa * static_cast<float>(1u << ((state >> 9) & 15)) * 0x1p-8f;
  };
  for (float& w : weights) w = next();
  for (float& v : x) v = next();
  MOONLIT_ASSIGN_OR_RETURN(Operator op, CreateOperator(weights.data(), kOutputs, kInputs, kInputs, kOutputs));
  std::vector<float> alone(kRows * kOutputs), together(kRows * kOutputs);
  for (size_t r = 0; r < kRows; ++r) {
    MOONLIT_RETURN_IF_ERROR(RunOperator(op.get(), 1, &x[r * kInputs], &alone[r * kOutputs]));
  }
  for (size_t rows = 2; rows <= kRows; ++rows) {
    MOONLIT_RETURN_IF_ERROR(RunOperator(op.get(), rows, x.data(), together.data()));
    if (std::memcmp(alone.data(), together.data(), rows * kOutputs * sizeof(float)) != 0) {
      return Errorf(
          Code::kUnsupported,
          "float products by XNNPACK: not offered, since on this processor a row has other bits among %zu rows than "
          "alone",
          rows);
    }
  }
  return Status();
}

Status FindAvailable() {
  MOONLIT_RETURN_IF_ERROR(ToStatus(xnn_initialize(/*allocator=*/nullptr), "start"));
  return ProveRowsIndependent();
}

}  // namespace

struct FloatProduct::Rep {
  std::vector<Operator> slices;
  size_t slice_outputs = 0;
};

FloatProduct::FloatProduct(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
FloatProduct::FloatProduct(FloatProduct&&) noexcept = default;
FloatProduct& FloatProduct::operator=(FloatProduct&&) noexcept = default;
FloatProduct::~FloatProduct() = default;

Status FloatProduct::Available() {
  static const Status status = FindAvailable();
  return status;
}

Result<FloatProduct> FloatProduct::Create(const float* weights, const FloatProductShape& shape, size_t slice_outputs) {
  MOONLIT_RETURN_IF_ERROR(Available());
  const size_t input_stride = shape.input_stride == 0 ? shape.inputs : shape.input_stride;
  const size_t output_stride = shape.output_stride == 0 ? shape.outputs : shape.output_stride;
  if (shape.inputs == 0 || shape.outputs == 0 || shape.inputs > kMaxDimension || shape.outputs > kMaxDimension) {
    return Errorf(Code::kInvalidArgument, "float product: %zu outputs of %zu inputs; both must be 1 to %zu",
                  shape.outputs, shape.inputs, kMaxDimension);
  }
  if (input_stride < shape.inputs || output_stride < shape.outputs || input_stride > kMaxDimension ||
      output_stride > kMaxDimension) {
    return Errorf(Code::kInvalidArgument,
                  "float product: strides %zu and %zu do not fit rows of %zu inputs and %zu outputs", input_stride,
                  output_stride, shape.inputs, shape.outputs);
  }
  if (weights == nullptr) return Status(Code::kInvalidArgument, "float product: no weights");
  auto rep = std::make_unique<Rep>();
  rep->slice_outputs = slice_outputs == 0 ? kDefaultSliceOutputs : slice_outputs;
  for (size_t first = 0; first < shape.outputs; first += rep->slice_outputs) {
    const size_t count = std::min(rep->slice_outputs, shape.outputs - first);
    MOONLIT_ASSIGN_OR_RETURN(
        Operator op, CreateOperator(weights + first * shape.inputs, count, shape.inputs, input_stride, output_stride));
    rep->slices.push_back(std::move(op));
    if (count < rep->slice_outputs) break;
  }
  return FloatProduct(std::move(rep));
}

size_t FloatProduct::slices() const { return rep_->slices.size(); }

Status FloatProduct::Run(size_t slice, size_t rows, const float* x, float* y) {
  MOONLIT_CHECK(slice < rep_->slices.size());
  return RunOperator(rep_->slices[slice].get(), rows, x, y + slice * rep_->slice_outputs);
}

}  // namespace moonlit
