// SPDX-License-Identifier: Apache-2.0
// The table that the fused kernel never stores, of some heads of a layer: softmax(scale q k^T + mask) by graph ops (PairScores,
// AddPositions, Softmax), and, as a check, that table times the values (WeightedSum) against what the fused kernel gave.
#pragma once

#include <cstddef>

#include "tools/cli/attention_capture.h"
#include "tools/cli/lesson_graph.h"

namespace moonlit::cli {

// Floats of the tables that are computed at once, where more than one head goes.
inline constexpr size_t kTableFloats = size_t{1} << 20;

struct HeadTables {
  Matrix weights;  // [tokens, heads * tokens]
  // [heads] the largest of a token's |weights V - fused|, by Euclidean norms and in parts of the sum of its weights times |v|; and the
  // largest of these in parts of what is allowed for that token.
  std::vector<double> differences, strains;
};

// Heads [first, first + count) of those that were captured of a layer. machine: of the model's variant.
Result<HeadTables> ComputeHeads(LessonMachine& machine, const CapturedModel& model, const CapturedLayer& layer,
                                size_t index, size_t first, size_t count);

// How far weights V and the fused output may be apart, with a cache of these types. score: |scale| |q| times the largest |k|, what no
// score of the token can exceed. docs/seeing-attention.md says where the figures come from.
double AllowedDifference(CacheType keys, CacheType values, double score);

}  // namespace moonlit::cli
