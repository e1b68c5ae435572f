// SPDX-License-Identifier: Apache-2.0
#include "runtime/xnnpack/float_product.h"

#include <xnnpack.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/base/check.h"
#include "kernels/base/round.h"
#include "runtime/tensor/buffer.h"
#include "runtime/xnnpack/slice_pool.h"

namespace moonlit {
namespace {

// XNNPACK computes sizes without overflow checks; far above any model's, far below where they would matter.
constexpr size_t kMaxDimension = size_t{1} << 24;
// An operator takes 2 KiB a slice and thread: little beside a slice's weights.
constexpr size_t kSliceBytes = size_t{1} << 20;
constexpr size_t kMostSliceOutputs = 512;
constexpr size_t kAlignment = 128;
// Columns are padded to at most this (an operator's kr * sr); Pack refuses an operator that wants more room than that gives.
constexpr size_t kInputUnit = 4;

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

// Where the weights of a slice lie, for XNNPACK: a cache of packed weights with one entry, in the caller's memory. An operator
// asks it for room to pack into, or finds the weights there and packs nothing. It must outlive its operators.
class SlicePlace {
 public:
  SlicePlace(uint8_t* memory, size_t bytes, bool packed) : memory_(memory), bytes_(bytes), packed_(packed) {
    provider_.context = this;
    provider_.look_up = [](void* self, const xnn_weights_cache_look_up_key*) { return Of(self).Find(); };
    provider_.reserve_space = [](void* self, size_t bytes) -> void* { return Of(self).Reserve(bytes); };
    provider_.look_up_or_insert = [](void* self, const xnn_weights_cache_look_up_key*, void*, size_t) {
      Of(self).packed_ = true;
      return size_t{0};
    };
    provider_.is_finalized = [](void*) { return true; };
    provider_.offset_to_addr = [](void* self, size_t offset) -> void* { return Of(self).memory_ + offset; };
    provider_.delete_cache = [](void*) { return xnn_status_success; };
  }
  SlicePlace(const SlicePlace&) = delete;
  SlicePlace& operator=(const SlicePlace&) = delete;

  xnn_weights_cache_t provider() { return &provider_; }

 private:
  static SlicePlace& Of(void* self) { return *static_cast<SlicePlace*>(self); }
  size_t Find() const { return packed_ ? 0 : std::numeric_limits<size_t>::max(); }
  void* Reserve(size_t bytes) const { return !packed_ && bytes <= bytes_ ? memory_ : nullptr; }

  xnn_weights_cache_provider provider_{};
  uint8_t* memory_;
  size_t bytes_;
  bool packed_;
};

Result<Operator> CreateOperator(SlicePlace& place, const void* rows, size_t outputs, size_t inputs, size_t input_stride,
                                size_t output_stride) {
  xnn_operator_t op = nullptr;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const xnn_status status = xnn_create_fully_connected_nc_f32(
      inputs, outputs, input_stride, output_stride, static_cast<const float*>(rows), /*bias=*/nullptr, -kInfinity,
      kInfinity, /*flags=*/0, /*code_cache=*/nullptr, place.provider(), &op);
  MOONLIT_RETURN_IF_ERROR(ToStatus(status, "pack the weights"));
  return Operator(op);
}

size_t SliceBytes(size_t outputs, size_t inputs) {
  return RoundUp(RoundUp(outputs, FloatProduct::kUnit) * (RoundUp(inputs, kInputUnit) + 1) * sizeof(float), kAlignment);
}

Status CheckShape(const FloatProductShape& shape) {
  if (shape.inputs != 0 && shape.outputs != 0 && shape.inputs <= kMaxDimension && shape.outputs <= kMaxDimension) {
    return Status();
  }
  return Errorf(Code::kInvalidArgument, "float product: %zu outputs of %zu inputs; both must be 1 to %zu",
                shape.outputs, shape.inputs, kMaxDimension);
}

// One operator, of one slice and thread. It is set up anew for every call, and told the rows when their number changes.
class SliceOperator {
 public:
  explicit SliceOperator(Operator op) : op_(std::move(op)) {}

  // `y`: where the operator's output 0 of row 0 would lie.
  void Run(pthreadpool& pool, size_t rows, const float* x, float* y) {
    if (rows != rows_) MOONLIT_CHECK(xnn_reshape_fully_connected_nc_f32(op_.get(), rows, &pool) == xnn_status_success);
    rows_ = rows;
    MOONLIT_CHECK(xnn_setup_fully_connected_nc_f32(op_.get(), x, y) == xnn_status_success);
    MOONLIT_CHECK(xnn_run_operator(op_.get(), &pool) == xnn_status_success);
  }

 private:
  Operator op_;
  size_t rows_ = 0;
};

Status PackSlice(const FloatProductShape& shape, const FloatLayout& layout, size_t slice, const float* rows,
                 uint8_t* packed) {
  const size_t outputs = layout.outputs_of(slice, shape.outputs);
  SlicePlace place(packed + slice * layout.slice_bytes, SliceBytes(outputs, shape.inputs), /*packed=*/false);
  return CreateOperator(place, rows, outputs, shape.inputs, shape.inputs, outputs).status();
}

struct Slice {
  std::unique_ptr<SlicePlace> place;     // outlives the operators
  std::vector<SliceOperator> operators;  // [threads]
};

}  // namespace

struct FloatProduct::Rep {
  FloatLayout layout;
  std::vector<Slice> slices;
  size_t tile_rows;
  std::string name;
};

Result<FloatProduct> FloatProduct::Bind(const FloatProductShape& shape, const uint8_t* packed, size_t input_stride,
                                        size_t threads) {
  auto rep = std::make_unique<Rep>();
  rep->layout = LayOut(shape);
  const FloatLayout& layout = rep->layout;
  for (size_t s = 0; s < layout.slices; ++s) {
    const size_t outputs = layout.outputs_of(s, shape.outputs);
    // XNNPACK's interface has no const here; packed weights are not written.
    uint8_t* memory = const_cast<uint8_t*>(packed) + s * layout.slice_bytes;
    Slice slice;
    slice.place = std::make_unique<SlicePlace>(memory, SliceBytes(outputs, shape.inputs), /*packed=*/true);
    for (size_t t = 0; t < threads; ++t) {
      MOONLIT_ASSIGN_OR_RETURN(
          Operator op, CreateOperator(*slice.place, memory, outputs, shape.inputs, input_stride, layout.output_stride));
      slice.operators.emplace_back(std::move(op));
    }
    rep->slices.push_back(std::move(slice));
  }
  pthreadpool look;  // makes nothing
  rep->slices[0].operators[0].Run(look, kUnit, nullptr, nullptr);
  rep->tile_rows = look.tile_rows;
  rep->name = "xnnpack_f32_" + std::to_string(look.tile_rows) + "x" + std::to_string(look.tile_outputs);
  return FloatProduct(std::move(rep));
}

FloatProduct::FloatProduct(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
FloatProduct::FloatProduct(FloatProduct&&) noexcept = default;
FloatProduct& FloatProduct::operator=(FloatProduct&&) noexcept = default;
FloatProduct::~FloatProduct() = default;

FloatLayout FloatProduct::LayOut(const FloatProductShape& shape) {
  FloatLayout layout{};
  const size_t fit = RoundUp(kSliceBytes / (shape.inputs * sizeof(float)), kUnit);
  layout.slice_outputs = std::clamp(fit, kUnit, kMostSliceOutputs);
  // What is left over goes with the last slice: for fewer outputs than a kernel's tile XNNPACK would take another kernel.
  layout.slices = std::max<size_t>(1, shape.outputs / layout.slice_outputs);
  layout.slice_bytes = SliceBytes(layout.slice_outputs, shape.inputs);
  const size_t last = layout.outputs_of(layout.slices - 1, shape.outputs);
  layout.output_stride = RoundUp(std::max(last, kUnit), kUnit) + kAlignment / sizeof(float);
  layout.bytes = (layout.slices - 1) * layout.slice_bytes + SliceBytes(last, shape.inputs);
  return layout;
}

Status FloatProduct::Available() {
  static const Status status = [] {
    MOONLIT_RETURN_IF_ERROR(ToStatus(xnn_initialize(/*allocator=*/nullptr), "start"));
    // With tails in every direction; and so few outputs that XNNPACK takes its other kernel.
    for (const FloatProductShape& shape : {FloatProductShape{83, 131}, FloatProductShape{5, 131}}) {
      MOONLIT_RETURN_IF_ERROR(ProveRowsIndependent(shape));
    }
    return Status();
  }();
  return status;
}

// Whether a row's bits are the same alone and as one of up to kRows rows. XNNPACK's tiles have at most 16 rows, so 17 rows pass
// through every tile it chooses among, and through a tail of one.
Status FloatProduct::ProveRowsIndependent(const FloatProductShape& shape) {
  constexpr size_t kRows = 17;
  const FloatLayout layout = LayOut(shape);
  std::vector<float> weights(shape.outputs * shape.inputs), x(kRows * shape.inputs + kReadablePast);
  uint32_t state = 1;
  // Magnitudes from 2^-8 to 2^8, so that another order of additions shows in the last bits.
  const auto next = [&state] {
    state = state * 1664525u + 1013904223u;
    const float mantissa = static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f;
    return mantissa * static_cast<float>(1u << ((state >> 9) & 15)) * 0x1p-8f;
  };
  for (float& w : weights) w = next();
  for (float& v : x) v = next();
  MOONLIT_ASSIGN_OR_RETURN(Buffer packed, Buffer::Allocate(layout.bytes, "the probe of float products"));
  MOONLIT_RETURN_IF_ERROR(PackSlice(shape, layout, 0, weights.data(), packed.data()));
  MOONLIT_ASSIGN_OR_RETURN(const FloatProduct product, Bind(shape, packed.data(), shape.inputs, 1));
  const size_t stride = layout.output_stride;
  std::vector<float> alone(kRows * stride), together(kRows * stride);
  for (size_t unit = 0; unit < CeilDiv(shape.outputs, kUnit); ++unit) {
    for (size_t r = 0; r < kRows; ++r) product.Run(0, unit, 1, &x[r * shape.inputs], &alone[r * stride]);
    for (size_t rows = 2; rows <= kRows; ++rows) {
      product.Run(0, unit, rows, x.data(), together.data());
      if (std::memcmp(alone.data(), together.data(), rows * stride * sizeof(float)) == 0) continue;
      return Errorf(Code::kUnsupported,
                    "float products by XNNPACK: not offered, since on this processor a row has other bits among %zu "
                    "rows than alone",
                    rows);
    }
  }
  return Status();
}

Status FloatProduct::Pack(const FloatProductShape& shape, size_t slice, const float* rows, uint8_t* packed) {
  MOONLIT_RETURN_IF_ERROR(Available());
  MOONLIT_RETURN_IF_ERROR(CheckShape(shape));
  return PackSlice(shape, LayOut(shape), slice, rows, packed);
}

Result<FloatProduct> FloatProduct::Create(const FloatProductShape& shape, const uint8_t* packed, size_t input_stride,
                                          size_t threads) {
  MOONLIT_RETURN_IF_ERROR(Available());
  MOONLIT_RETURN_IF_ERROR(CheckShape(shape));
  return Bind(shape, packed, input_stride, threads);
}

void FloatProduct::Run(size_t thread, size_t unit, size_t rows, const float* x, float* y) const {
  const FloatLayout& layout = rep_->layout;
  const size_t slice = std::min(unit * kUnit / layout.slice_outputs, layout.slices - 1);
  const size_t first = unit * kUnit - slice * layout.slice_outputs;
  pthreadpool pool{.first = first, .end = first + kUnit};
  // The operator adds `first` outputs to the address again.
  float* origin = reinterpret_cast<float*>(reinterpret_cast<uintptr_t>(y) - first * sizeof(float));
  rep_->slices[slice].operators[thread].Run(pool, rows, x, origin);
}

const FloatLayout& FloatProduct::layout() const { return rep_->layout; }
size_t FloatProduct::tile_rows() const { return rep_->tile_rows; }
const std::string& FloatProduct::name() const { return rep_->name; }

}  // namespace moonlit
