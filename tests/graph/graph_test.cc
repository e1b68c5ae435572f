// SPDX-License-Identifier: Apache-2.0
#include "runtime/graph/graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "runtime/graph/composites.h"
#include "runtime/graph/fusion.h"

namespace moonlit {
namespace {

using testing::HasSubstr;

AttentionSpec Spec() {
  AttentionSpec spec;
  spec.heads = 4;
  spec.kv_heads = 2;
  spec.key_dim = spec.value_dim = 2;
  spec.scale = 1;
  return spec;
}

// One decoder layer of width 8.
Graph OneLayer() {
  Graph g;
  const WeightId table = g.Weight("embd", {10, 8});
  ValueId x = g.Embed(table);
  g.SetLayer(0);
  ValueId h = g.RmsNorm(x, g.Weight("norm1", {8}), 1e-5f);
  const ValueId q = g.Linear(h, g.Weight("q", {8, 8}), g.Weight("q_bias", {8}));
  const ValueId k = g.Linear(h, g.Weight("k", {4, 8}));
  const ValueId v = g.Linear(h, g.Weight("v", {4, 8}));
  x = g.Add(x, g.Linear(g.Attention(q, k, v, Spec()), g.Weight("o", {8, 8})));
  h = g.RmsNorm(x, g.Weight("norm2", {8}), 1e-5f);
  x = g.Add(x, GatedFeedForward(g, h, g.Weight("gate", {12, 8}), g.Weight("up", {12, 8}), g.Weight("down", {8, 12})));
  g.SetLayer(-1);
  g.Logits(g.RmsNorm(x, g.Weight("norm3", {8}), 1e-5f), table);
  return g;
}

TEST(GraphTest, MayEndInHiddenStates) {
  Graph g;
  const WeightId table = g.Weight("embd", {10, 8});
  const WeightId type = g.Row("types", {2, 8}, 1);
  const ValueId x = g.AddPositions(g.Embed(table), g.Table("positions", {16, 8}), type);
  EXPECT_EQ(g.Finish().code(), Code::kInternal) << "nothing is given out yet";
  g.Hidden(x, Pooling::kMean);
  ASSERT_TRUE(g.Finish().ok()) << g.Finish().ToString();
  EXPECT_EQ(Fuse(g).Dump(g), "embed [embd -> %0]\nadd_positions %0 [positions + types[1]] -> %1\nhidden %1\n");
  EXPECT_EQ(g.weights()[type].first_row, 1u);
  g.Logits(x, table);
  EXPECT_THAT(std::string(g.Finish().message()), HasSubstr("comes after the outputs"));
}

TEST(GraphTest, RowsOfTablesExist) {
  Graph g;
  g.Row("types", {2, 8}, 2);
  EXPECT_EQ(g.Finish().code(), Code::kInternal);
}

TEST(GraphTest, DumpsOneNodeALine) {
  const Graph g = OneLayer();
  ASSERT_TRUE(g.Finish().ok()) << g.Finish().ToString();
  EXPECT_THAT(g.Dump(), HasSubstr("%0 = embed embd [10, 8] -> 8\n"));
  EXPECT_THAT(g.Dump(), HasSubstr("%2 = linear %1 q [8, 8] q_bias [8] -> 8  (layer 0)\n"));
  EXPECT_THAT(g.Dump(), HasSubstr("%5 = attention %2 %3 %4 -> 8  (layer 0)\n"));
}

TEST(GraphTest, FusesALayerIntoItsStages) {
  const Graph g = OneLayer();
  EXPECT_EQ(Fuse(g).Dump(g),
            "embed [embd -> %0]\n"
            "activate %0 norm norm1 -> %1\n"
            "products %1 [q + q_bias -> %2] [k -> %3] [v -> %4]\n"
            "qkv_post %2 %3 %4\n"
            "attention %2 %3 %4 -> %5\n"
            "activate %5 -> %5\n"
            "products %5 [o + %0 -> %7 in %0]\n"
            "activate %7 norm norm2 -> %8\n"
            "gated_products %8 [gate] [up] -> %11\n"
            "activate %11 -> %11\n"
            "products %11 [down + %7 -> %13 in %0]\n"
            "head %13 norm norm3 [embd]\n");
}

ExpertsSpec FourExperts(size_t used) {
  ExpertsSpec spec;
  spec.route.experts = 4;
  spec.route.used = used;
  return spec;
}

ExpertWeights Weights(Graph& g) {
  return {g.Weight("gates", {4, 12, 8}), g.Weight("ups", {4, 12, 8}), g.Weight("downs", {4, 8, 12})};
}

// A mixture beside a shared expert with a gate.
TEST(GraphTest, FusesExpertsIntoTheirStages) {
  Graph g;
  ValueId x = g.Embed(g.Weight("embd", {10, 8}));
  const ValueId h = g.RmsNorm(x, g.Weight("norm", {8}), 1e-5f);
  const ValueId logits = g.Linear(h, g.Weight("router", {4, 8}));
  x = g.Add(x, g.Experts(h, logits, Weights(g), FourExperts(2)));
  const ValueId gate = g.Linear(h, g.Weight("gate_inp", {1, 8}));
  const ValueId shared =
      GatedFeedForward(g, h, g.Weight("gate", {6, 8}), g.Weight("up", {6, 8}), g.Weight("down", {8, 6}));
  x = g.Add(x, g.SigmoidGate(gate, shared));
  g.Logits(g.Scale(x, 0.5f), g.Weight("embd", {10, 8}));
  ASSERT_TRUE(g.Finish().ok()) << g.Finish().ToString();
  EXPECT_THAT(g.Dump(), HasSubstr("%3 = experts %1 %2 gates [4, 12, 8] ups [4, 12, 8] downs [4, 8, 12] -> 8\n"));
  EXPECT_EQ(Fuse(g).Dump(g),
            "embed [embd -> %0]\n"
            "activate %0 norm norm -> %1\n"
            "products %1 [router -> %2] [gate_inp -> %5]\n"
            "route %2\n"
            "gather_experts %1\n"
            "gated_experts %1 [gates] [ups]\n"
            "down_experts [downs + %0 -> %4 in %0]\n"
            "gated_products %1 [gate] [up] -> %8\n"
            "activate %8 -> %8\n"
            "products %8 [down -> %9]\n"
            "sigmoid_gate %5 %9 -> %10\n"
            "add %4 %10 -> %11\n"
            "scale %11 -> %12\n"
            "head %12 [embd]\n");
}

// A residual that is read again after its Add keeps its own buffer.
TEST(GraphTest, KeepsAnAddendThatIsStillRead) {
  Graph g;
  const ValueId x = g.Embed(g.Weight("embd", {10, 8}));
  const ValueId y = g.Add(x, g.Linear(x, g.Weight("w", {8, 8})));
  g.Logits(g.Add(x, y), g.Weight("head", {10, 8}));
  ASSERT_TRUE(g.Finish().ok());
  const FusedGraph fused = Fuse(g);
  EXPECT_EQ(fused.storage[y], y);
  EXPECT_THAT(fused.Dump(g), HasSubstr("add %0 %2 -> %3\n"));
}

// A norm that both a product and an Add read exists as floats; the sum may not lie over it, since the product reads it too.
TEST(GraphTest, KeepsTheFloatsOfANormWithOtherReaders) {
  Graph g;
  const ValueId x = g.Embed(g.Weight("embd", {10, 8}));
  const ValueId h = g.RmsNorm(x, g.Weight("norm", {8}), 1e-5f);
  g.Logits(g.Add(h, g.Linear(h, g.Weight("w", {8, 8}))), g.Weight("head", {10, 8}));
  EXPECT_THAT(Fuse(g).Dump(g), HasSubstr("norm %0 norm norm -> %1\nactivate %1 -> %1\nproducts %1 [w + %1 -> %3]\n"));
}

// Blocks in parallel behind one norm, a plain network, Q, K and V in one tensor.
TEST(GraphTest, FusesBlocksInParallel) {
  Graph g;
  ValueId x = g.Embed(g.Weight("embd", {10, 8}));
  const ValueId h = g.Norm(x, {.kind = NormKind::kLayer, .eps = 1e-5f, .weight = g.Weight("norm", {8})});
  const Shape qkv{16, 8};
  const ValueId q = g.Linear(h, g.Rows("qkv", qkv, 0, 8), g.Rows("qkv_bias", {16}, 0, 8));
  const WeightId k_rows = g.Rows("qkv", qkv, 8, 4), k_bias = g.Rows("qkv_bias", {16}, 8, 4);
  const ValueId k = g.Linear(h, k_rows, k_bias);
  const ValueId v = g.Linear(h, g.Rows("qkv", qkv, 12, 4), g.Rows("qkv_bias", {16}, 12, 4));
  x = g.Add(x, g.Linear(g.Attention(q, k, v, Spec()), g.Weight("o", {8, 8})));
  const ValueId hidden = g.Linear(h, g.Weight("up", {12, 8}), g.Weight("up_bias", {12}));
  x = g.Add(x, g.Linear(g.Activation(hidden, ActivationKind::kGelu), g.Weight("down", {8, 12})));
  g.Logits(x, g.Weight("head", {10, 8}), g.Weight("head_bias", {10}), 30);
  ASSERT_TRUE(g.Finish().ok()) << g.Finish().ToString();
  EXPECT_EQ(g.weights()[k_rows].tensor, "qkv");
  EXPECT_EQ(g.weights()[k_rows].first_row, 8u);
  EXPECT_EQ(g.weights()[k_rows].shape.ToString(), "[4, 8]");
  EXPECT_EQ(g.weights()[k_bias].tensor_shape.ToString(), "[16]");
  EXPECT_EQ(Fuse(g).Dump(g),
            "embed [embd -> %0]\n"
            "activate %0 norm norm -> %1\n"
            "products %1 [qkv[0:8] + qkv_bias[0:8] -> %2] [qkv[8:12] + qkv_bias[8:12] -> %3] "
            "[qkv[12:16] + qkv_bias[12:16] -> %4]\n"
            "qkv_post %2 %3 %4\n"
            "attention %2 %3 %4 -> %5\n"
            "activate %5 -> %5\n"
            "products %5 [o + %0 -> %7 in %0]\n"
            "gated_products %1 [up + up_bias] -> %9\n"
            "activate %9 -> %9\n"
            "products %9 [down + %7 -> %11 in %0]\n"
            "head %11 [head + head_bias]\n");
}

// A norm inside the network, one of its result without weights, and what can't be fused.
TEST(GraphTest, NormsOfResultsAndElementwiseOpsStayStages) {
  Graph g;
  const ValueId x = g.Embed(g.Weight("embd", {10, 8}));
  const ValueId hidden =
      g.Gate(g.Linear(x, g.Weight("gate", {12, 8})), g.Linear(x, g.Weight("up", {12, 8})), ActivationKind::kSilu);
  const ValueId y = g.Linear(g.RmsNorm(hidden, g.Weight("inside", {12}), 1e-5f), g.Weight("down", {8, 12}));
  ValueId z = g.Add(x, g.Norm(y, {.eps = 1e-5f, .heads = 2}));
  z = g.Scale(g.Clamp(z, 2), g.Weight("factor", {1}), 3);
  z = g.Columns(g.AddPositions(z, g.Table("positions", {5, 8}), g.Weight("bias", {8})), 4, 4);
  g.Logits(g.Activation(z, ActivationKind::kReluSquared), g.Weight("head", {10, 4}));
  ASSERT_TRUE(g.Finish().ok()) << g.Finish().ToString();
  EXPECT_EQ(Fuse(g).Dump(g),
            "embed [embd -> %0]\n"
            "activate %0 -> %0\n"
            "gated_products %0 [gate] [up] -> %3\n"
            "activate %3 norm inside -> %4\n"
            "products %4 [down -> %5]\n"
            "norm %5 norm (no weight) -> %6\n"
            "add %0 %6 -> %7\n"
            "clamp %7 -> %8\n"
            "scale %8 -> %9\n"
            "add_positions %9 [positions + bias] -> %10\n"
            "columns %10 -> %11\n"
            "activation %11 -> %12\n"
            "head %12 [head]\n");
}

// Attention in its plain form: its stages are as the graph has them.
TEST(GraphTest, PairsStayStages) {
  Graph g;
  const ValueId x = g.Embed(g.Weight("embd", {10, 8}));
  const PairSpec pairs{.keys = 5, .heads = 2, .kv_heads = 1};
  const ValueId key = g.Columns(x, 0, 4);
  const ValueId scores = g.Scale(g.PairScores(x, key, pairs, g.Weight("w", {4})), 0.5f);
  const ValueId weights = g.Softmax(g.AddPositions(scores, g.Table("mask", {5, 10})), 2);
  g.Logits(g.WeightedSum(weights, key, pairs), g.Weight("head", {10, 8}));
  ASSERT_TRUE(g.Finish().ok()) << g.Finish().ToString();
  EXPECT_EQ(Fuse(g).Dump(g),
            "embed [embd -> %0]\n"
            "columns %0 -> %1\n"
            "pair_scores %0 %1 [w] -> %2\n"
            "scale %2 -> %3\n"
            "add_positions %3 [mask] -> %4\n"
            "softmax %4 -> %5\n"
            "weighted_sum %5 %1 -> %6\n"
            "head %6 [head]\n");
}

// A chunk's last stages run on wanted rows alone, but not where other rows are read.
TEST(GraphTest, PairsReadRowsThatNobodyWants) {
  Graph g;
  const ValueId x = g.Embed(g.Weight("embd", {10, 8}));
  const ValueId y = g.ShortConv(x, g.Table("conv", {8, 4}), kNoWeight, false);
  const ValueId key = g.Scale(y, 2);
  const ValueId out = g.WeightedSum(g.Softmax(g.PairScores(key, key, {.keys = 5})), key, {.keys = 5});
  g.Logits(g.Scale(out, 3), g.Weight("head", {10, 8}));
  ASSERT_TRUE(g.Finish().ok()) << g.Finish().ToString();
  for (const FusedStage& stage : Fuse(g).stages) {
    const bool after = stage.kind == StageKind::kHead || (stage.kind == StageKind::kScale && stage.factor == 3);
    EXPECT_EQ(stage.tail, after) << StageKindName(stage.kind);
  }
}

struct BadGraph {
  const char* reason;
  void (*build)(Graph& g, ValueId x);
};

void ExpectFaults(std::span<const BadGraph> cases) {
  for (const BadGraph& bad : cases) {
    Graph g;
    const ValueId x = g.Embed(g.Weight("embd", {10, 8}));
    g.SetLayer(3);
    bad.build(g, x);
    EXPECT_FALSE(g.Finish().ok());
    EXPECT_THAT(std::string(g.Finish().message()), HasSubstr(bad.reason));
  }
}

TEST(GraphTest, FaultsNameNodeLayerAndWeight) {
  const BadGraph cases[] = {
      {"linear (layer 3): weight w: expected 8 inputs, it has shape [4, 9]",
       [](Graph& g, ValueId x) {
         g.Linear(x, g.Weight("w", {4, 9}));
       }},
      {"linear (layer 3): weight b: expected [4], it has [5]",
       [](Graph& g, ValueId x) {
         g.Linear(x, g.Weight("w", {4, 8}), g.Weight("b", {5}));
       }},
      {"norm (layer 3): weight n: expected a table of 8 values, it has [7]",
       [](Graph& g, ValueId x) { g.RmsNorm(x, g.Weight("n", {7}), 1e-5f); }},
      {"add (layer 3): the two sides are 8 and 4 wide",
       [](Graph& g, ValueId x) {
         g.Add(x, g.Linear(x, g.Weight("w", {4, 8})));
       }},
      {"attention (layer 3): keys are 8 wide: expected 2 heads of 2",
       [](Graph& g, ValueId x) { g.Attention(x, x, x, Spec()); }},
      {"attention (layer 3): 4 heads over 3 KV heads",
       [](Graph& g, ValueId x) {
         AttentionSpec spec = Spec();
         spec.kv_heads = 3;
         g.Attention(x, x, x, spec);
       }},
      {"attention (layer 3): 4 heads over 0 KV heads",
       [](Graph& g, ValueId x) {
         AttentionSpec spec = Spec();
         spec.kv_heads = 0;
         g.Attention(x, x, x, spec);
       }},
      {"weight embd is wanted as [10, 8] and as [8, 8]",
       [](Graph& g, ValueId x) {
         g.Linear(x, g.Weight("embd", {8, 8}));
       }},
      {"weight t: rows 6 to 10 of [9, 8] are wanted",
       [](Graph& g, ValueId x) {
         g.Linear(x, g.Rows("t", {9, 8}, 6, 4));
       }},
      {"norm (layer 3): 8 values in 3 equal parts", [](Graph& g, ValueId x) { g.Norm(x, {.eps = 1e-5f, .heads = 3}); }},
      {"norm (layer 3): weight n: expected a table of 8 or 4 values, it has [2]",
       [](Graph& g, ValueId x) { g.Norm(x, {.eps = 1e-5f, .heads = 2, .weight = g.Weight("n", {2})}); }},
      {"add_positions (layer 3): weight t: expected a table of positions of 8 values, it has [5, 7]",
       [](Graph& g, ValueId x) {
         g.AddPositions(x, g.Table("t", {5, 7}));
       }},
      {"columns (layer 3): columns 6 to 10 of 8 are wanted", [](Graph& g, ValueId x) { g.Columns(x, 6, 4); }},
      {"scale (layer 3): weight f: expected [1], it has [2]",
       [](Graph& g, ValueId x) { g.Scale(x, g.Weight("f", {2}), 1); }},
      {"values or weights that do not exist", [](Graph& g, ValueId x) { g.Add(x, x + 100); }},
  };
  ExpectFaults(cases);
}

TEST(GraphTest, FaultsOfPairsToo) {
  const BadGraph cases[] = {
      {"pair_scores (layer 3): 4 heads over 3 KV heads and 5 keys",
       [](Graph& g, ValueId x) { g.PairScores(x, x, {.keys = 5, .heads = 4, .kv_heads = 3}); }},
      {"pair_scores (layer 3): 1 heads over 1 KV heads and 0 keys",
       [](Graph& g, ValueId x) { g.PairScores(x, x, {}); }},
      {"at most 4194304 scores a row",
       [](Graph& g, ValueId x) { g.PairScores(x, x, {.keys = SIZE_MAX / 2, .heads = 8, .kv_heads = 8}); }},
      {"pair_scores (layer 3): keys are 8 wide: expected 2 heads of 2",
       [](Graph& g, ValueId x) { g.PairScores(x, x, {.keys = 5, .heads = 4, .kv_heads = 2}); }},
      {"pair_scores (layer 3): queries are 8 wide: expected 3 heads of 2",
       [](Graph& g, ValueId x) { g.PairScores(x, x, {.keys = 5, .heads = 3, .kv_heads = 3}); }},
      {"pair_scores (layer 3): 16 heads of no elements",
       [](Graph& g, ValueId x) { g.PairScores(x, x, {.keys = 5, .heads = 16, .kv_heads = 16}); }},
      {"pair_scores (layer 3): weight w: expected [4], it has [8]",
       [](Graph& g, ValueId x) { g.PairScores(x, x, {.keys = 5, .heads = 2, .kv_heads = 2}, g.Weight("w", {8})); }},
      {"softmax (layer 3): 8 values in 3 equal parts", [](Graph& g, ValueId x) { g.Softmax(x, 3); }},
      {"weighted_sum (layer 3): weights are 8 wide: expected 2 heads of 5",
       [](Graph& g, ValueId x) { g.WeightedSum(x, x, {.keys = 5, .heads = 2}); }},
      {"weighted_sum (layer 3): values are 8 wide: expected 3 heads of 2",
       [](Graph& g, ValueId x) {
         const ValueId wide = g.Linear(x, g.Weight("wide", {15, 8}));
         g.WeightedSum(wide, x, {.keys = 5, .heads = 3, .kv_heads = 3});
       }},
  };
  ExpectFaults(cases);
}

TEST(GraphTest, FaultsOfExpertsToo) {
  const BadGraph cases[] = {
      {"sigmoid_gate (layer 3): the gate of a row is 8 wide: expected 1",
       [](Graph& g, ValueId x) { g.SigmoidGate(x, x); }},
      {"experts (layer 3): the router has 8 outputs: expected one for each of 4 experts",
       [](Graph& g, ValueId x) { g.Experts(x, x, Weights(g), FourExperts(2)); }},
      {"experts (layer 3): 5 of 4 experts are used",
       [](Graph& g, ValueId x) {
         g.Experts(x, g.Linear(x, g.Weight("r", {4, 8})), Weights(g), FourExperts(5));
       }},
      {"experts (layer 3): 0 of 4 experts are used",
       [](Graph& g, ValueId x) {
         g.Experts(x, g.Linear(x, g.Weight("r", {4, 8})), Weights(g), FourExperts(0));
       }},
      {"experts (layer 3): weight gates: expected 3 dimensions of at least 1, it has [4, 8]",
       [](Graph& g, ValueId x) {
         ExpertWeights w{g.Weight("gates", {4, 8}), g.Weight("ups", {4, 12, 8}), g.Weight("downs", {4, 8, 12})};
         g.Experts(x, g.Linear(x, g.Weight("r", {4, 8})), w, FourExperts(2));
       }},
      {"weight ups: expected 4 experts of 8 inputs, it has shape [5, 12, 8]",
       [](Graph& g, ValueId x) {
         ExpertWeights w{g.Weight("gates", {4, 12, 8}), g.Weight("ups", {5, 12, 8}), g.Weight("downs", {4, 8, 12})};
         g.Experts(x, g.Linear(x, g.Weight("r", {4, 8})), w, FourExperts(2));
       }},
      {"weights gates and ups: expected equal shapes, they have [4, 12, 8] and [4, 13, 8]",
       [](Graph& g, ValueId x) {
         ExpertWeights w{g.Weight("gates", {4, 12, 8}), g.Weight("ups", {4, 13, 8}), g.Weight("downs", {4, 8, 12})};
         g.Experts(x, g.Linear(x, g.Weight("r", {4, 8})), w, FourExperts(2));
       }},
      {"weight b: expected a table [4, 12], it has [4, 8]",
       [](Graph& g, ValueId x) {
         ExpertWeights w = Weights(g);
         w.gate_bias = w.up_bias = w.down_bias = g.Table("b", {4, 8});
         g.Experts(x, g.Linear(x, g.Weight("r", {4, 8})), w, FourExperts(2));
       }},
      {"biases of all three products or of none",
       [](Graph& g, ValueId x) {
         ExpertWeights w = Weights(g);
         w.down_bias = g.Table("b", {4, 8});
         g.Experts(x, g.Linear(x, g.Weight("r", {4, 8})), w, FourExperts(2));
       }},
  };
  ExpectFaults(cases);
}

// q of 8, k and v of 4.
template <class Change>
void Attend(Graph& g, ValueId x, Change change) {
  AttentionSpec spec = Spec();
  change(spec);
  const ValueId k = g.Linear(x, g.Weight("wk", {4, 8}));
  g.Attention(g.Linear(x, g.Weight("wq", {8, 8})), k, k, spec);
}

TEST(GraphTest, FaultsOfAttentionToo) {
  const BadGraph cases[] = {
      {"weight sinks: expected [4], it has [2]",
       [](Graph& g, ValueId x) { Attend(g, x, [&](auto& s) { s.sinks = g.Weight("sinks", {2}); }); }},
      {"weight n: expected [2] or a table [4, 2], it has [2, 4]",
       [](Graph& g, ValueId x) { Attend(g, x, [&](auto& s) {
                                   s.q_norm = g.Table("n", {2, 4});
                                 }); }},
      {"weight n: expected [2] or a table [2, 2], it has [4, 2]",
       [](Graph& g, ValueId x) { Attend(g, x, [&](auto& s) {
                                   s.k_norm = g.Table("n", {4, 2});
                                 }); }},
      {"no chunks in an encoder",
       [](Graph& g, ValueId x) {
         Attend(g, x, [](auto& s) {
           s.bidirectional = true;
           s.chunk = 8;
         });
       }},
      {"a softcap of nan", [](Graph& g, ValueId x) { Attend(g, x, [](auto& s) { s.softcap = NAN; }); }},
      {"an ALiBi bias of -1", [](Graph& g, ValueId x) { Attend(g, x, [](auto& s) { s.alibi_max_bias = -1; }); }},
      {"shared_attention (layer 3): the keys of layer 2 are read: expected an earlier layer",
       [](Graph& g, ValueId x) {
         Attend(g, x, [](auto&) {});
         g.SharedAttention(x, 2, Spec());
       }},
      {"shared_attention (layer 3): the keys of layer -1 are read",
       [](Graph& g, ValueId x) { g.SharedAttention(x, -1, Spec()); }},
      {"the keys of layer 3 are read as 2 heads of 2 and 2 with window 5, chunk 0: they were written as 2 of 2 and 2 "
       "with 0, 0",
       [](Graph& g, ValueId x) {
         Attend(g, x, [](auto&) {});
         AttentionSpec spec = Spec();
         spec.window = 5;
         g.SharedAttention(x, 3, spec);
       }},
  };
  ExpectFaults(cases);
}

TEST(GraphTest, MustEndInLogits) {
  Graph g;
  EXPECT_FALSE(g.Finish().ok());
  const ValueId x = g.Embed(g.Weight("embd", {10, 8}));
  EXPECT_FALSE(g.Finish().ok());
  g.Logits(x, g.Weight("embd", {10, 8}));
  EXPECT_TRUE(g.Finish().ok());
  g.Add(x, x);
  EXPECT_THAT(std::string(g.Finish().message()), HasSubstr("comes after the outputs"));
}

}  // namespace
}  // namespace moonlit
