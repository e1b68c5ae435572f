// SPDX-License-Identifier: Apache-2.0
// Everything between the QKV products and the output product: head norms, RoPE and the cache write (kQkvPost), then fused attention
// over the pages (kAttention, and the merge of split segments).
#include <algorithm>
#include <cmath>

#include "runtime/exec/ops/attention_geometry.h"
#include "runtime/exec/rope_angles.h"
#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

// One task: the tokens of one 16-token group of slots, one KV head with its query heads. Cache groups of 16 tokens are written by
// one task each, so no two tasks touch one word.
class QkvPostStage : public ExecStage {
 public:
  QkvPostStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        spec_(stage.attention),
        place_(b.attention_places[stage.attention_index]),
        q_(b.values[stage.input]),
        k_(b.values[stage.input_b]),
        v_(b.values[stage.input_c]),
        q_norm_(b.weights->vector(spec_.q_norm)),
        k_norm_(b.weights->vector(spec_.k_norm)) {}

  size_t Begin() override { return b_.step->slot_groups().size() * spec_.kv_heads; }

  void Run(size_t task, size_t) override {
    const SlotGroup& group = b_.step->slot_groups()[task / spec_.kv_heads];
    const size_t head = task % spec_.kv_heads;
    const size_t heads = spec_.heads / spec_.kv_heads;
    for (size_t row = group.first_row; row < group.first_row + group.count; ++row) {
      PrepareHeads(q_.row(row) + head * heads * spec_.key_dim, heads, q_norm_, row);
      PrepareHeads(k_.row(row) + head * spec_.key_dim, 1, k_norm_, row);
    }
    const PageLayout& layout = *place_.layout;
    const size_t slot = static_cast<size_t>(group.slot);
    uint8_t* page = b_.step->spans()[group.span].pages[place_.group][slot / layout.page_tokens];
    uint8_t* part = page + PagePartOffset(layout, place_.layer_in_group, head);
    b_.attention->pack_keys(layout, part, slot % layout.page_tokens, group.count,
                            k_.row(group.first_row) + head * spec_.key_dim, k_.stride);
    b_.attention->pack_values(layout, part, slot % layout.page_tokens, group.count,
                              v_.row(group.first_row) + head * spec_.value_dim, v_.stride);
  }

  std::string Describe() const override {
    return std::string("qkv_post") + (q_norm_ || k_norm_ ? " head_norms" : "") + (place_.angles ? " rope" : "") +
           " -> " + CacheTypeName(place_.layout->key_type) + "/" + CacheTypeName(place_.layout->value_type);
  }

 private:
  void PrepareHeads(float* x, size_t heads, const float* norm, size_t row) const {
    const size_t d = spec_.key_dim;
    if (norm != nullptr) {
      b_.norms->rms_norm_rows({.x = x,
                               .x_stride = d,
                               .rows = heads,
                               .d = d,
                               .weight = norm,
                               .bias = nullptr,
                               .eps = spec_.norm_eps,
                               .out = x,
                               .out_stride = d});
    }
    if (place_.angles == nullptr) return;
    b_.rope->rotate_heads({.kind = spec_.rope.pairs == RopePairs::kHalves ? RopeKind::kHalves : RopeKind::kPairs,
                           .x = x,
                           .x_stride = d,
                           .heads = heads,
                           .head_dim = d,
                           .rotated = spec_.rope.dims,
                           .cosines = place_.angles->cosines(row),
                           .sines = place_.angles->sines(row),
                           .out = x,
                           .out_stride = d});
  }

  const Bindings& b_;
  AttentionSpec spec_;
  Bindings::AttentionPlace place_;
  FloatRows q_, k_, v_;
  const float* q_norm_;
  const float* k_norm_;
};

// The arguments of one call, on the stack of a task.
struct CallRows {
  const float* q[kAttentionMaxRows];
  float* out[kAttentionMaxRows];
  int64_t first[kAttentionMaxRows];
  int64_t last[kAttentionMaxRows];
};

class AttentionBase : public ExecStage {
 public:
  AttentionBase(const Bindings& b, const FusedStage& stage)
      : b_(b),
        spec_(stage.attention),
        place_(b.attention_places[stage.attention_index]),
        q_(b.values[stage.input]),
        out_(b.values[stage.output]) {}

 protected:
  const AttentionGeometry& geometry() const { return *place_.geometry; }

  float* OutRow(const AttentionChunk& chunk, size_t head, size_t r) const {
    const size_t group = geometry().group(), row = chunk.first_row + r;
    return out_.row(b_.step->span_row(chunk.span) + row / group) + (head * group + row % group) * spec_.value_dim;
  }
  SlotInterval RowInterval(const AttentionChunk& chunk, size_t r) const {
    const size_t token = (chunk.first_row + r) / geometry().group();
    return geometry().Visible(b_.step->spans()[chunk.span].first_slot + static_cast<int64_t>(token));
  }
  float* Triples(const AttentionChunk& chunk, size_t head) const {
    return b_.triples + chunk.triples + head * chunk.segments * geometry().SegmentFloats(chunk);
  }

  const Bindings& b_;
  AttentionSpec spec_;
  Bindings::AttentionPlace place_;
  FloatRows q_, out_;
};

class AttentionStage : public AttentionBase {
 public:
  using AttentionBase::AttentionBase;

  size_t Begin() override { return geometry().split() ? geometry().split_tasks() : geometry().whole_tasks(); }

  void Run(size_t task, size_t thread) override {
    const AttentionGeometry& g = geometry();
    CallRows rows;
    if (!g.split()) {
      // The last chunks see most keys: they go first, so that the stage ends with short tasks.
      const size_t reversed = g.whole_tasks() - 1 - task;
      const AttentionChunk& chunk = g.chunks()[reversed / spec_.kv_heads];
      b_.attention->attend(Arguments(chunk, reversed % spec_.kv_heads, thread, rows));
      return;
    }
    const AttentionChunk& chunk = g.ChunkOfTask(task);
    const size_t head = (task - chunk.first_task) / chunk.segments;
    const size_t segment = (task - chunk.first_task) % chunk.segments;
    b_.attention->attend_segment(Arguments(chunk, head, thread, rows), chunk.first_segment + segment,
                                 Triples(chunk, head) + segment * g.SegmentFloats(chunk));
  }

  std::string Describe() const override {
    return "attention heads " + std::to_string(spec_.heads) + "/" + std::to_string(spec_.kv_heads) + " dims " +
           std::to_string(spec_.key_dim) + "/" + std::to_string(spec_.value_dim);
  }

 private:
  AttentionArgs Arguments(const AttentionChunk& chunk, size_t head, size_t thread, CallRows& rows) const {
    const size_t group = geometry().group();
    const StepSpan& span = b_.step->spans()[chunk.span];
    for (size_t r = 0; r < chunk.rows; ++r) {
      const size_t row = chunk.first_row + r;
      rows.q[r] = q_.row(b_.step->span_row(chunk.span) + row / group) + (head * group + row % group) * spec_.key_dim;
      rows.out[r] = OutRow(chunk, head, r);
      const SlotInterval visible = RowInterval(chunk, r);
      rows.first[r] = visible.first;
      rows.last[r] = visible.last;
    }
    AttentionArgs args{};
    args.layout = place_.layout;
    args.pages = span.pages[place_.group];
    args.part_offset = PagePartOffset(*place_.layout, place_.layer_in_group, head);
    args.rows = chunk.rows;
    args.q = rows.q;
    args.first = rows.first;
    args.last = rows.last;
    args.scale = spec_.scale;
    args.softcap = spec_.softcap;
    args.out = rows.out;
    args.scratch = b_.scratch.of(thread);
    return args;
  }
};

// Folds the triples of every row's own segments, ascending.
class AttentionMergeStage : public AttentionBase {
 public:
  using AttentionBase::AttentionBase;

  size_t Begin() override { return geometry().split() ? geometry().whole_tasks() : 0; }

  void Run(size_t task, size_t) override {
    const AttentionGeometry& g = geometry();
    const AttentionChunk& chunk = g.chunks()[task / spec_.kv_heads];
    const size_t head = task % spec_.kv_heads;
    for (size_t r = 0; r < chunk.rows; ++r) {
      const SlotInterval visible = RowInterval(chunk, r);
      const size_t first = static_cast<size_t>(visible.first) / kAttentionSegment;
      const size_t count = static_cast<size_t>(visible.last - 1) / kAttentionSegment - first + 1;
      const float* triples =
          Triples(chunk, head) + (first - chunk.first_segment) * g.SegmentFloats(chunk) + r * g.triple_floats_per_row();
      b_.attention->merge(*place_.layout, triples, g.SegmentFloats(chunk), count, -INFINITY, OutRow(chunk, head, r));
    }
  }

  std::string Describe() const override { return "attention_merge"; }
};

class RopeAnglesStage : public ExecStage {
 public:
  RopeAnglesStage(const Bindings& b, RopeAngles& angles) : b_(b), angles_(angles) {}
  size_t Begin() override { return CeilDiv(b_.step->rows(), kRowsPerTask); }
  void Run(size_t task, size_t) override {
    const size_t end = std::min(b_.step->rows(), (task + 1) * kRowsPerTask);
    for (size_t row = task * kRowsPerTask; row < end; ++row) angles_.FillRow(row, b_.step->position(row));
  }
  std::string Describe() const override { return "rope_angles " + std::to_string(angles_.pairs()) + " pairs"; }

 private:
  static constexpr size_t kRowsPerTask = 16;
  const Bindings& b_;
  RopeAngles& angles_;
};

}  // namespace

std::unique_ptr<ExecStage> MakeRopeAnglesStage(const Bindings& bindings, RopeAngles& angles) {
  return std::make_unique<RopeAnglesStage>(bindings, angles);
}
std::unique_ptr<ExecStage> MakeQkvPostStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<QkvPostStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeAttentionStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<AttentionStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeAttentionMergeStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<AttentionMergeStage>(bindings, stage);
}

}  // namespace moonlit
