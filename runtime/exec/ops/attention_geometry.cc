// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/ops/attention_geometry.h"

#include <algorithm>

#include "kernels/base/round.h"

namespace moonlit {
namespace {

// Fewer whole calls than this for each thread leave threads idle; calls over more segments than this are long even alone.
constexpr size_t kCallsPerThread = 4;
constexpr size_t kLongSegments = 8;
constexpr auto kSegment = static_cast<int64_t>(kAttentionSegment);
constexpr size_t kFloatsPerLine = 16;

}  // namespace

AttentionGeometry::AttentionGeometry(const AttentionSpec& spec, const PageLayout& layout, bool tail, size_t max_rows,
                                     size_t threads, size_t triple_floats, const SparseAttention& sparse)
    : spec_(spec),
      layout_(&layout),
      tail_(tail),
      window_(static_cast<int64_t>(spec.window)),
      group_(spec.heads / spec.kv_heads),
      threads_(threads),
      triple_floats_(triple_floats),
      triple_floats_per_row_(AttentionTripleFloats(layout)) {
  if (SeesWholeText(spec) && sparse.window != 0) {
    window_ = static_cast<int64_t>(sparse.window);
    sinks_ = static_cast<int64_t>(RoundUp(sparse.sinks, kAttentionTile));
  }
  chunk_rows_ = group_ <= kAttentionMaxRows ? kAttentionMaxRows / group_ * group_ : kAttentionMaxRows;
  // A chunk ends at chunk_rows_ rows or at the end of a span, and a span has at least `group_` rows.
  chunks_.resize(max_rows * CeilDiv(group_, chunk_rows_) + max_rows);
}

bool AttentionGeometry::Serves(const AttentionSpec& spec, const PageLayout& layout, bool tail) const {
  return layout_ == &layout && tail == tail_ && spec.heads == spec_.heads && spec.kv_heads == spec_.kv_heads &&
         spec.window == spec_.window && spec.chunk == spec_.chunk && spec.bidirectional == spec_.bidirectional;
}

SlotInterval AttentionGeometry::Visible(const StepSpan& span, int64_t slot) const {
  const auto chunk = static_cast<int64_t>(spec_.chunk);
  SlotInterval visible{0, slot + 1};
  if (window_ != 0) visible.first = std::max<int64_t>(0, slot + 1 - window_);
  if (chunk != 0) visible.first = std::max(visible.first, slot / chunk * chunk);
  if (spec_.bidirectional) {
    const int64_t end = span.first_slot + static_cast<int64_t>(span.tokens.size());
    visible.last = window_ == 0 ? end : std::min(end, slot + window_);
  } else if (slot < span.first_slot + static_cast<int64_t>(span.prefix)) {
    visible.first = std::min(visible.first, span.first_slot);
    visible.last = span.first_slot + static_cast<int64_t>(span.prefix);
  }
  return visible;
}

size_t RunScratch::Bytes(const PageLayout& layout) {
  const size_t triples = kAttentionMaxRows * AttentionTripleFloats(layout);
  const size_t queries = kAttentionMaxRows * layout.key_dim;
  return (triples + queries + 2 * RoundUp(layout.key_dim, kFloatsPerLine)) * sizeof(float);
}

RunScratch::RunScratch(const PageLayout& layout, void* memory)
    : triples(static_cast<float*>(memory)),
      queries(triples + kAttentionMaxRows * AttentionTripleFloats(layout)),
      cosines(queries + kAttentionMaxRows * layout.key_dim),
      sines(cosines + RoundUp(layout.key_dim, kFloatsPerLine)) {}

SlotPiece AttentionGeometry::Piece(const StepSpan& span, const AttentionChunk& chunk, size_t index) {
  SlotPiece piece{chunk.sink_segments != 0 ? 0 : chunk.first_segment * kSegment, 0, 0};
  const int64_t sinks_end = chunk.sink_segments * kSegment;
  size_t run = 0;
  for (;; --index) {
    while (run + 1 < span.runs.size() && span.runs[run + 1].begin <= piece.first) ++run;
    piece.last = (piece.first / kSegment + 1) * kSegment;
    if (run + 1 < span.runs.size()) piece.last = std::min(piece.last, span.runs[run + 1].begin);
    if (index == 0) break;
    piece.first = piece.last == sinks_end ? chunk.first_segment * kSegment : piece.last;
  }
  if (span.runs.size() >= 2) piece.turn = span.runs[run].shift - span.runs.back().shift;
  return piece;
}

void AttentionGeometry::AddChunk(const StepSpan& span, size_t index, size_t first_row, size_t rows, uint32_t choice) {
  const int64_t first_slot = span.first_slot + static_cast<int64_t>(first_row / group_);
  const int64_t last_row_slot = span.first_slot + static_cast<int64_t>((first_row + rows - 1) / group_);
  const int64_t last_slot = Visible(span, last_row_slot).last - 1;
  const size_t first_segment = static_cast<size_t>(Visible(span, first_slot).first) / kAttentionSegment;
  const size_t last_segment = static_cast<size_t>(last_slot) / kAttentionSegment;
  AttentionChunk& chunk = chunks_[chunk_count_++];
  chunk.span = static_cast<uint32_t>(index);
  chunk.first_row = static_cast<uint32_t>(first_row);
  chunk.rows = static_cast<uint32_t>(rows);
  chunk.choice = choice;
  chunk.first_segment = static_cast<uint32_t>(first_segment);
  chunk.sink_segments =
      static_cast<uint32_t>(std::min(first_segment, CeilDiv(static_cast<size_t>(sinks_), kAttentionSegment)));
  chunk.pieces = static_cast<uint32_t>(chunk.sink_segments + last_segment - first_segment + 1);
  const auto from = static_cast<int64_t>(first_segment * kAttentionSegment);
  for (const SlotRun& run : span.runs) {
    const bool visited = run.begin > from || (run.begin > 0 && run.begin < chunk.sink_segments * kSegment);
    if (visited && run.begin <= last_slot && run.begin % kSegment != 0) ++chunk.pieces;
  }
}

void AttentionGeometry::AddSpan(const Step& step, size_t s, const RowRange& range) {
  const StepSpan& span = step.spans()[s];
  const size_t first_row = step.span_row(s), end_row = first_row + span.tokens.size();
  const size_t begin = std::clamp(range.first, first_row, end_row), end = std::clamp(range.end, begin, end_row);
  const size_t rows = (end - first_row) * group_;
  const uint32_t choice = step.first_choice(s);
  const size_t most = choice == Step::kNoChoice ? chunk_rows_ : std::min(chunk_rows_, group_);
  for (size_t row = (begin - first_row) * group_; row < rows; row += most) {
    const auto token = static_cast<uint32_t>(row / group_);
    AddChunk(span, s, row, std::min(most, rows - row), choice == Step::kNoChoice ? choice : choice + token);
  }
}

void AttentionGeometry::Begin(const Step& step) {
  chunk_count_ = 0;
  const RowRange range = step.range(tail_);
  for (size_t s = 0; s < step.spans().size(); ++s) AddSpan(step, s, range);
  ChooseSplit();
  size_t most_heads = kAttentionMaxHeads;
  CountTasks(most_heads);
  while (threads_ > 1 && tasks_ < kCallsPerThread * threads_ && most_heads > 1) CountTasks(most_heads /= 2);
}

void AttentionGeometry::ChooseSplit() {
  uint64_t triples = 0;  // of a long text more than addresses of 32 bits reach
  size_t most_pieces = 0;
  for (size_t c = 0; c < chunk_count_; ++c) {
    AttentionChunk& chunk = chunks_[c];
    chunk.triples = static_cast<size_t>(triples);
    triples += uint64_t{chunk.pieces} * spec_.kv_heads * PieceFloats(chunk);
    most_pieces = std::max<size_t>(most_pieces, chunk.pieces);
  }
  const bool worth = chunk_count_ * spec_.kv_heads < kCallsPerThread * threads_ || most_pieces > kLongSegments;
  split_ = threads_ > 1 && most_pieces > 1 && worth && triples <= triple_floats_;
}

void AttentionGeometry::CountTasks(size_t most_heads) {
  tasks_ = 0;
  for (size_t c = 0; c < chunk_count_; ++c) {
    AttentionChunk& chunk = chunks_[c];
    // Each KV head chooses its own pages.
    const size_t most = chunk.choice != Step::kNoChoice ? 1 : std::min(most_heads, AttentionHeadsOfCall(chunk.rows));
    const size_t calls = CeilDiv(spec_.kv_heads, most);
    chunk.heads = static_cast<uint32_t>(CeilDiv(spec_.kv_heads, calls));
    chunk.calls = static_cast<uint32_t>(CeilDiv(spec_.kv_heads, size_t{chunk.heads}));
    chunk.first_task = tasks_;
    tasks_ += size_t{chunk.calls} * (split_ ? chunk.pieces : 1);
  }
}

HeadRange AttentionGeometry::Heads(const AttentionChunk& chunk, size_t call) const {
  const size_t first = call * chunk.heads;
  return {first, std::min<size_t>(chunk.heads, spec_.kv_heads - first)};
}

const AttentionChunk& AttentionGeometry::ChunkOfTask(size_t task) const {
  const auto begin = chunks_.begin(), end = chunks_.begin() + static_cast<std::ptrdiff_t>(chunk_count_);
  return *(std::upper_bound(begin, end, task, [](size_t t, const AttentionChunk& c) { return t < c.first_task; }) - 1);
}

}  // namespace moonlit
