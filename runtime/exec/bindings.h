// SPDX-License-Identifier: Apache-2.0
// What a stage needs to bind itself: kernels of the variant, packed weights, and where each value lives in the arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/base/round.h"
#include "kernels/linear_attention/linear_attention.h"
#include "kernels/matmul/matmul.h"
#include "kernels/norm/norm.h"
#include "kernels/pairs/pairs.h"
#include "kernels/rope/rope.h"
#include "runtime/exec/packed_weights.h"
#include "runtime/exec/plan.h"
#include "runtime/exec/step.h"
#include "runtime/graph/fusion.h"
#include "runtime/graph/graph.h"

namespace moonlit {

// Rows of floats in the arena.
struct FloatRows {
  float* data = nullptr;
  size_t stride = 0;
  float* row(size_t r) const { return data + r * stride; }
};

// A product input in the forms that its products read: A8, A8 by two terms, floats (a stage may hold products of all kinds).
struct ProductInput {
  size_t width = 0;
  bool wants_a8 = false;
  bool wants_two_terms = false;
  bool wants_floats = false;
  FloatRows floats;
  uint8_t* a8_memory = nullptr;         // null: no A8 form
  uint8_t* two_terms_memory = nullptr;  // likewise
  A8View a8{};
  A8View two_terms{};  // row r's terms are its rows 2r and 2r + 1

  // A8 lies in memory as the number of rows wants it. Called before a step's stages are begun.
  void Arrange(size_t rows) {
    if (a8_memory != nullptr) a8 = MakeA8View(a8_memory, rows, width);
    if (two_terms_memory != nullptr) two_terms = MakeA8View(two_terms_memory, 2 * rows, width);
  }
};

// One thread's private memory during a task.
struct Scratch {
  uint8_t* data = nullptr;
  size_t stride = 0;  // bytes a thread
  void* of(size_t thread) const { return data + thread * stride; }
  float* floats(size_t thread) const { return static_cast<float*>(of(thread)); }
};

class AttentionGeometry;  // ops/attention_geometry.h
class ExpertGroups;       // ops/expert_groups.h
class PageChoices;        // ops/page_choices.h
class RopeAngles;         // rope_angles.h

struct Bindings {
  const Graph* graph;
  const PlanOptions* options;
  const WeightStore* weights;
  const Step* step;
  size_t threads;

  const ProductTable* products;
  const NormTable* norms;
  const RopeTable* rope;
  const ActivationTable* activations;
  const AttentionTable* attention;
  const LinearAttentionTable* recurrent;
  const PairTable* pairs;

  std::vector<FloatRows> values;     // [values], data null where a value has no float form
  std::vector<ProductInput> inputs;  // [values], width 0 where no product reads the value
  // [values] results that eight bits of activation are too few for, where the weights are quantized: what attention takes as
  // values, and those of down products with Q2_K weights. (The head's logits are the other such result.)
  std::vector<bool> by_two_terms;
  Scratch scratch;
  float* triples = nullptr;  // kTripleFloats: segments of attention that wait for the merge
  FloatRows logits;          // [kHeadRows, vocab]
  FloatRows hidden;          // [kHeadRows, width]: in place of logits, where they are wanted
  ProductInput head_input;   // [kHeadRows, width]

  // Of every attention node: cache group and layer inside it (an earlier node's, if it shares that one's), tables of its step,
  // angles.
  struct AttentionPlace {
    const PageLayout* layout;
    size_t group;
    size_t layer_in_group;
    AttentionGeometry* geometry;
    const RopeAngles* angles;        // null: no RoPE
    PageChoices* choices = nullptr;  // null: every token reads all its pages
  };
  std::vector<AttentionPlace> attention_places;

  // Of every experts node: who goes to which expert, and the rows in that order before and behind the gated products.
  struct ExpertsPlace {
    ExpertGroups* groups;
    ProductInput rows, hidden;  // a8_memory has a region an expert; a8 is not set
  };
  std::vector<ExpertsPlace> experts_places;

  // Of every node with a recurrent state: where it begins in a sequence's, in floats.
  std::vector<size_t> state_offsets;
};

// Room for split attention: 32 heads of 128 over 200 000 tokens. A step that needs more runs unsplit.
inline constexpr size_t kTripleFloats = size_t{2} << 20;

// Scratch bytes that row-wise stages and gated products may use in a thread.
inline constexpr size_t kGateScratchFloats = size_t{32} << 10;  // for gate, and as many for up

// What a stage's norm, product or head multiplies with: reads A8 unless exact or a float format.
inline bool ReadsA8(const PackedMatrix& matrix, bool exact) {
  return !exact && matrix.kernel->activation == Activation::kA8;
}

}  // namespace moonlit
