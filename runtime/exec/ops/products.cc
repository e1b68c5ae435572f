// SPDX-License-Identifier: Apache-2.0
// Products of one input with several packed weights (Q, K and V; or one), and the output head. Tasks: (row block, run of tiles of
// one weight); all runs of a row block come before the next block, so that its activations stay in L2.
//
// Where activations have two terms (kernels/matmul/a8.h), they are neighbouring rows of one product, so that with one row the weights
// are still read once. It goes to the thread's scratch, and out = (first term + second term) + bias + addend. What adapters add
// (low_rank.h) comes after that.
#include <algorithm>

#include "runtime/exec/ops/low_rank.h"
#include "runtime/exec/stage.h"
#include "runtime/exec/tiling.h"

namespace moonlit {
namespace {

struct BoundPart {
  const PackedMatrix* matrix;
  const float* bias;
  FloatRows addend;
  FloatRows out;
  bool two_terms;
  Tiling tiling{};
};

class ProductRunner {
 public:
  // softcap: see Graph::Logits.
  ProductRunner(const Bindings& b, const FusedStage& stage, const ProductInput& input, float softcap = 0)
      : b_(b), exact_(b.options->exact), input_(input), addends_(b, stage), softcap_(softcap) {}

  // In the order of the stage's parts.
  void Add(BoundPart part) { parts_.push_back(part); }

  // One row blocking for all parts: of the part that allows the fewest rows.
  size_t Begin(RowRange range) {
    range_ = range;
    const size_t rows = range.count();
    rows_per_block_ = rows;
    for (BoundPart& part : parts_) rows_per_block_ = std::min(rows_per_block_, Choose(part, rows).rows_per_block);
    if (rows == 0) return 0;
    runs_ = 0;
    blocks_ = CeilDiv(rows, rows_per_block_);
    for (BoundPart& part : parts_) {
      part.tiling = Choose(part, rows);
      runs_ += part.tiling.runs;
    }
    return blocks_ * runs_;
  }

  void Run(size_t task, size_t thread) const {
    const size_t first_row = range_.first + task % blocks_ * rows_per_block_;
    size_t run = task / blocks_;
    size_t p = 0;
    while (run >= parts_[p].tiling.runs) run -= parts_[p++].tiling.runs;
    const BoundPart& part = parts_[p];
    const size_t tile = run * part.tiling.units_per_task;
    ProductArgs args = Args(part, first_row);
    args.tile_begin = tile;
    args.tile_end = std::min(part.matrix->tiles, tile + part.tiling.units_per_task);
    if (part.two_terms) {
      MultiplyTwoTerms(part, args, first_row, thread);
    } else {
      part.matrix->Multiply(args, exact_, thread);
    }
    if (addends_.any()) AddLowRank(p, args, first_row);
    if (softcap_ != 0) CapLogits(part, args);
  }

  std::string Describe() const {
    std::string text;
    for (const BoundPart& part : parts_) {
      text +=
          part.matrix->Describe(exact_) + (part.two_terms ? " 2 terms" : "") + (part.addend.data ? " + addend" : "");
    }
    return text;
  }

 private:
  void AddLowRank(size_t p, const ProductArgs& args, size_t first_row) const {
    const BoundPart& part = parts_[p];
    const size_t first = args.tile_begin * part.matrix->n_tile;
    const size_t end = std::min(args.n, args.tile_end * part.matrix->n_tile);
    for (size_t row = first_row; row < first_row + args.rows; ++row) {
      addends_.Add(p, row, first, end, part.out.row(row) + first);
    }
  }

  void CapLogits(const BoundPart& part, const ProductArgs& args) const {
    const size_t first = args.tile_begin * part.matrix->n_tile;
    const size_t end = std::min(args.n, args.tile_end * part.matrix->n_tile);
    for (size_t r = 0; r < args.rows; ++r) {
      float* logits = args.out + r * args.out_stride + first;
      b_.activations->softcap(logits, softcap_, logits, end - first);
    }
  }

  Tiling Choose(const BoundPart& part, size_t rows) const {
    TilingInput cut = part.matrix->Cut(exact_);
    cut.rows = rows;
    cut.threads = b_.threads;
    if (part.two_terms) {
      cut.k *= 2;
      cut.max_task_floats = kGateScratchFloats;
    }
    return ChooseTiling(cut);
  }

  // `args` as for one term.
  void MultiplyTwoTerms(const BoundPart& part, ProductArgs args, size_t first_row, size_t thread) const {
    const PackedMatrix& m = *part.matrix;
    const size_t first = args.tile_begin * m.n_tile, outputs = std::min(m.n, args.tile_end * m.n_tile) - first;
    const size_t rows = args.rows;
    args.rows = 2 * rows;
    args.a8 = A8From(input_.two_terms, 2 * first_row, 0);
    args.out = b_.scratch.floats(thread);
    args.out_stride = part.tiling.units_per_task * m.n_tile;
    args.out_first = first;
    args.bias = args.addend = nullptr;
    m.Multiply(args, exact_, thread);
    for (size_t r = 0; r < rows; ++r) {
      float* sum = args.out + 2 * r * args.out_stride;
      float* out = part.out.row(first_row + r) + first;
      b_.activations->add(sum, sum + args.out_stride, sum, outputs);
      if (part.bias != nullptr) b_.activations->add(sum, part.bias + first, sum, outputs);
      if (part.addend.data != nullptr) b_.activations->add(sum, part.addend.row(first_row + r) + first, sum, outputs);
      std::copy(sum, sum + outputs, out);
    }
  }

  ProductArgs Args(const BoundPart& part, size_t first_row) const {
    ProductArgs args{};
    args.k = part.matrix->k;
    args.n = part.matrix->n;
    args.weights = part.matrix->data;
    args.rows = std::min(rows_per_block_, range_.end - first_row);
    if (ReadsA8(*part.matrix, exact_)) {
      args.a8 = A8From(input_.a8, first_row, 0);
    } else {
      args.x = input_.floats.row(first_row);
      args.x_stride = input_.floats.stride;
    }
    args.out = part.out.row(first_row);
    args.out_stride = part.out.stride;
    args.bias = part.bias;
    if (part.addend.data != nullptr) {
      args.addend = part.addend.row(first_row);
      args.addend_stride = part.addend.stride;
    }
    return args;
  }

  const Bindings& b_;
  bool exact_;
  const ProductInput& input_;
  LowRankAddends addends_;
  float softcap_;
  std::vector<BoundPart> parts_;
  RowRange range_{};
  size_t rows_per_block_ = 0, blocks_ = 1, runs_ = 0;
};

class ProductsStage : public ExecStage {
 public:
  ProductsStage(const Bindings& b, const FusedStage& stage)
      : b_(b), tail_(stage.tail), runner_(b, stage, b.inputs[stage.input]) {
    for (const ProductPart& part : stage.parts) {
      const PackedMatrix& matrix = b.weights->matrix(part.weight);
      runner_.Add({&matrix, b.weights->vector(part.bias), part.addend == kNoValue ? FloatRows{} : b.values[part.addend],
                   b.values[part.output], b.by_two_terms[part.output] && ReadsA8(matrix, b.options->exact)});
    }
  }
  size_t Begin() override { return runner_.Begin(b_.step->range(tail_)); }
  void Run(size_t task, size_t thread) override { runner_.Run(task, thread); }
  std::string Describe() const override { return "products" + runner_.Describe(); }

 private:
  const Bindings& b_;
  bool tail_;
  ProductRunner runner_;
};

class HeadProductStage : public ExecStage {
 public:
  HeadProductStage(const Bindings& b, const FusedStage& stage) : b_(b), runner_(b, stage, b.head_input, stage.factor) {
    const ProductPart& head = stage.parts[0];
    const PackedMatrix& matrix = b.weights->matrix(head.weight);
    runner_.Add({&matrix, b.weights->vector(head.bias), FloatRows{}, b.logits, ReadsA8(matrix, b.options->exact)});
  }
  size_t Begin() override { return runner_.Begin({0, b_.step->head_rows}); }
  void Run(size_t task, size_t thread) override { runner_.Run(task, thread); }
  std::string Describe() const override { return "head" + runner_.Describe(); }

 private:
  const Bindings& b_;
  ProductRunner runner_;
};

}  // namespace

std::unique_ptr<ExecStage> MakeProductsStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<ProductsStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeHeadProductStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<HeadProductStage>(bindings, stage);
}

}  // namespace moonlit
