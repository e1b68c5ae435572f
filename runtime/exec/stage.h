// SPDX-License-Identifier: Apache-2.0
// A stage bound to kernels and memory: one parallel loop of a step.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "runtime/exec/bindings.h"

namespace moonlit {

class ExecStage {
 public:
  virtual ~ExecStage() = default;
  // Cuts this step's work into tasks and returns their number (0: nothing to do). Called before the pool starts; the step's
  // tables are filled. Does not allocate.
  virtual size_t Begin() = 0;
  // Does one task. Tasks write disjoint memory; `thread` selects the scratch.
  virtual void Run(size_t task, size_t thread) = 0;
  virtual std::string Describe() const = 0;
};

// One factory a kind of stage, in ops/. The stage keeps pointers into `bindings`, which outlives it.
std::unique_ptr<ExecStage> MakeEmbedStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeAddPositionsStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeActivateStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeNormStage(const Bindings& bindings, const FusedStage& stage);
// What comes before a stage that HasLowRankAddends: nothing where the step has no adapters.
std::unique_ptr<ExecStage> MakeLowRankStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeProductsStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeGatedProductsStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeElementwiseStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeRouteStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeGatherExpertsStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeGatedExpertsStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeDownExpertsStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeRopeAnglesStage(const Bindings& bindings, RopeAngles& angles);
std::unique_ptr<ExecStage> MakeQkvPostStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeBoundKeysStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeChoosePagesStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeAttentionStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeAttentionMergeStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeRecurrentStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeShortConvStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeGatesStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakePairsStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeHeadInputStage(const Bindings& bindings, const FusedStage& stage);
// In place of both, the head's rows as hidden states.
std::unique_ptr<ExecStage> MakeHiddenRowsStage(const Bindings& bindings, const FusedStage& stage);
std::unique_ptr<ExecStage> MakeHeadProductStage(const Bindings& bindings, const FusedStage& stage);

using StageMaker = std::unique_ptr<ExecStage> (*)(const Bindings& bindings, const FusedStage& stage);
// Null for what becomes several stages, or none: hidden rows are where the layers left them.
StageMaker MakerOf(StageKind kind);

// Outputs of the smallest task of gated products: whole tiles of both weights; whole groups of A8 (two, to share fewer lines)
// when the output is quantized there. A product without a second one stands for both.
size_t GatedUnitOutputs(const PackedMatrix& gate, const PackedMatrix& up, bool a8);
// Whether a gated product can write its output as A8 itself, so that no kActivate stage is needed: tasks own whole groups of 32.
bool GatedOutputIsA8(const PackedMatrix& gate, const PackedMatrix& up, bool exact, bool output_wants_floats);

// Floats of a sequence's state that the stage keeps (0: none), and bytes of scratch that it wants in a thread.
uint64_t StateFloats(const Graph& graph, const FusedStage& stage);
size_t RecurrentScratch(const FusedStage& stage);

}  // namespace moonlit
