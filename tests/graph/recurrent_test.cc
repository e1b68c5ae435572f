// SPDX-License-Identifier: Apache-2.0
// Recurrent nodes: what they refuse, and the stages that they become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/composites.h"
#include "runtime/graph/fusion.h"
#include "runtime/graph/graph.h"

namespace moonlit {
namespace {

using testing::HasSubstr;

RecurrentSpec Spec() {
  RecurrentSpec spec;
  spec.key_heads = 2;
  spec.value_heads = 4;
  spec.key_dim = 3;
  spec.value_dim = 2;
  spec.k_first = 6;
  spec.v_first = 12;  // 6 + 6 + 8 columns
  return spec;
}

Graph Layer(const RecurrentSpec& spec, size_t conv_width = 4, size_t rate = 4) {
  Graph g;
  const WeightId table = g.Weight("embd", {10, 20});
  ValueId x = g.Embed(table);
  const ValueId gates = g.Linear(x, g.Weight("gates", {4, 20}));
  const ValueId z = g.Linear(x, g.Weight("z", {8, 20}));
  x = g.ShortConv(x, g.Table("conv", {20, conv_width}), kNoWeight, true);
  const ValueId decay = g.Decay(gates, g.Weight("rate", {rate}), g.Weight("bias", {4}));
  ValueId y = g.GatedDelta(x, x, x, decay, g.Sigmoid(gates), spec);
  y = GatedHeadNorm(g, y, z, 4, g.Weight("norm", {2}), 1e-6f);
  g.Logits(g.Linear(y, g.Weight("out", {20, 8})), table);
  return g;
}

void ExpectRefused(const Graph& g, const char* reason) {
  const Status status = g.Finish();
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
}

TEST(RecurrentGraph, BecomesItsStages) {
  const Graph g = Layer(Spec());
  ASSERT_TRUE(g.Finish().ok()) << g.Finish().ToString();
  const FusedGraph fused = Fuse(g);
  EXPECT_EQ(fused.Dump(g),
            "embed [embd -> %0]\n"
            "activate %0 -> %0\n"
            "products %0 [gates -> %1] [z -> %2]\n"
            "short_conv %0 [conv] -> %3\n"
            "decay %1 [rate + bias] -> %4\n"
            "sigmoid %1 -> %5\n"
            "gated_delta %3 %3 %3 %4 %5 -> %6\n"
            "norm %6 norm norm -> %7\n"
            "gate %2 %7 -> %8\n"
            "activate %8 -> %8\n"
            "products %8 [out -> %9]\n"
            "head %9 [embd]\n");
  EXPECT_EQ(fused.state_nodes, 2u);
  for (const FusedStage& stage : fused.stages) {
    const bool behind = stage.kind == StageKind::kNorm || stage.kind == StageKind::kGate ||
                        stage.kind == StageKind::kHead || stage.input == 8;
    EXPECT_EQ(stage.tail, behind) << StageKindName(stage.kind);
  }
}

TEST(RecurrentGraph, RefusesHeadsThatDoNotFit) {
  RecurrentSpec spec = Spec();
  spec.value_heads = 3;
  ExpectRefused(Layer(spec), "3 value heads of 2 over 2 key heads of 3");
  spec = Spec();
  spec.key_dim = 0;
  ExpectRefused(Layer(spec), "no zero");
  spec.key_dim = kMostRecurrentDim + 1;
  ExpectRefused(Layer(spec), "heads of at most 1024");
  spec = Spec();
  spec.v_first = 13;
  ExpectRefused(Layer(spec), "values are 20 wide: expected 4 heads of 2 from column 13 on");
  spec.v_first = SIZE_MAX;
  ExpectRefused(Layer(spec), "values are 20 wide");
  spec = Spec();
  spec.value_heads = 2;
  ExpectRefused(Layer(spec), "decays are 4 wide: expected 2 heads of 1");
}

TEST(RecurrentGraph, RefusesNormsWithoutEpsilon) {
  RecurrentSpec spec = Spec();
  spec.normalise = true;
  for (float eps : {0.0f, -1.0f, __builtin_nanf("")}) {
    spec.eps = eps;
    ExpectRefused(Layer(spec), "expected more than 0");
  }
}

TEST(RecurrentGraph, RefusesWeightsOfOtherShapes) {
  ExpectRefused(Layer(Spec(), 17), "expected a table of 20 channels and at most 16 tokens, it has shape [20, 17]");
  ExpectRefused(Layer(Spec(), 4, 5), "weight rate: expected [4], it has [5]");
  Graph g;
  g.ShortConv(g.Embed(g.Weight("embd", {10, 20})), g.Weight("conv", {20, 4}), kNoWeight, false);
  ExpectRefused(g, "expected a table");
}

}  // namespace
}  // namespace moonlit
