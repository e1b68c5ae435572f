// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/lesson_graph.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "kernels/attention/strided.h"
#include "kernels/base/round.h"
#include "runtime/decode/engine.h"
#include "runtime/decode/random.h"
#include "runtime/tensor/buffer.h"

namespace moonlit::cli {
namespace {

// Puts the rows one below the other.
class Rows : public LogitsConsumer {
 public:
  Rows(Matrix& out, size_t span) : out_(out), span_(span) {}
  bool takes_hidden() const override { return true; }
  void Consume(size_t span, size_t first, size_t rows, const float* logits, size_t stride) override {
    for (size_t r = 0; r < rows; ++r)
      std::copy_n(logits + r * stride, out_.columns, &out_.at(span * span_ + first + r, 0));
  }

 private:
  Matrix& out_;
  size_t span_;
};

struct FusedTasks {
  StridedAttentionArgs args;
  uint8_t* scratch;
  size_t stride;
};

}  // namespace

Matrix Filled(size_t rows, size_t columns, float value) {
  return {rows, columns, std::vector<float>(rows * columns, value)};
}

Matrix RandomNormal(size_t rows, size_t columns, uint64_t seed, double deviation) {
  Random random(seed);
  Matrix matrix = Filled(rows, columns, 0);
  for (float& x : matrix.values) {  // Box and Muller 1958
    const double radius = std::sqrt(-2 * std::log(1 - random.NextUniform()));
    x = static_cast<float>(deviation * radius * std::cos(2 * std::numbers::pi * random.NextUniform()));
  }
  return matrix;
}

double LargestDifference(const Matrix& a, const Matrix& b) {
  if (a.rows != b.rows || a.columns != b.columns) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double difference = std::abs(static_cast<double>(a.values[i]) - static_cast<double>(b.values[i]));
    if (!(difference <= largest)) largest = std::isnan(difference) ? INFINITY : difference;
  }
  return largest;
}

Result<LessonMachine> LessonMachine::Make() {
  LessonMachine machine{};
  MOONLIT_ASSIGN_OR_RETURN(machine.variant, ResolveVariant(""));
  MOONLIT_ASSIGN_OR_RETURN(machine.pool, ThreadPool::Create({}));
  return machine;
}

ValueId LessonGraph::Input(const std::string& name, const Matrix& rows) {
  std::vector<float> padded = rows.values;
  padded.resize(ids_ * rows.columns);
  Keep(weights_.Add(name, {ids_, rows.columns}, padded));
  return ops.Embed(ops.Weight(name, {ids_, rows.columns}));
}

WeightId LessonGraph::Weight(const std::string& name, const Matrix& matrix) {
  Keep(weights_.Add(name, {matrix.rows, matrix.columns}, matrix.values));
  return ops.Weight(name, {matrix.rows, matrix.columns});
}

WeightId LessonGraph::Table(const std::string& name, const Matrix& matrix) {
  Keep(weights_.Add(name, {matrix.rows, matrix.columns}, matrix.values));
  return ops.Table(name, {matrix.rows, matrix.columns});
}

WeightId LessonGraph::Vector(const std::string& name, const std::vector<float>& values) {
  Keep(weights_.Add(name, {values.size()}, values));
  return ops.Weight(name, {values.size()});
}

Status LessonGraph::Finish(ValueId result, size_t tokens) {
  width_ = ops.values()[result].width;
  tokens_ = tokens;
  if (tokens_ > ids_) return Errorf(Code::kInternal, "a graph for %zu rows is run with %zu", ids_, tokens_);
  ops.Hidden(result, Pooling::kUnknown);  // the value itself
  MOONLIT_RETURN_IF_ERROR(status_);
  PlanOptions options{};
  options.variant = machine_.variant;
  options.pool = machine_.pool.get();
  options.max_rows = tokens_;
  options.float_provider = FloatProviderChoice::kOwn;
  MOONLIT_ASSIGN_OR_RETURN(plan_, Plan::Create(ops, weights_, options));
  return Status();
}

Result<Matrix> LessonGraph::RunSpans(size_t span, Outputs outputs) {
  std::vector<int32_t> ids(tokens_);
  std::iota(ids.begin(), ids.end(), 0);
  std::vector<StepSpan> spans(tokens_ / span);
  std::vector<std::vector<float>> states(spans.size());
  for (size_t s = 0; s < spans.size(); ++s) {
    spans[s].tokens = std::span(ids).subspan(s * span, span);
    spans[s].first_slot = 0;
    spans[s].outputs = outputs;
    states[s].resize(plan_->state_bytes() / sizeof(float));
    if (!states[s].empty()) spans[s].next_state = states[s].data();
  }
  Matrix out = Filled(tokens_, width_, 0);
  Rows rows(out, span);
  MOONLIT_RETURN_IF_ERROR(plan_->Run(spans, &rows));
  return out;
}

Result<Matrix> RunFused(LessonMachine& machine, const Matrix& q, const Matrix& k, const Matrix& v,
                        const FusedCase& fused) {
  const size_t key_dim = q.columns / fused.heads, value_dim = v.columns / fused.kv_heads;
  Matrix out = Filled(q.rows, fused.heads * value_dim, 0);
  StridedAttentionArgs args = {};
  args.variant = machine.variant;
  args.tokens = q.rows, args.context = k.rows;
  args.heads = fused.heads, args.kv_heads = fused.kv_heads;
  args.key_dim = key_dim, args.value_dim = value_dim;
  args.q = {q.values.data(), ElementType::kF32, q.columns, key_dim};
  args.k = {k.values.data(), ElementType::kF32, k.columns, key_dim};
  args.v = {v.values.data(), ElementType::kF32, v.columns, value_dim};
  args.out = out.values.data();
  args.out_token_stride = out.columns, args.out_head_stride = value_dim;
  args.key_type = args.value_type = CacheType::kF32;
  args.scale = fused.scale, args.causal = fused.causal;
  args.window = fused.window, args.sink_slots = fused.sink_slots;
  if (const char* fault = CheckStridedAttention(args)) return Errorf(Code::kInternal, "fused attention: %s", fault);
  const size_t stride = RoundUp(StridedAttentionScratchBytes(args), size_t{64});
  MOONLIT_ASSIGN_OR_RETURN(Buffer scratch, Buffer::Allocate(stride * machine.pool->threads(), "attention's scratch"));
  FusedTasks tasks{args, scratch.data(), stride};
  const auto run = [](void* context, size_t task, size_t thread) {
    const FusedTasks& all = *static_cast<FusedTasks*>(context);
    RunStridedAttentionTask(all.args, task, all.scratch + thread * all.stride);
  };
  const Stage stage{StridedAttentionTasks(args), run, &tasks};
  MOONLIT_RETURN_IF_ERROR(machine.pool->Run({&stage, 1}));
  return out;
}

}  // namespace moonlit::cli
