// SPDX-License-Identifier: Apache-2.0
// Small graphs over matrices that a command makes itself (the lesson) or takes from a model (moonlit attention), run by the plan,
// kernels and threads that models run by; and the fused kernel over the same matrices.
//
//   LessonGraph g(machine, 16);
//   const ValueId x = g.Input("x", x_rows);
//   MOONLIT_ASSIGN_OR_RETURN(Matrix out, g.Run(g.ops.Softmax(x)));
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/variant.h"
#include "runtime/base/status.h"
#include "runtime/exec/plan.h"
#include "runtime/graph/graph.h"
#include "runtime/threads/pool.h"
#include "runtime/weights/memory_weights.h"

namespace moonlit::cli {

struct Matrix {
  size_t rows = 0, columns = 0;
  std::vector<float> values;  // row-major
  float at(size_t row, size_t column) const { return values[row * columns + column]; }
  float& at(size_t row, size_t column) { return values[row * columns + column]; }
};

Matrix Filled(size_t rows, size_t columns, float value);
// Normally distributed around 0; the same for a seed on every machine, up to the last digits of its logarithm.
Matrix RandomNormal(size_t rows, size_t columns, uint64_t seed, double deviation = 1);
// [tokens, heads * tokens] of 0 where token i may see token j, else -inf.
template <class Sees>
Matrix MaskTable(size_t tokens, size_t heads, Sees sees) {
  Matrix mask = Filled(tokens, heads * tokens, 0);
  for (size_t i = 0; i < tokens; ++i) {
    for (size_t j = 0; j < heads * tokens; ++j) {
      if (!sees(i, j % tokens)) mask.at(i, j) = -__builtin_inff();
    }
  }
  return mask;
}
inline bool Causal(size_t i, size_t j) { return j <= i; }

// The largest |a - b|; infinite where one of them is NaN or the sizes differ.
double LargestDifference(const Matrix& a, const Matrix& b);

struct LessonMachine {
  static Result<LessonMachine> Make();
  Variant variant;
  std::unique_ptr<ThreadPool> pool;
};

class LessonGraph {
 public:
  // ids: at least the tokens that are run.
  LessonGraph(LessonMachine& machine, size_t ids) : machine_(machine), ids_(ids) {}

  ValueId Input(const std::string& name, const Matrix& rows);      // row i is token i's
  WeightId Weight(const std::string& name, const Matrix& matrix);  // [outputs, inputs]
  WeightId Table(const std::string& name, const Matrix& matrix);   // of AddPositions
  WeightId Vector(const std::string& name, const std::vector<float>& values);

  // What `result` has for `tokens` tokens in sequences of `span` each (0: one sequence). A graph is run for one result.
  Result<Matrix> Run(ValueId result, size_t tokens, size_t span = 0) {
    MOONLIT_RETURN_IF_ERROR(Finish(result, tokens));
    return RunSpans(span == 0 ? tokens : span, Outputs::kAll);
  }
  // The same in two steps, for measurements: all tokens in one sequence, of which the result's last row alone is kept.
  Status Finish(ValueId result, size_t tokens);
  uint64_t arena_bytes() const { return plan_->size().arena_bytes; }
  Result<Matrix> RunForLast() { return RunSpans(tokens_, Outputs::kLast); }

  Graph ops;

 private:
  Result<Matrix> RunSpans(size_t span, Outputs outputs);
  void Keep(const Status& status) {
    if (status_.ok()) status_ = status;
  }
  LessonMachine& machine_;
  size_t ids_, tokens_ = 0, width_ = 0;
  MemoryWeights weights_;
  Status status_;
  std::unique_ptr<Plan> plan_;
};

// softmax(scale q k^T + mask) v by kernels/attention with an F32 cache. q: [tokens, heads * dim], k, v: [tokens, kv_heads * dim].
struct FusedCase {
  size_t heads = 1, kv_heads = 1;
  float scale = 1;
  bool causal = true;
  size_t window = 0, sink_slots = 0;
};
Result<Matrix> RunFused(LessonMachine& machine, const Matrix& q, const Matrix& k, const Matrix& v,
                        const FusedCase& fused);

}  // namespace moonlit::cli
