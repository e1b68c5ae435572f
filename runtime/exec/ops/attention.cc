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
  const float* whole_q[kAttentionMaxRows];  // as qkv_post left them
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
    return b_.triples + chunk.triples + head * chunk.pieces * geometry().PieceFloats(chunk);
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
      const AttentionArgs args = Arguments(chunk, reversed % spec_.kv_heads, thread, rows);
      if (SpanOf(chunk).runs.size() < 2) return b_.attention->attend(args);
      return AttendPieces(chunk, args, rows);
    }
    const AttentionChunk& chunk = g.ChunkOfTask(task);
    const size_t head = (task - chunk.first_task) / chunk.pieces;
    const size_t index = (task - chunk.first_task) % chunk.pieces;
    const AttentionArgs args = Arguments(chunk, head, thread, rows);
    const SlotPiece piece = g.Piece(SpanOf(chunk), chunk, index);
    if (SpanOf(chunk).runs.size() >= 2) Narrow(chunk, piece, args, rows);
    b_.attention->attend_segment(args, static_cast<size_t>(piece.first) / kAttentionSegment,
                                 Triples(chunk, head) + index * g.PieceFloats(chunk));
  }

  std::string Describe() const override {
    return "attention heads " + std::to_string(spec_.heads) + "/" + std::to_string(spec_.kv_heads) + " dims " +
           std::to_string(spec_.key_dim) + "/" + std::to_string(spec_.value_dim);
  }

 private:
  const StepSpan& SpanOf(const AttentionChunk& chunk) const { return b_.step->spans()[chunk.span]; }
  const float* Query(const AttentionChunk& chunk, size_t head, size_t r) const {
    const size_t group = geometry().group(), row = chunk.first_row + r;
    return q_.row(b_.step->span_row(chunk.span) + row / group) + (head * group + row % group) * spec_.key_dim;
  }

  AttentionArgs Arguments(const AttentionChunk& chunk, size_t head, size_t thread, CallRows& rows) const {
    for (size_t r = 0; r < chunk.rows; ++r) {
      rows.q[r] = rows.whole_q[r] = Query(chunk, head, r);
      rows.out[r] = OutRow(chunk, head, r);
      const SlotInterval visible = RowInterval(chunk, r);
      rows.first[r] = visible.first;
      rows.last[r] = visible.last;
    }
    AttentionArgs args{};
    args.layout = place_.layout;
    args.pages = SpanOf(chunk).pages[place_.group];
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

  RunScratch Scratch(const AttentionArgs& args) const {
    return RunScratch(*place_.layout,
                      static_cast<uint8_t*>(args.scratch) + b_.attention->scratch_bytes(*place_.layout));
  }

  // Lets the rows see this piece alone, with queries that stand as far from its keys as from slots.
  void Narrow(const AttentionChunk& chunk, const SlotPiece& piece, const AttentionArgs& args, CallRows& rows) const {
    const RunScratch scratch = Scratch(args);
    const bool turned = piece.turn != 0 && place_.angles != nullptr;
    if (turned) place_.angles->FillTurn(piece.turn, scratch.cosines, scratch.sines);
    for (size_t r = 0; r < chunk.rows; ++r) {
      const SlotInterval visible = RowInterval(chunk, r);
      rows.first[r] = std::max(visible.first, piece.first);
      rows.last[r] = std::min(visible.last, piece.last);
      rows.q[r] = rows.whole_q[r];
      if (!turned) continue;
      float* query = scratch.queries + r * spec_.key_dim;
      b_.rope->rotate_heads({.kind = spec_.rope.pairs == RopePairs::kHalves ? RopeKind::kHalves : RopeKind::kPairs,
                             .x = rows.whole_q[r],
                             .x_stride = spec_.key_dim,
                             .heads = 1,
                             .head_dim = spec_.key_dim,
                             .rotated = spec_.rope.dims,
                             .cosines = scratch.cosines,
                             .sines = scratch.sines,
                             .out = query,
                             .out_stride = spec_.key_dim});
      rows.q[r] = query;
    }
  }

  // What `attend` does, a piece at a time.
  void AttendPieces(const AttentionChunk& chunk, const AttentionArgs& args, CallRows& rows) const {
    const RunScratch scratch = Scratch(args);
    const size_t stride = geometry().triple_floats_per_row();
    float running[kAttentionMaxRows][2];
    for (size_t r = 0; r < chunk.rows; ++r) running[r][0] = -INFINITY, running[r][1] = 0;
    for (size_t index = 0; index < chunk.pieces; ++index) {
      const SlotPiece piece = AttentionGeometry::Piece(SpanOf(chunk), chunk, index);
      Narrow(chunk, piece, args, rows);
      b_.attention->attend_segment(args, static_cast<size_t>(piece.first) / kAttentionSegment, scratch.triples);
      for (size_t r = 0; r < chunk.rows; ++r) {
        b_.attention->fold(*place_.layout, scratch.triples + r * stride, running[r], rows.out[r]);
      }
    }
    for (size_t r = 0; r < chunk.rows; ++r) b_.attention->finish(*place_.layout, running[r], -INFINITY, rows.out[r]);
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
    const bool has_runs = b_.step->spans()[chunk.span].runs.size() >= 2;
    for (size_t r = 0; r < chunk.rows; ++r) {
      if (has_runs) {  // pieces that the row does not see change nothing
        b_.attention->merge(*place_.layout, Triples(chunk, head) + r * g.triple_floats_per_row(), g.PieceFloats(chunk),
                            chunk.pieces, -INFINITY, OutRow(chunk, head, r));
        continue;
      }
      const SlotInterval visible = RowInterval(chunk, r);
      const size_t first = static_cast<size_t>(visible.first) / kAttentionSegment;
      const size_t count = static_cast<size_t>(visible.last - 1) / kAttentionSegment - first + 1;
      const float* triples =
          Triples(chunk, head) + (first - chunk.first_segment) * g.PieceFloats(chunk) + r * g.triple_floats_per_row();
      b_.attention->merge(*place_.layout, triples, g.PieceFloats(chunk), count, -INFINITY, OutRow(chunk, head, r));
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
