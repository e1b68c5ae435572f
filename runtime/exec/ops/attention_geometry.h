// SPDX-License-Identifier: Apache-2.0
// How a step's attention is cut into calls, shared by all layers with equal heads, sizes and masks (the last layer has its
// own, for the rows of the tail).
//
// A chunk is up to kAttentionMaxRows rows (token * group + head of the group) of one span; a call serves one chunk and, where its
// rows are few, several KV heads that follow each other in a page: as many as there are, if there are calls enough for the
// threads. Whole calls walk all segments. When whole calls would be too few for the threads, or long (decode over a long
// context), each segment is a task of its own and a merge stage folds the triples. All give equal bits (attention.h).
//
// A span whose blocks have moved (StepSpan::runs) has keys at positions that are off by a constant for each run. Its queries
// are turned by that constant for each run; so segments are cut where runs meet, and each piece has a triple of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/attention/attention.h"
#include "runtime/exec/step.h"
#include "runtime/exec/step_tap.h"
#include "runtime/graph/graph.h"

namespace moonlit {

// Slots [first, last) of one segment and one run. Keys there stand `turn` positions (mostly fewer) from where the span's
// queries take them to be.
struct SlotPiece {
  int64_t first, last;
  int64_t turn;
};

// A thread's memory for pieces: floats, 64-byte aligned, behind the scratch of the kernel.
struct RunScratch {
  float* triples;  // [kAttentionMaxRows, triple]
  float* queries;  // [kAttentionMaxRows, key_dim], turned
  float* cosines;  // [key_dim / 2]
  float* sines;
  RunScratch(const PageLayout& layout, void* memory);
  static size_t Bytes(const PageLayout& layout);
};

struct AttentionChunk {
  uint32_t span;
  uint32_t first_row;  // token * group + g, inside the span
  uint32_t rows;
  uint32_t first_segment;
  uint32_t sink_segments;  // segments before first_segment that are visited for their sinks, from slot 0 on
  uint32_t pieces;         // segments that any row visits, cut where runs meet
  uint32_t choice;    // the token's number among those that choose their pages, or Step::kNoChoice; then its only one
  uint32_t heads;     // KV heads of a call; the last one may have fewer
  uint32_t calls;     // for all KV heads
  size_t first_task;  // the chunk has `calls` tasks; split: [pieces, calls]
  size_t triples;     // split: floats before the chunk's in the triple buffer, [pieces, kv_heads, rows, triple]
};

// KV heads [first, first + count) of a chunk's call.
struct HeadRange {
  size_t first, count;
};

// Whether a layer's tokens see everything before them: such layers may be sparse.
inline bool SeesWholeText(const AttentionSpec& spec) {
  return spec.window == 0 && spec.chunk == 0 && !spec.bidirectional;
}

class AttentionGeometry {
 public:
  AttentionGeometry(const AttentionSpec& spec, const PageLayout& layout, bool tail, size_t max_rows, size_t threads,
                    size_t triple_floats, const SparseAttention& sparse = {});

  bool Serves(const AttentionSpec& spec, const PageLayout& layout, bool tail) const;
  // Fills the chunk table for the step.
  void Begin(const Step& step);

  size_t group() const { return group_; }
  size_t kv_heads() const { return spec_.kv_heads; }
  bool split() const { return split_; }
  std::span<const AttentionChunk> chunks() const { return {chunks_.data(), chunk_count_}; }
  size_t tasks() const { return tasks_; }
  // One for each chunk and KV head.
  size_t merge_tasks() const { return split_ ? chunk_count_ * spec_.kv_heads : 0; }
  HeadRange Heads(const AttentionChunk& chunk, size_t call) const;
  // The chunk that a task belongs to.
  const AttentionChunk& ChunkOfTask(size_t task) const;
  // What the span's token at `slot` sees. Neither end falls from one token to the next.
  SlotInterval Visible(const StepSpan& span, int64_t slot) const;
  // Slots before these are seen by every token that comes after them, too.
  int64_t sinks() const { return sinks_; }
  // Piece `index` of the chunk, which is of this span.
  static SlotPiece Piece(const StepSpan& span, const AttentionChunk& chunk, size_t index);
  // Floats of one piece's triples of a chunk.
  size_t PieceFloats(const AttentionChunk& chunk) const { return chunk.rows * triple_floats_per_row_; }
  size_t triple_floats_per_row() const { return triple_floats_per_row_; }

 private:
  void AddChunk(const StepSpan& span, size_t index, size_t first_row, size_t rows, uint32_t choice);
  void AddSpan(const Step& step, size_t index, const RowRange& range);
  void ChooseSplit();
  void CountTasks(size_t most_heads);
  AttentionSpec spec_;
  const PageLayout* layout_;
  bool tail_;
  int64_t window_, sinks_ = 0;  // 0: none
  size_t group_, chunk_rows_, threads_, triple_floats_, triple_floats_per_row_;
  std::vector<AttentionChunk> chunks_;
  size_t chunk_count_ = 0, tasks_ = 0;
  bool split_ = false;
};

}  // namespace moonlit
