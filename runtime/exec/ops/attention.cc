// SPDX-License-Identifier: Apache-2.0
// Fused attention over the pages of the cache (kAttention), and the merge of split segments.
#include <algorithm>
#include <cmath>

#include "runtime/exec/ops/attention_geometry.h"
#include "runtime/exec/ops/page_choices.h"
#include "runtime/exec/ops/query_turn.h"
#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

// The arguments of one call, on the stack of a task: [heads, rows], intervals and positions [rows].
struct CallRows {
  const float* q[kAttentionMaxRows];
  const float* whole_q[kAttentionMaxRows];  // as qkv_post left them
  float* out[kAttentionMaxRows];
  int64_t first[kAttentionMaxRows];
  int64_t last[kAttentionMaxRows];
  int64_t position[kAttentionMaxRows];
  float sinks[kAttentionMaxRows];
  float slopes[kAttentionMaxRows];
};

class AttentionBase : public ExecStage {
 public:
  AttentionBase(const Bindings& b, const FusedStage& stage)
      : b_(b),
        spec_(stage.attention),
        place_(b.attention_places[stage.attention_index]),
        q_(b.values[stage.input]),
        out_(b.values[stage.output]),
        sinks_(spec_.sinks == kNoWeight ? nullptr : b.weights->vector(spec_.sinks)) {
    for (size_t h = 0; h < spec_.heads && spec_.alibi_max_bias != 0; ++h) {
      slopes_.push_back(spec_.alibi_scale * AlibiSlope(spec_.alibi_max_bias, spec_.heads, h));
    }
  }

 protected:
  const AttentionGeometry& geometry() const { return *place_.geometry; }

  float* OutRow(const AttentionChunk& chunk, size_t head, size_t r) const {
    const size_t row = (chunk.first_row + r) / geometry().group();
    return out_.row(b_.step->span_row(chunk.span) + row) + RowHead(chunk, head, r) * spec_.value_dim;
  }
  int64_t RowSlot(const AttentionChunk& chunk, size_t r) const {
    const size_t token = (chunk.first_row + r) / geometry().group();
    return b_.step->spans()[chunk.span].first_slot + static_cast<int64_t>(token);
  }
  SlotInterval RowInterval(const AttentionChunk& chunk, size_t r) const {
    return geometry().Visible(b_.step->spans()[chunk.span], RowSlot(chunk, r));
  }
  // The query head of row r, of the KV head `head`.
  size_t RowHead(const AttentionChunk& chunk, size_t head, size_t r) const {
    return head * geometry().group() + (chunk.first_row + r) % geometry().group();
  }
  float Sink(const AttentionChunk& chunk, size_t head, size_t r) const {
    return sinks_ == nullptr ? -INFINITY : sinks_[RowHead(chunk, head, r)];
  }
  float* Triples(const AttentionChunk& chunk, size_t piece, size_t head) const {
    return b_.triples + chunk.triples + (piece * spec_.kv_heads + head) * geometry().PieceFloats(chunk);
  }

  const Bindings& b_;
  AttentionSpec spec_;
  Bindings::AttentionPlace place_;
  FloatRows q_, out_;
  const float* sinks_;         // [heads], or null
  std::vector<float> slopes_;  // [heads], or empty
};

class AttentionStage : public AttentionBase {
 public:
  using AttentionBase::AttentionBase;

  size_t Begin() override { return geometry().tasks(); }

  void Run(size_t task, size_t thread) override {
    const AttentionGeometry& g = geometry();
    CallRows rows;
    if (!g.split()) {
      // The last chunks see most keys: they go first, so that the stage ends with short tasks.
      const size_t reversed = g.tasks() - 1 - task;
      const AttentionChunk& chunk = g.ChunkOfTask(reversed);
      AttentionArgs args = Arguments(chunk, g.Heads(chunk, reversed - chunk.first_task), thread, rows);
      if (SpanOf(chunk).runs.size() < 2) return b_.attention->attend(args);
      return AttendPieces(chunk, thread, args, rows);
    }
    const AttentionChunk& chunk = g.ChunkOfTask(task);
    const size_t index = (task - chunk.first_task) / chunk.calls;
    const HeadRange heads = g.Heads(chunk, (task - chunk.first_task) % chunk.calls);
    AttentionArgs args = Arguments(chunk, heads, thread, rows);
    const SlotPiece piece = g.Piece(SpanOf(chunk), chunk, index);
    if (SpanOf(chunk).runs.size() >= 2) Narrow(chunk, piece, thread, args, rows);
    b_.attention->attend_segment(args, static_cast<size_t>(piece.first) / kAttentionSegment,
                                 Triples(chunk, index, heads.first));
  }

  std::string Describe() const override {
    return "attention heads " + std::to_string(spec_.heads) + "/" + std::to_string(spec_.kv_heads) + " dims " +
           std::to_string(spec_.key_dim) + "/" + std::to_string(spec_.value_dim);
  }

 private:
  const StepSpan& SpanOf(const AttentionChunk& chunk) const { return b_.step->spans()[chunk.span]; }
  const float* Query(const AttentionChunk& chunk, size_t head, size_t r) const {
    const size_t row = (chunk.first_row + r) / geometry().group();
    return q_.row(b_.step->span_row(chunk.span) + row) + RowHead(chunk, head, r) * spec_.key_dim;
  }

  AttentionArgs Arguments(const AttentionChunk& chunk, HeadRange heads, size_t thread, CallRows& rows) const {
    for (size_t h = 0; h < heads.count; ++h) {
      const size_t head = heads.first + h;
      for (size_t r = 0; r < chunk.rows; ++r) {
        const size_t at = h * chunk.rows + r;
        rows.q[at] = rows.whole_q[at] = Query(chunk, head, r);
        rows.out[at] = OutRow(chunk, head, r);
        rows.sinks[at] = Sink(chunk, head, r);
        rows.slopes[at] = slopes_.empty() ? 0.0f : slopes_[RowHead(chunk, head, r)];
      }
    }
    for (size_t r = 0; r < chunk.rows; ++r) {
      const SlotInterval visible = RowInterval(chunk, r);
      rows.first[r] = visible.first;
      rows.last[r] = visible.last;
      rows.position[r] = RowSlot(chunk, r);
    }
    AttentionArgs args{};
    args.layout = place_.layout;
    const bool chooses = place_.choices != nullptr && chunk.choice != Step::kNoChoice;
    args.pages = chooses ? place_.choices->table(chunk.choice, heads.first) : SpanOf(chunk).pages[place_.group];
    args.part_offset = PagePartOffset(*place_.layout, place_.layer_in_group, heads.first);
    args.heads = heads.count;
    args.rows = chunk.rows;
    args.q = rows.q;
    args.first = rows.first;
    args.last = rows.last;
    args.sink_slots = geometry().sinks();
    args.scale = spec_.scale;
    args.softcap = spec_.softcap;
    args.sinks = sinks_ == nullptr ? nullptr : rows.sinks;
    args.alibi_slopes = slopes_.empty() ? nullptr : rows.slopes;
    args.position = rows.position;
    args.out = rows.out;
    args.scratch = b_.scratch.of(thread);
    return args;
  }

  // Lets the rows see this piece alone, with queries that stand as far from its keys as from slots.
  void Narrow(const AttentionChunk& chunk, const SlotPiece& piece, size_t thread, AttentionArgs& args,
              CallRows& rows) const {
    const QueryTurn turn(b_, spec_, place_, piece.turn, thread);
    // The sinks lie in one page, and so in one run: the first.
    args.sink_slots = piece.first < geometry().sinks() ? geometry().sinks() : 0;
    for (size_t r = 0; r < chunk.rows; ++r) {
      const SlotInterval visible = RowInterval(chunk, r);
      rows.first[r] = std::max(visible.first, piece.first);
      rows.last[r] = std::min(visible.last, piece.last);
    }
    for (size_t r = 0; r < args.heads * chunk.rows; ++r) rows.q[r] = turn.Of(rows.whole_q[r], r);
  }

  // What `attend` does, a piece at a time.
  void AttendPieces(const AttentionChunk& chunk, size_t thread, AttentionArgs& args, CallRows& rows) const {
    const RunScratch scratch = ScratchOfRuns(b_, *place_.layout, thread);
    const size_t stride = geometry().triple_floats_per_row();
    const size_t count = args.heads * chunk.rows;
    float running[kAttentionMaxRows][2];
    for (size_t r = 0; r < count; ++r) running[r][0] = -INFINITY, running[r][1] = 0;
    for (size_t index = 0; index < chunk.pieces; ++index) {
      const SlotPiece piece = AttentionGeometry::Piece(SpanOf(chunk), chunk, index);
      Narrow(chunk, piece, thread, args, rows);
      b_.attention->attend_segment(args, static_cast<size_t>(piece.first) / kAttentionSegment, scratch.triples);
      for (size_t r = 0; r < count; ++r) {
        b_.attention->fold(*place_.layout, scratch.triples + r * stride, running[r], rows.out[r]);
      }
    }
    for (size_t r = 0; r < count; ++r) {
      b_.attention->finish(*place_.layout, running[r], rows.sinks[r], rows.out[r]);
    }
  }
};

// Folds the triples of every row, ascending. Pieces that the row does not see change nothing.
class AttentionMergeStage : public AttentionBase {
 public:
  using AttentionBase::AttentionBase;

  size_t Begin() override { return geometry().merge_tasks(); }

  void Run(size_t task, size_t) override {
    const AttentionGeometry& g = geometry();
    const AttentionChunk& chunk = g.chunks()[task / spec_.kv_heads];
    const size_t head = task % spec_.kv_heads;
    for (size_t r = 0; r < chunk.rows; ++r) {
      b_.attention->merge(*place_.layout, Triples(chunk, 0, head) + r * g.triple_floats_per_row(),
                          spec_.kv_heads * g.PieceFloats(chunk), chunk.pieces, Sink(chunk, head, r),
                          OutRow(chunk, head, r));
    }
  }

  std::string Describe() const override { return "attention_merge"; }
};

}  // namespace

std::unique_ptr<ExecStage> MakeAttentionStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<AttentionStage>(bindings, stage);
}
std::unique_ptr<ExecStage> MakeAttentionMergeStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<AttentionMergeStage>(bindings, stage);
}

}  // namespace moonlit
