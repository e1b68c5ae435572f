// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/arena.h"

#include <algorithm>

#include "runtime/exec/ops/expert_groups.h"
#include "runtime/exec/stage.h"
#include "runtime/exec/xnnpack_matrix.h"
#include "runtime/graph/memory_plan.h"

namespace moonlit {
namespace {

constexpr size_t kFloatsPerLine = XnnpackMatrix::kInputUnit;
constexpr size_t kReadablePast = FloatProduct::kReadablePast * sizeof(float);
constexpr uint32_t kNever = UINT32_MAX;

struct Lifetime {
  uint32_t first = kNever, last = 0;
  void Touch(size_t stage) {
    first = std::min(first, static_cast<uint32_t>(stage));
    last = std::max(last, static_cast<uint32_t>(stage));
  }
  bool used() const { return first != kNever; }
};

// A8Bytes, in 64 bits.
uint64_t A8BytesOf(uint64_t rows, size_t k) {
  const A8View view = MakeA8View(nullptr, static_cast<size_t>(rows), k);
  return (rows + view.block_rows - 1) / view.block_rows * view.block_bytes;
}

// Of one experts node: what its stages hand to each other.
struct ExpertLives {
  Lifetime groups, rows, hidden;
};

class ArenaLayout {
 public:
  ArenaLayout(const FusedGraph& fused, Bindings& bindings)
      : fused_(fused),
        b_(bindings),
        floats_(bindings.graph->values().size()),
        normed_(floats_.size()),
        a8_(floats_.size()),
        two_terms_(floats_.size()),
        activated_from_(floats_.size(), kNoValue),
        experts_(bindings.experts_places.size()) {
    b_.values.assign(floats_.size(), {});
    b_.inputs.assign(floats_.size(), {});
    b_.by_two_terms.assign(floats_.size(), false);
  }

  // Bytes of the arena.
  uint64_t Plan(size_t scratch_bytes) {
    ChooseForms();
    for (size_t s = 0; s < fused_.stages.size(); ++s) TouchStage(fused_.stages[s], s);
    CollectNeeds(scratch_bytes);
    plan_ = PlanMemory(needs_);
    return plan_.bytes + kReadablePast;
  }

  Result<Buffer> Run(size_t scratch_bytes) {
    const uint64_t bytes = Plan(scratch_bytes);
    MOONLIT_ASSIGN_OR_RETURN(Buffer arena,
                             Buffer::Allocate(bytes, "the arena of intermediates", b_.options->allocator));
    Place(arena.data());
    return arena;
  }

 private:
  size_t Width(ValueId v) const { return b_.graph->values()[v].width; }
  bool ReadsA8(WeightId w) const { return moonlit::ReadsA8(b_.weights->matrix(w), b_.options->exact); }

  void Want(ProductInput& input, WeightId weight, size_t width) {
    input.width = width;
    (ReadsA8(weight) ? input.wants_a8 : input.wants_floats) = true;
  }

  void WantTwoTerms(ProductInput& input, WeightId weight, size_t width) {
    input.width = width;
    (ReadsA8(weight) ? input.wants_two_terms : input.wants_floats) = true;
  }

  // Attention's values; and of down products with Q2_K weights (docs/design.md).
  void ChooseTwoTerms() {
    std::vector<bool> gated(floats_.size());
    for (const FusedStage& stage : fused_.stages) {
      if (stage.kind == StageKind::kGatedProducts) gated[stage.output] = true;
      if (stage.kind == StageKind::kQkvPost && stage.input_c != kNoValue) b_.by_two_terms[stage.input_c] = true;
    }
    for (const FusedStage& stage : fused_.stages) {
      if (stage.kind != StageKind::kProducts || !gated[stage.input]) continue;
      for (const ProductPart& part : stage.parts) {
        if (b_.weights->matrix(part.weight).format == Format::kQ2_K) b_.by_two_terms[part.output] = true;
      }
    }
  }

  void ChooseForms() {
    ChooseTwoTerms();
    for (const FusedStage& stage : fused_.stages) {
      if (stage.kind == StageKind::kProducts) {
        for (const ProductPart& part : stage.parts) {
          const auto want = b_.by_two_terms[part.output] ? &ArenaLayout::WantTwoTerms : &ArenaLayout::Want;
          (this->*want)(b_.inputs[stage.input], part.weight, Width(stage.input));
        }
      } else if (stage.kind == StageKind::kGatedProducts) {
        for (const ProductPart& part : stage.parts) Want(b_.inputs[stage.input], part.weight, Width(stage.input));
      } else if (stage.kind == StageKind::kGatedExperts) {
        ChooseExpertForms(stage);
      } else if (stage.kind == StageKind::kDownExperts) {
        const WeightId down = stage.parts[0].weight;
        Want(b_.experts_places[stage.experts_index].hidden, down, b_.weights->matrix(down).k);
      } else if (stage.kind == StageKind::kHead) {
        WantTwoTerms(b_.head_input, stage.parts[0].weight, Width(stage.input));
      } else if (stage.kind == StageKind::kActivate) {
        activated_from_[stage.output] = stage.norm ? kNoValue : stage.input;
      }
    }
  }

  void ChooseExpertForms(const FusedStage& stage) {
    ProductInput& input = b_.inputs[stage.input];
    ProductInput& rows = b_.experts_places[stage.experts_index].rows;
    for (const ProductPart& part : stage.parts) {
      Want(rows, part.weight, Width(stage.input));
      if (!stage.experts.weigh_inputs) Want(input, part.weight, Width(stage.input));
    }
    input.width = rows.width;
    input.wants_floats |= stage.experts.weigh_inputs;
  }

  // A gated output that only products of the A8 kind read never exists as floats.
  bool WrittenAsA8(const FusedStage& gated) const {
    const ValueId v = gated.output;
    const ProductInput& input = b_.inputs[v];
    if (!input.wants_a8 || input.wants_two_terms || ReadAsFloats(v)) return false;
    return GatedOutputIsA8(b_.weights->matrix(gated.parts[0].weight), b_.weights->matrix(gated.parts.back().weight),
                           b_.options->exact, input.wants_floats);
  }

  // Whether a stage other than a quantization reads v's floats.
  bool ReadAsFloats(ValueId v) const {
    return std::any_of(fused_.stages.begin(), fused_.stages.end(), [&](const FusedStage& stage) {
      const bool product = stage.kind == StageKind::kProducts || stage.kind == StageKind::kGatedProducts ||
                           stage.kind == StageKind::kGatherExperts || stage.kind == StageKind::kGatedExperts;
      if (stage.kind == StageKind::kActivate && !stage.norm) return false;
      if (!product &&
          (stage.input == v || stage.input_b == v || stage.input_c == v || stage.input_d == v || stage.input_e == v)) {
        return true;
      }
      return std::any_of(stage.parts.begin(), stage.parts.end(),
                         [&](const ProductPart& part) { return part.addend == v; });
    });
  }

  void TouchFloats(ValueId v, size_t stage) {
    if (v != kNoValue) floats_[fused_.storage[v]].Touch(stage);
  }

  void TouchInput(ValueId v, size_t stage) {
    const ProductInput& input = b_.inputs[v];
    if (input.wants_a8) a8_[v].Touch(stage);
    if (input.wants_two_terms) two_terms_[v].Touch(stage);
    if (!input.wants_floats) return;
    if (activated_from_[v] != kNoValue) {
      TouchFloats(activated_from_[v], stage);
    } else {
      normed_[v].Touch(stage);
    }
  }

  void TouchExperts(const FusedStage& stage, size_t s) {
    ExpertLives& lives = experts_[stage.experts_index];
    lives.groups.Touch(s);
    if (stage.kind == StageKind::kRoute) return TouchFloats(stage.input, s);
    if (stage.kind != StageKind::kDownExperts) TouchInput(stage.input, s);
    if (stage.kind != StageKind::kDownExperts) lives.rows.Touch(s);
    if (stage.kind != StageKind::kGatherExperts) lives.hidden.Touch(s);
  }

  void TouchStage(const FusedStage& stage, size_t s) {
    switch (stage.kind) {
      case StageKind::kRoute:
      case StageKind::kGatherExperts:
      case StageKind::kGatedExperts:
      case StageKind::kDownExperts:
        TouchExperts(stage, s);
        break;
      case StageKind::kActivate:
        if (!direct_a8_.empty() && direct_a8_[stage.output]) return;
        TouchFloats(stage.input, s);
        TouchInput(stage.output, s);
        return;
      case StageKind::kProducts:
      case StageKind::kGatedProducts:
        TouchInput(stage.input, s);
        if (stage.kind == StageKind::kGatedProducts && WrittenAsA8(stage)) {
          direct_a8_.resize(floats_.size(), false);
          direct_a8_[stage.output] = true;
          a8_[stage.output].Touch(s);
          return;
        }
        break;
      default:
        for (ValueId v : {stage.input, stage.input_b, stage.input_c, stage.input_d, stage.input_e}) TouchFloats(v, s);
        break;
    }
    TouchFloats(stage.output, s);
    for (const ProductPart& part : stage.parts) {
      TouchFloats(part.addend, s);
      TouchFloats(part.output, s);
    }
  }

  // Registers `bytes` for a lifetime; the pointer is set once the offsets are known.
  template <typename Assign>
  void Need(uint64_t bytes, const Lifetime& life, Assign assign) {
    if (!life.used()) return;
    needs_.push_back({bytes, life.first, life.last});
    assigns_.push_back(assign);
  }

  static size_t Stride(size_t width) { return RoundUp(width, kFloatsPerLine); }

  void CollectNeeds(size_t scratch_bytes) {
    const uint64_t rows = b_.options->max_rows;
    for (ValueId v = 0; v < floats_.size(); ++v) {
      const size_t stride = Stride(Width(v));
      ProductInput& input = b_.inputs[v];
      Need(rows * stride * sizeof(float), floats_[v], [this, v, stride](uint8_t* p) {
        b_.values[v] = {reinterpret_cast<float*>(p), stride};
      });
      Need(rows * stride * sizeof(float), normed_[v], [&input, stride](uint8_t* p) {
        input.floats = {reinterpret_cast<float*>(p), stride};
      });
      Need(A8BytesOf(rows, input.width), a8_[v], [&input](uint8_t* p) { input.a8_memory = p; });
      Need(A8BytesOf(2 * rows, input.width), two_terms_[v], [&input](uint8_t* p) { input.two_terms_memory = p; });
    }
    for (size_t i = 0; i < experts_.size(); ++i) PlaceExperts(b_.experts_places[i], experts_[i]);
    PlaceHeadAndScratch(scratch_bytes);
  }

  void Place(uint8_t* arena) {
    for (size_t i = 0; i < needs_.size(); ++i) assigns_[i](arena + static_cast<size_t>(plan_.offsets[i]));
    for (ValueId v = 0; v < floats_.size(); ++v) {
      if (fused_.storage[v] != v) b_.values[v] = b_.values[fused_.storage[v]];
    }
    for (ValueId v = 0; v < floats_.size(); ++v) {
      if (b_.inputs[v].wants_floats && activated_from_[v] != kNoValue)
        b_.inputs[v].floats = b_.values[activated_from_[v]];
    }
  }

  void PlaceExperts(Bindings::ExpertsPlace& place, const ExpertLives& lives) {
    ExpertGroups* groups = place.groups;
    Need(groups->Bytes(), lives.groups, [groups](uint8_t* p) { groups->Place(p); });
    for (ProductInput* input : {&place.rows, &place.hidden}) {
      const Lifetime& life = input == &place.rows ? lives.rows : lives.hidden;
      const size_t stride = Stride(input->width);
      if (input->wants_floats) {
        Need(uint64_t{groups->max_slots()} * stride * sizeof(float), life, [input, stride](uint8_t* p) {
          input->floats = {reinterpret_cast<float*>(p), stride};
        });
      }
      if (input->wants_a8) {
        Need(uint64_t{groups->most_a8_rows()} * A8Bytes(1, input->width), life,
             [input](uint8_t* p) { input->a8_memory = p; });
      }
    }
  }

  void PlaceHeadAndScratch(size_t attention_bytes) {
    if (fused_.stages.back().kind == StageKind::kHead) PlaceHead();
    const uint32_t last = static_cast<uint32_t>(fused_.stages.size()) - 1;
    const Lifetime always{0, last};
    Need(kTripleFloats * sizeof(float), always, [this](uint8_t* p) { b_.triples = reinterpret_cast<float*>(p); });
    size_t widest = 0;
    for (const Value& value : b_.graph->values()) widest = std::max(widest, value.width);
    const size_t floats = std::max(2 * kGateScratchFloats, Stride(widest));
    // A page between threads' scratch keeps prefetchers off each other's lines.
    const size_t per_thread = RoundUp(std::max(attention_bytes, floats * sizeof(float)), size_t{4096}) + 4096;
    Need(uint64_t{per_thread} * b_.threads, always, [this, per_thread](uint8_t* p) { b_.scratch = {p, per_thread}; });
  }

  void PlaceHead() {
    // The head is the last stage and runs once for each block of wanted rows: what it writes must not meet the rows it reads.
    const uint32_t last = static_cast<uint32_t>(fused_.stages.size()) - 1;
    const Lifetime at_head{last, last};
    ProductInput& head = b_.head_input;
    const size_t stride = Stride(head.width);
    Need(uint64_t{kHeadRows} * stride * sizeof(float), at_head, [&head, stride](uint8_t* p) {
      head.floats = {reinterpret_cast<float*>(p), stride};
    });
    Need(uint64_t{kHeadRows} * stride * sizeof(float), at_head, [this, stride](uint8_t* p) {
      b_.hidden = {reinterpret_cast<float*>(p), stride};
    });
    Need(A8BytesOf(2 * kHeadRows, head.width), at_head, [&head](uint8_t* p) { head.two_terms_memory = p; });
    const size_t logits_stride = Stride(b_.weights->matrix(fused_.stages.back().parts[0].weight).n);
    Need(uint64_t{kHeadRows} * logits_stride * sizeof(float), at_head, [this, logits_stride](uint8_t* p) {
      b_.logits = {reinterpret_cast<float*>(p), logits_stride};
    });
  }

  const FusedGraph& fused_;
  Bindings& b_;
  std::vector<Lifetime> floats_, normed_, a8_, two_terms_;  // [values]
  std::vector<ValueId> activated_from_;                     // [values] input of a kActivate stage without a norm
  std::vector<bool> direct_a8_;                             // [values]
  std::vector<ExpertLives> experts_;                        // [experts nodes]
  std::vector<BufferNeed> needs_;
  std::vector<std::function<void(uint8_t*)>> assigns_;
  MemoryPlan plan_;
};

}  // namespace

Result<Buffer> LayOutArena(const FusedGraph& fused, size_t scratch_bytes, Bindings& bindings) {
  return ArenaLayout(fused, bindings).Run(scratch_bytes);
}

uint64_t ArenaBytes(const FusedGraph& fused, size_t scratch_bytes, Bindings& bindings) {
  return ArenaLayout(fused, bindings).Plan(scratch_bytes);
}

}  // namespace moonlit
