// SPDX-License-Identifier: Apache-2.0
// The products of experts. Rows are gathered by expert, so that the packed kernels see neighbouring rows as everywhere else.
//
//   gather  tasks are runs of slots (expert_groups.h). A lone row is read where it lies.
//   gated   tasks (block of slots, run of outputs), as gated_products.cc does it
//   down    tasks (run of outputs), each with all rows and experts: a row's results are added up where they are stored, by
//           ascending expert, and never exist one by one. Every task has the same work, however the rows are shared out.
//
// The number of blocks is known only when the rows have chosen, but a stage's tasks are counted before the step starts: so a
// stage has tasks for as many blocks as there can be, and those without a block end at once.
#include <algorithm>
#include <cstring>

#include "runtime/exec/ops/activate.h"
#include "runtime/exec/ops/expert_groups.h"
#include "runtime/exec/stage.h"
#include "runtime/exec/tiling.h"

namespace moonlit {
namespace {

std::string DescribeExperts(const PackedMatrix& m, bool exact) {
  return std::string(" ") + m.name + " " + std::to_string(m.experts) + " x [" + std::to_string(m.n) + ", " +
         std::to_string(m.k) + "] " + (exact ? "exact" : m.kernel->name) + " " +
         std::to_string(m.experts * m.tiles * m.tile_bytes) + " bytes";
}

// The first row of each.
void CopyA8Row(const A8View& from, const A8View& to, size_t k) {
  for (size_t g = 0; g < CeilDiv(k, kA8Group); ++g) {
    std::memcpy(A8Values(to, 0, g), A8Values(from, 0, g), kA8Group);
    *A8Scale(to, 0, g) = *A8Scale(from, 0, g);
    for (size_t half : {size_t{0}, size_t{1}}) *A8MinusSum(to, 0, g, half) = *A8MinusSum(from, 0, g, half);
  }
}

// Some neighbouring rows of one expert, in the form that a product reads.
struct ExpertRows {
  size_t expert;
  size_t count;
  A8View a8;
  const float* x;
  size_t x_stride;
};

class ExpertsStage : public ExecStage {
 protected:
  ExpertsStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        exact_(b.options->exact),
        weigh_inputs_(stage.experts.weigh_inputs),
        place_(b.experts_places[stage.experts_index]),
        groups_(*place_.groups) {}

  // A lone row needs no gathering, unless each of its experts sees it multiplied by another weight.
  bool ReadsInPlace() const { return groups_.rows() == 1 && !weigh_inputs_; }

  ExpertRows Gathered(const ProductInput& in, const ExpertBlock& block) const {
    ExpertRows rows{block.expert, block.count, {}, nullptr, in.floats.stride};
    if (in.wants_a8) rows.a8 = A8From(groups_.A8Rows(in.a8_memory, block.expert, in.width), block.before, 0);
    if (in.wants_floats) rows.x = in.floats.row(block.first_slot);
    return rows;
  }

  // The rows' product with outputs [first, end) of their expert, into `out`.
  void Multiply(const PackedMatrix& m, const float* biases, const ExpertRows& rows, size_t first, size_t end,
                float* out, size_t stride) const {
    ProductArgs args{};
    args.k = m.k;
    args.n = m.n;
    args.weights = m.data + rows.expert * m.tiles * m.tile_bytes;
    args.tile_begin = first / m.kernel->n_tile;
    args.tile_end = CeilDiv(end, m.kernel->n_tile);
    args.rows = rows.count;
    if (ReadsA8(m, exact_)) {
      args.a8 = rows.a8;
    } else {
      args.x = rows.x;
      args.x_stride = rows.x_stride;
    }
    args.out = out;
    args.out_stride = stride;
    args.out_first = first;
    args.bias = biases == nullptr ? nullptr : biases + rows.expert * m.n;
    (exact_ ? m.kernel->multiply_exact : m.kernel->multiply)(args);
  }

  const Bindings& b_;
  bool exact_;
  bool weigh_inputs_;
  const Bindings::ExpertsPlace& place_;
  ExpertGroups& groups_;
};

class GatherExpertsStage : public ExpertsStage {
 public:
  GatherExpertsStage(const Bindings& b, const FusedStage& stage)
      : ExpertsStage(b, stage), input_(b.inputs[stage.input]) {}

  size_t Begin() override { return ReadsInPlace() ? 0 : CeilDiv(groups_.slots(), kSlotsPerTask); }

  void Run(size_t task, size_t thread) override {
    const size_t end = std::min(groups_.slots(), (task + 1) * kSlotsPerTask);
    for (size_t slot = task * kSlotsPerTask; slot < end; ++slot) Gather(slot, b_.scratch.floats(thread));
  }

  std::string Describe() const override { return weigh_inputs_ ? "gather_experts weighed" : "gather_experts"; }

 private:
  static constexpr size_t kSlotsPerTask = 16;

  void Gather(size_t slot, float* scratch) const {
    const ProductInput& out = place_.rows;
    const size_t row = groups_.slot_row(slot), expert = groups_.slot_expert(slot);
    A8View a8{};
    if (out.wants_a8) {
      a8 = A8From(groups_.A8Rows(out.a8_memory, expert, out.width), slot - groups_.first_slot(expert), 0);
    }
    if (weigh_inputs_) {
      float* weighed = out.wants_floats ? out.floats.row(slot) : scratch;
      b_.activations->scale(input_.floats.row(row), groups_.slot_weight(slot), weighed, out.width);
      if (out.wants_a8) b_.products->quantize_a8(weighed, out.width, 1, out.width, a8);
      return;
    }
    if (out.wants_floats) std::memcpy(out.floats.row(slot), input_.floats.row(row), out.width * sizeof(float));
    if (out.wants_a8) CopyA8Row(A8From(input_.a8, row, 0), a8, out.width);
  }

  const ProductInput& input_;
};

class GatedExpertsStage : public ExpertsStage {
 public:
  GatedExpertsStage(const Bindings& b, const FusedStage& stage)
      : ExpertsStage(b, stage),
        input_(b.inputs[stage.input]),
        gate_(b.weights->matrix(stage.parts[0].weight)),
        up_(b.weights->matrix(stage.parts[1].weight)),
        gate_bias_(b.weights->vector(stage.parts[0].bias)),
        up_bias_(b.weights->vector(stage.parts[1].bias)),
        activation_(stage.gate),
        unit_(GatedUnitOutputs(gate_, up_, place_.hidden.wants_a8)) {}

  size_t Begin() override {
    const size_t rows = groups_.rows();
    if (rows == 0) return 0;
    // The largest blocks are those of an expert that gets all rows; how many units a task has, the usual share says.
    const size_t block_rows = Choose(rows).rows_per_block;
    const size_t share = std::clamp<size_t>(groups_.slots() / groups_.most_active(), 1, block_rows);
    const size_t room = std::max<size_t>(kGateScratchFloats / (block_rows * unit_), 1);
    units_ = std::min(Choose(share).units_per_task, room);
    runs_ = CeilDiv(CeilDiv(gate_.n, unit_), units_);
    groups_.set_block_rows(block_rows);
    return groups_.MostBlocks(block_rows) * runs_;
  }

  void Run(size_t task, size_t thread) override {
    if (task / runs_ >= groups_.blocks()) return;
    const ExpertBlock& block = groups_.block(task / runs_);
    const ExpertRows rows = ReadsInPlace() ? InPlace(block) : Gathered(place_.rows, block);
    const size_t stride = units_ * unit_;
    const size_t first = task % runs_ * stride, end = std::min(gate_.n, first + stride);
    float* gate = b_.scratch.floats(thread);
    float* up = gate + kGateScratchFloats;
    Multiply(gate_, gate_bias_, rows, first, end, gate, stride);
    Multiply(up_, up_bias_, rows, first, end, up, stride);
    const ProductInput& out = place_.hidden;
    for (size_t r = 0; r < block.count; ++r) {
      float* row = out.wants_a8 ? gate + r * stride : out.floats.row(block.first_slot + r) + first;
      ActivateGate(*b_.activations, activation_, gate + r * stride, up + r * stride, row, end - first);
    }
    if (!out.wants_a8) return;
    const A8View a8 = groups_.A8Rows(out.a8_memory, block.expert, out.width);
    b_.products->quantize_a8(gate, stride, block.count, end - first, A8From(a8, block.before, first / kA8Group));
  }

  std::string Describe() const override {
    return (place_.hidden.wants_a8 ? "gated_experts a8" : "gated_experts f32") + DescribeExperts(gate_, exact_) +
           DescribeExperts(up_, exact_);
  }

 private:
  Tiling Choose(size_t rows) const {
    TilingInput cut = gate_.Cut(exact_);
    cut.rows = rows;
    cut.bytes_per_row = std::max(cut.bytes_per_row, up_.Cut(exact_).bytes_per_row);
    cut.unit_outputs = unit_;
    cut.unit_bytes = unit_ / gate_.n_tile * gate_.tile_bytes + unit_ / up_.n_tile * up_.tile_bytes;
    cut.units = CeilDiv(gate_.n, unit_);
    cut.threads = b_.threads;
    cut.max_task_floats = kGateScratchFloats;
    return ChooseTiling(cut);
  }

  ExpertRows InPlace(const ExpertBlock& block) const {
    const size_t row = groups_.first_row();
    ExpertRows rows{block.expert, 1, {}, nullptr, input_.floats.stride};
    if (input_.wants_a8) rows.a8 = A8From(input_.a8, row, 0);
    if (input_.wants_floats) rows.x = input_.floats.row(row);
    return rows;
  }

  const ProductInput& input_;
  const PackedMatrix &gate_, &up_;
  const float *gate_bias_, *up_bias_;
  ActivationKind activation_;
  size_t unit_;
  size_t units_ = 1, runs_ = 1;
};

class DownExpertsStage : public ExpertsStage {
 public:
  DownExpertsStage(const Bindings& b, const FusedStage& stage)
      : ExpertsStage(b, stage),
        down_(b.weights->matrix(stage.parts[0].weight)),
        bias_(b.weights->vector(stage.parts[0].bias)),
        addend_(stage.parts[0].addend == kNoValue ? FloatRows{} : b.values[stage.parts[0].addend]),
        out_(b.values[stage.parts[0].output]) {}

  size_t Begin() override {
    if (groups_.rows() == 0) return 0;
    const size_t n_tile = down_.kernel->n_tile;
    const size_t balanced = down_.tiles / (b_.threads * kTasksPerThread);
    const size_t worth = std::max(CeilDiv(kTaskBytes, down_.tile_bytes * groups_.most_active()), kTaskOutputs / n_tile);
    const size_t room = std::max<size_t>(2 * kGateScratchFloats / (groups_.block_rows() * n_tile), 1);
    tiles_ = std::clamp<size_t>(std::max(balanced, worth), 1, std::min(room, down_.tiles));
    return CeilDiv(down_.tiles, tiles_);
  }

  void Run(size_t task, size_t thread) override {
    const size_t stride = tiles_ * down_.kernel->n_tile;
    const size_t first = task * stride, end = std::min(down_.n, first + stride);
    float* products = b_.scratch.floats(thread);
    StartSums(first, end);
    for (size_t i = 0; i < groups_.blocks(); ++i) {
      const ExpertBlock& block = groups_.block(i);
      Multiply(down_, bias_, Gathered(place_.hidden, block), first, end, products, stride);
      for (size_t r = 0; r < block.count; ++r) {
        const size_t slot = block.first_slot + r;
        const float weight = weigh_inputs_ ? 1.0f : groups_.slot_weight(slot);
        b_.activations->add_scaled(products + r * stride, weight, out_.row(groups_.slot_row(slot)) + first,
                                   end - first);
      }
    }
  }

  std::string Describe() const override {
    return "down_experts" + DescribeExperts(down_, exact_) + (addend_.data != nullptr ? " + addend" : "");
  }

 private:
  static constexpr size_t kTasksPerThread = 8;
  static constexpr size_t kTaskBytes = size_t{64} << 10;  // with one row a task reads this much, or more
  static constexpr size_t kTaskOutputs = 64;              // so that activations are not read again too often

  void StartSums(size_t first, size_t end) const {
    for (size_t row = groups_.first_row(); row < groups_.first_row() + groups_.rows(); ++row) {
      float* out = out_.row(row) + first;
      if (addend_.data == nullptr) {
        std::fill(out, out + (end - first), 0.0f);
      } else if (addend_.data != out_.data) {
        std::memcpy(out, addend_.row(row) + first, (end - first) * sizeof(float));
      }
    }
  }

  const PackedMatrix& down_;
  const float* bias_;
  FloatRows addend_, out_;
  size_t tiles_ = 1;
};

}  // namespace

std::unique_ptr<ExecStage> MakeGatherExpertsStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<GatherExpertsStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeGatedExpertsStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<GatedExpertsStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeDownExpertsStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<DownExpertsStage>(bindings, stage);
}

}  // namespace moonlit
