// SPDX-License-Identifier: Apache-2.0
// Token ids -> rows of the embedding table, decoded from the packed matrix (a tied head multiplies with the same bytes), or the rows
// that the span gives in their place; learned
// positions, which are added to them.
#include <algorithm>

#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

constexpr size_t kRowsPerTask = 8;

class EmbedStage : public ExecStage {
 public:
  EmbedStage(const Bindings& b, const FusedStage& stage)
      : b_(b), table_(b.weights->matrix(stage.parts[0].weight)), out_(b.values[stage.output]) {}

  size_t Begin() override { return CeilDiv(b_.step->rows(), kRowsPerTask); }

  void Run(size_t task, size_t) override {
    const size_t end = std::min(b_.step->rows(), (task + 1) * kRowsPerTask);
    const size_t n_tile = table_.kernel->n_tile;
    for (size_t row = task * kRowsPerTask; row < end; ++row) {
      if (b_.step->token(row) == kInputRow) {
        const float* given = b_.step->input(row);
        std::copy(given, given + table_.k, out_.row(row));
        continue;
      }
      const size_t id = static_cast<size_t>(b_.step->token(row));
      table_.kernel->unpack_row(table_.data + id / n_tile * table_.tile_bytes, id % n_tile, table_.k, out_.row(row));
    }
  }

  std::string Describe() const override {
    return std::string("embed ") + table_.name + " " + Traits(table_.format).name;
  }

 private:
  const Bindings& b_;
  const PackedMatrix& table_;
  FloatRows out_;
};

// The step has checked that every position has a row.
class AddPositionsStage : public ExecStage {
 public:
  AddPositionsStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        tail_(stage.tail),
        width_(b.graph->values()[stage.output].width),
        table_(b.weights->vector(stage.parts[0].weight)),
        bias_(b.weights->vector(stage.parts[0].bias)),
        in_(b.values[stage.input]),
        out_(b.values[stage.output]) {}

  size_t Begin() override {
    rows_ = b_.step->range(tail_);
    return CeilDiv(rows_.count(), kRowsPerTask);
  }

  void Run(size_t task, size_t) override {
    const size_t first = rows_.first + task * kRowsPerTask;
    const size_t end = std::min(rows_.end, first + kRowsPerTask);
    for (size_t row = first; row < end; ++row) {
      const float* learned = table_ + static_cast<size_t>(b_.step->position(row)) * width_;
      b_.activations->add(in_.row(row), learned, out_.row(row), width_);
      if (bias_ != nullptr) b_.activations->add(out_.row(row), bias_, out_.row(row), width_);
    }
  }

  std::string Describe() const override { return "add_positions"; }

 private:
  const Bindings& b_;
  bool tail_;
  size_t width_;
  const float* table_;
  const float* bias_;
  FloatRows in_, out_;
  RowRange rows_{};
};

}  // namespace

std::unique_ptr<ExecStage> MakeAddPositionsStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<AddPositionsStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeEmbedStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<EmbedStage>(bindings, stage);
}

}  // namespace moonlit
