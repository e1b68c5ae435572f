// SPDX-License-Identifier: Apache-2.0
// Three ways to score a pair of tokens, built from graph ops that can be read in the order of the papers: additive (Bahdanau et al.
// 2014), dot (Luong et al. 2015) and scaled dot product (Vaswani et al. 2017). The graph says what is computed; the plan binds it
// to this processor's kernels and threads. `moonlit lesson` goes on from here.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include "runtime/exec/plan.h"
#include "runtime/graph/graph.h"
#include "runtime/threads/pool.h"
#include "runtime/weights/memory_weights.h"

using namespace moonlit;

namespace {

constexpr size_t kTokens = 5, kModel = 16, kHead = 8;
const char* const kNames[kTokens] = {"床", "前", "明", "月", "光"};

enum class Scores { kAdditive, kDot, kScaledDot };

// What the graph's weights are called, and their values: made up here, learned in a model.
std::vector<float> Numbers(size_t count, unsigned seed) {
  std::vector<float> numbers(count);
  for (float& x : numbers) x = static_cast<float>((seed = seed * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1;
  return numbers;
}

bool AddWeights(MemoryWeights& weights) {
  std::vector<float> mask(kTokens * kTokens), identity(kTokens * kTokens);
  for (size_t i = 0; i < kTokens; ++i) {
    identity[i * kTokens + i] = 1;
    for (size_t j = i + 1; j < kTokens; ++j) mask[i * kTokens + j] = -std::numeric_limits<float>::infinity();
  }
  return weights.Add("x", {kTokens, kModel}, Numbers(kTokens * kModel, 1)).ok() &&
         weights.Add("w_q", {kHead, kModel}, Numbers(kHead * kModel, 2)).ok() &&
         weights.Add("w_k", {kHead, kModel}, Numbers(kHead * kModel, 3)).ok() &&
         weights.Add("w_score", {kHead}, Numbers(kHead, 4)).ok() &&
         weights.Add("mask", {kTokens, kTokens}, mask).ok() && weights.Add("v", {kTokens, kTokens}, identity).ok();
}

// softmax(scores + mask) v: row i is what token i takes of each token's value.
void BuildAttention(Graph& g, Scores kind) {
  const ValueId x = g.Embed(g.Weight("x", {kTokens, kModel}));      // token i is row i
  const ValueId q = g.Linear(x, g.Weight("w_q", {kHead, kModel}));  // what it looks for
  const ValueId k = g.Linear(x, g.Weight("w_k", {kHead, kModel}));  // what it offers
  const PairSpec pairs{.keys = kTokens};
  ValueId scores;
  if (kind == Scores::kAdditive) {
    scores = g.PairScores(q, k, pairs, g.Weight("w_score", {kHead}));  // w . tanh(q_i + k_j)
  } else {
    scores = g.PairScores(q, k, pairs);  // q_i . k_j
  }
  if (kind == Scores::kScaledDot) scores = g.Scale(scores, 1 / std::sqrt(static_cast<float>(kHead)));
  const ValueId masked = g.AddPositions(scores, g.Table("mask", {kTokens, kTokens}));  // -inf: later tokens
  // The values of a model are one more Linear of x. Here they are the rows of the identity, so that the weights themselves come out.
  const ValueId v = g.Embed(g.Weight("v", {kTokens, kTokens}));
  g.Hidden(g.WeightedSum(g.Softmax(masked), v, pairs), Pooling::kUnknown);
}

// Prints rows as they come, and adds up what must not be: sums other than 1, weights above the diagonal.
class Printer : public LogitsConsumer {
 public:
  bool takes_hidden() const override { return true; }  // the graph's output as it is, no logits
  void Consume(size_t, size_t first, size_t rows, const float* output, size_t stride) override {
    for (size_t i = first; i < first + rows; ++i, output += stride) {
      float sum = 0;
      std::printf("  %s", kNames[i]);
      for (size_t j = 0; j < kTokens; ++j) {
        std::printf(" %.2f", static_cast<double>(output[j]));
        sum += output[j];
        if (j > i) wrong += std::abs(output[j]);
      }
      std::printf("\n");
      wrong += std::abs(sum - 1);
    }
  }
  float wrong = 0;
};

Status Show(ThreadPool& pool, const char* title, Scores kind, float* wrong) {
  MemoryWeights weights;
  if (!AddWeights(weights)) return Errorf(Code::kInternal, "a weight has another size than its shape");
  Graph graph;
  BuildAttention(graph, kind);
  PlanOptions options{};
  options.variant = SelectVariant(CpuFeatures());
  options.pool = &pool;
  options.max_rows = kTokens;
  MOONLIT_ASSIGN_OR_RETURN(const std::unique_ptr<Plan> plan, Plan::Create(graph, weights, options));
  const std::vector<int32_t> tokens = {0, 1, 2, 3, 4};
  StepSpan text{};
  text.tokens = tokens;
  text.outputs = Outputs::kAll;
  Printer printer;
  std::printf("%s\n", title);
  MOONLIT_RETURN_IF_ERROR(plan->Run({&text, 1}, &printer));
  *wrong += printer.wrong;
  return Status();
}

}  // namespace

int main() {
  auto pool = ThreadPool::Create({});
  float wrong = 0;
  Status status = pool.status();
  if (status.ok()) status = Show(**pool, "additive: w . tanh(q + k)", Scores::kAdditive, &wrong);
  if (status.ok()) status = Show(**pool, "dot: q . k", Scores::kDot, &wrong);
  if (status.ok()) status = Show(**pool, "scaled dot: q . k / sqrt(8)", Scores::kScaledDot, &wrong);
  if (!status.ok()) return std::fprintf(stderr, "%s\n", std::string(status.message()).c_str()), 1;
  std::printf("rows sum to 1, nothing above the diagonal: %s\n", wrong < 1e-5f ? "right" : "wrong");
  return wrong < 1e-5f ? 0 : 1;
}
