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
  std::vector<double>
      differences;  // [heads] the largest of a token's |weights V - fused| / |fused|, by Euclidean norms
};

// Heads [first, first + count) of those that were captured of a layer. machine: of the model's variant.
Result<HeadTables> ComputeHeads(LessonMachine& machine, const CapturedModel& model, const CapturedLayer& layer,
                                size_t index, size_t first, size_t count);

// How far weights V and the fused output may differ for a cache of these types: docs/attention.md's bounds for scores with a
// deviation of 3, times what scores of a real model are larger by (docs/seeing-attention.md).
double AllowedDifference(CacheType keys, CacheType values);

}  // namespace moonlit::cli
