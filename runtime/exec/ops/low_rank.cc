// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/ops/low_rank.h"

#include <algorithm>

#include "runtime/exec/adapter.h"
#include "runtime/exec/stage.h"

namespace moonlit {

LowRankAddends::LowRankAddends(const Bindings& b, const FusedStage& stage)
    : b_(b), head_(stage.kind == StageKind::kHead) {
  for (const ProductPart& part : stage.parts) weights_.push_back(part.weight);
}

const AdapterSet* LowRankAddends::SetOf(size_t row) const {
  return b_.step->adapters(head_ ? b_.step->wanted()[b_.step->head_first + row].row : row);
}

float* LowRankAddends::Products(const AdapterSet& set, size_t part, size_t row) const {
  size_t column = 0;
  for (size_t p = 0; p < part; ++p) column += set.rank(weights_[p]);
  const AdapterSet& memory = *b_.step->widest_adapters();
  return memory.products() + row * memory.stride() + column;
}

void LowRankAddends::Add(size_t part, size_t row, size_t first, size_t end, float* out) const {
  const AdapterSet* set = SetOf(row);
  if (set == nullptr || set->rank(weights_[part]) == 0) return;
  const float* t = Products(*set, part, row);
  const size_t outputs = b_.graph->weights()[weights_[part]].shape[0];
  for (const AdapterUse& use : set->members()) {
    const Adapter::Part& low = use.adapter->part(weights_[part]);
    const float* column = use.adapter->b(low) + first;
    for (size_t j = 0; j < low.rank; ++j, column += outputs) b_.activations->add_scaled(column, *t++, out, end - first);
  }
}

namespace {

// t = (A x) * factor. A task is a few neighbouring rows and one product; runs of rows with equal sets go together.
class LowRankStage : public ExecStage {
 public:
  LowRankStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        tail_(stage.tail),
        head_(stage.kind == StageKind::kHead),
        input_(head_ ? b.head_input : b.inputs[stage.input]),
        addends_(b, stage),
        kernel_(b.products->kernels[static_cast<size_t>(Format::kF32)]) {}

  size_t Begin() override {
    if (!addends_.any()) return 0;
    rows_ = head_ ? RowRange{0, b_.step->head_rows} : b_.step->range(tail_);
    return CeilDiv(rows_.count(), kRowsPerTask) * addends_.parts();
  }

  void Run(size_t task, size_t thread) override {
    const size_t part = task % addends_.parts();
    const size_t begin = rows_.first + task / addends_.parts() * kRowsPerTask;
    const size_t end = std::min(rows_.end, begin + kRowsPerTask);
    const size_t most = std::max<size_t>(2 * kGateScratchFloats / input_.width, 1);  // as the scratch holds
    for (size_t row = begin, next; row < end; row = next) {
      const AdapterSet* set = addends_.SetOf(row);
      next = row + 1;
      while (next < end && next - row < most && addends_.SetOf(next) == set) ++next;
      if (set != nullptr && set->rank(addends_.weight(part)) != 0) Multiply(*set, part, row, next - row, thread);
    }
  }

  std::string Describe() const override { return ""; }  // a part of the product

 private:
  static constexpr size_t kRowsPerTask = 16;

  void Multiply(const AdapterSet& set, size_t part, size_t row, size_t rows, size_t thread) const {
    ProductArgs args{};
    args.k = input_.width;
    args.rows = rows;
    Input(row, rows, b_.scratch.floats(thread), args);
    args.out = addends_.Products(set, part, row);
    args.out_stride = b_.step->widest_adapters()->stride();
    for (const AdapterUse& use : set.members()) {
      const Adapter::Part& low = use.adapter->part(addends_.weight(part));
      if (low.rank == 0) continue;
      args.n = low.rank;
      args.weights = use.adapter->a(low);
      args.tile_end = CeilDiv(low.rank, size_t{kernel_.n_tile});
      kernel_.multiply(args);
      const float factor = use.scale * use.adapter->factor(low);
      for (size_t r = 0; r < rows; ++r) {
        float* t = args.out + r * args.out_stride;
        b_.activations->scale(t, factor, t, low.rank);
      }
      args.out += low.rank;
    }
  }

  // x of the rows: floats where the plan has them, else what A8 stands for.
  void Input(size_t row, size_t rows, float* scratch, ProductArgs& args) const {
    if (input_.wants_floats) {
      args.x = input_.floats.row(row);
      args.x_stride = input_.floats.stride;
      return;
    }
    for (size_t r = 0; r < rows; ++r) {
      float* x = scratch + r * input_.width;
      if (input_.wants_two_terms) {
        Decode(input_.two_terms, 2 * (row + r), x, false);
        Decode(input_.two_terms, 2 * (row + r) + 1, x, true);
      } else {
        Decode(input_.a8, row + r, x, false);
      }
    }
    args.x = scratch;
    args.x_stride = input_.width;
  }

  // adds: to what is there.
  void Decode(const A8View& a8, size_t row, float* x, bool adds) const {
    for (size_t first = 0; first < input_.width; first += kA8Group) {
      const size_t group = first / kA8Group, count = std::min(kA8Group, input_.width - first);
      const int8_t* q = A8Values(a8, row, group);
      float values[kA8Group];
      std::copy(q, q + kA8Group, values);
      const float scale = *A8Scale(a8, row, group);
      if (adds) {
        b_.activations->add_scaled(values, scale, x + first, count);
      } else {
        b_.activations->scale(values, scale, x + first, count);
      }
    }
  }

  const Bindings& b_;
  bool tail_, head_;
  const ProductInput& input_;
  LowRankAddends addends_;
  const ProductKernel& kernel_;
  RowRange rows_{};
};

}  // namespace

std::unique_ptr<ExecStage> MakeLowRankStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<LowRankStage>(bindings, stage);
}

}  // namespace moonlit
