// SPDX-License-Identifier: Apache-2.0
// out = f(x gate^T) * (x up^T), tile by tile: both products of a run of outputs go to the thread's scratch, and what leaves is
// their gated product, or f of the one product that there is, as A8 where the next product reads that and a task owns whole groups of 32.
#include <algorithm>
#include <numeric>

#include "runtime/exec/ops/activate.h"
#include "runtime/exec/ops/low_rank.h"
#include "runtime/exec/stage.h"
#include "runtime/exec/tiling.h"

namespace moonlit {
namespace {

class GatedProductsStage : public ExecStage {
 public:
  GatedProductsStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        tail_(stage.tail),
        exact_(b.options->exact),
        input_(b.inputs[stage.input]),
        gate_(b.weights->matrix(stage.parts[0].weight)),
        up_(b.weights->matrix(stage.parts.back().weight)),
        gate_bias_(b.weights->vector(stage.parts[0].bias)),
        up_bias_(b.weights->vector(stage.parts.back().bias)),
        gated_(stage.parts.size() > 1),
        activation_(stage.gate),
        out_(b.inputs[stage.output]),
        out_floats_(b.values[stage.output]),
        a8_(out_floats_.data == nullptr),
        unit_(GatedUnitOutputs(gate_, up_, a8_)),
        addends_(b, stage) {}

  size_t Begin() override {
    rows_ = b_.step->range(tail_);
    TilingInput cut = gate_.Cut(exact_);
    cut.rows = rows_.count();
    if (gated_) cut.bytes_per_row = std::max(cut.bytes_per_row, up_.Cut(exact_).bytes_per_row);
    cut.unit_outputs = unit_;
    cut.unit_bytes = unit_ / gate_.n_tile * gate_.tile_bytes + (gated_ ? unit_ / up_.n_tile * up_.tile_bytes : 0);
    cut.units = CeilDiv(gate_.n, unit_);
    cut.threads = b_.threads;
    cut.max_task_floats = kGateScratchFloats;
    tiling_ = ChooseTiling(cut);
    return tiling_.tasks();
  }

  void Run(size_t task, size_t thread) override {
    const size_t first_row = rows_.first + tiling_.first_row(task);
    const size_t rows = std::min(tiling_.rows_per_block, rows_.end - first_row);
    const size_t first = tiling_.first_unit(task) * unit_;
    const size_t end = std::min(gate_.n, first + tiling_.units_per_task * unit_);
    const size_t stride = tiling_.units_per_task * unit_;
    float* gate = b_.scratch.floats(thread);
    float* up = gate + kGateScratchFloats;
    Multiply(gate_, gate_bias_, first_row, rows, first, end, gate, stride, thread);
    if (gated_) Multiply(up_, up_bias_, first_row, rows, first, end, up, stride, thread);
    for (size_t r = 0; r < rows && addends_.any(); ++r) {
      addends_.Add(0, first_row + r, first, end, gate + r * stride);
      if (gated_) addends_.Add(1, first_row + r, first, end, up + r * stride);
    }
    for (size_t r = 0; r < rows; ++r) {
      float* out = a8_ ? gate + r * stride : out_floats_.row(first_row + r) + first;
      if (gated_) {
        ActivateGate(*b_.activations, activation_, gate + r * stride, up + r * stride, out, end - first);
      } else {
        Activate(*b_.activations, activation_, gate + r * stride, out, end - first);
      }
    }
    if (a8_) b_.products->quantize_a8(gate, stride, rows, end - first, A8From(out_.a8, first_row, first / kA8Group));
  }

  std::string Describe() const override {
    std::string text = std::string(gated_ ? "gated_products" : "activated_product") + (a8_ ? " a8" : " f32");
    return text + gate_.Describe(exact_) + (gated_ ? up_.Describe(exact_) : "");
  }

 private:
  void Multiply(const PackedMatrix& m, const float* bias, size_t first_row, size_t rows, size_t first, size_t end,
                float* out, size_t stride, size_t thread) const {
    ProductArgs args{};
    args.k = m.k;
    args.n = m.n;
    args.weights = m.data;
    args.tile_begin = first / m.n_tile;
    args.tile_end = CeilDiv(end, m.n_tile);
    args.rows = rows;
    if (ReadsA8(m, exact_)) {
      args.a8 = A8From(input_.a8, first_row, 0);
    } else {
      args.x = input_.floats.row(first_row);
      args.x_stride = input_.floats.stride;
    }
    args.out = out;
    args.out_stride = stride;
    args.out_first = first;
    args.bias = bias;
    m.Multiply(args, exact_, thread);
  }

  const Bindings& b_;
  bool tail_;
  bool exact_;
  const ProductInput& input_;
  const PackedMatrix& gate_;
  const PackedMatrix& up_;  // gate_ where there is no second product
  const float* gate_bias_;
  const float* up_bias_;
  bool gated_;
  ActivationKind activation_;
  const ProductInput& out_;
  FloatRows out_floats_;
  bool a8_;
  size_t unit_;
  LowRankAddends addends_;
  RowRange rows_{};
  Tiling tiling_{};
};

}  // namespace

size_t GatedUnitOutputs(const PackedMatrix& gate, const PackedMatrix& up, bool a8) {
  const size_t tiles = std::lcm(gate.n_tile, up.n_tile);
  return a8 ? std::lcm(tiles, 2 * kA8Group) : tiles;
}

bool GatedOutputIsA8(const PackedMatrix& gate, const PackedMatrix& up, bool exact, bool output_wants_floats) {
  return !exact && !output_wants_floats && GatedUnitOutputs(gate, up, true) <= 1024;
}

std::unique_ptr<ExecStage> MakeGatedProductsStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<GatedProductsStage>(bindings, stage);
}

}  // namespace moonlit
