// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/strided.h"

#include <string.h>

#include "kernels/attention/attention.h"
#include "kernels/attention/page_offsets.h"
#include "kernels/base/float16.h"

namespace moonlit {
namespace {

size_t Min(size_t a, size_t b) { return a < b ? a : b; }
int64_t Clamp(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }

// One page holds a segment of one KV head.
PageLayout SegmentLayout(const StridedAttentionArgs& args) {
  PageLayout layout = {};
  layout.page_tokens = kAttentionSegment;
  layout.layers = layout.kv_heads = 1;
  layout.key_dim = static_cast<uint32_t>(args.key_dim);
  layout.value_dim = static_cast<uint32_t>(args.value_dim);
  layout.key_type = args.key_type;
  layout.value_type = args.value_type;
  FinishPageLayout(&layout);
  return layout;
}

// The scratch of a task, cut into pieces.
struct Pieces {
  void* kernel;    // AttentionTable::scratch_bytes
  uint8_t* page;   // the segment's K and V
  float* triples;  // [kAttentionMaxRows, AttentionTripleFloats]
  float* running;  // [kStridedRows, 2]: maximum and sum so far
  float* q;        // [kAttentionMaxRows, key_dim], where q is not F32
  float* rows;     // [kPageGroup, key_dim or value_dim], where K or V is not F32
};

template <class T>
T* Cut(uint8_t* base, size_t count, size_t* used) {
  T* piece = base == nullptr ? nullptr : reinterpret_cast<T*>(base + *used);
  *used += RoundUp(count * sizeof(T), 64);
  return piece;
}

size_t CutScratch(const StridedAttentionArgs& args, const PageLayout& layout, void* scratch, Pieces* pieces) {
  uint8_t* base = static_cast<uint8_t*>(scratch);
  size_t used = 0;
  pieces->kernel = Cut<uint8_t>(base, GetAttentionTable(args.variant).scratch_bytes(layout), &used);
  pieces->page = Cut<uint8_t>(base, layout.page_bytes, &used);
  pieces->triples = Cut<float>(base, kAttentionMaxRows * AttentionTripleFloats(layout), &used);
  pieces->running = Cut<float>(base, kStridedRows * 2, &used);
  pieces->q = Cut<float>(base, kAttentionMaxRows * args.key_dim, &used);
  pieces->rows = Cut<float>(base, kPageGroup * (args.key_dim > args.value_dim ? args.key_dim : args.value_dim), &used);
  return used;
}

// `count` elements as floats: where they are, if they are floats, else in `copy`.
const float* AsFloats(const StridedRows& rows, size_t token, size_t head, size_t count, float* copy) {
  const size_t at = token * rows.token_stride + head * rows.head_stride;
  if (rows.type == ElementType::kF32) return static_cast<const float*>(rows.data) + at;
  const uint16_t* short_floats = static_cast<const uint16_t*>(rows.data) + at;
  for (size_t i = 0; i < count; ++i) {
    copy[i] = rows.type == ElementType::kF16 ? F32FromF16(short_floats[i]) : F32FromBF16(short_floats[i]);
  }
  return copy;
}

// Keys that a query sees, besides the first sink_slots.
struct Interval {
  int64_t first;
  int64_t last;
};

Interval Visible(const StridedAttentionArgs& args, size_t token) {
  const int64_t context = static_cast<int64_t>(args.context);
  if (args.first != nullptr) return {args.first[token], args.last[token] < context ? args.last[token] : context};
  const int64_t slot = args.first_slot + static_cast<int64_t>(token);
  const bool ends = args.causal || args.window != 0;
  const int64_t last = ends && slot < context ? slot + 1 : context;
  // A window wider than any slot number hides nothing.
  const int64_t window = args.window > (uint64_t{1} << 62) ? 0 : static_cast<int64_t>(args.window);
  return {window == 0 || slot < window ? 0 : slot + 1 - window, last};
}

// What the rows of a task have in common.
struct Task {
  const StridedAttentionArgs* args;
  const AttentionTable* table;
  PageLayout layout;
  Pieces pieces;
  size_t head;   // KV head
  size_t group;  // query heads of a KV head
  size_t first_row;
  size_t rows;
};

// Row r of a task is query head head * group + g of token t.
struct RowPlace {
  size_t token;
  size_t head;
};
RowPlace PlaceOf(const Task& task, size_t row) {
  const size_t r = task.first_row + row;
  return {r / task.group, task.head * task.group + r % task.group};
}

float* OutRow(const Task& task, size_t row) {
  const RowPlace place = PlaceOf(task, row);
  return task.args->out + place.token * task.args->out_token_stride + place.head * task.args->out_head_stride;
}

// Packs keys [first, last) of the segment that starts at slot `base`.
void PackSegment(const Task& task, size_t base, size_t first, size_t last) {
  const StridedAttentionArgs& args = *task.args;
  for (size_t slot = first; slot < last;) {
    const size_t count = Min(kPageGroup - slot % kPageGroup, last - slot);
    const auto pack = [&](const StridedRows& rows, size_t dim, auto function) {
      const bool copied = rows.type != ElementType::kF32;
      for (size_t t = 0; copied && t < count; ++t) {
        AsFloats(rows, slot + t, task.head, dim, task.pieces.rows + t * dim);
      }
      const float* from = copied ? task.pieces.rows : AsFloats(rows, slot, task.head, dim, nullptr);
      function(task.layout, task.pieces.page, slot - base, count, from, copied ? dim : rows.token_stride);
    };
    pack(args.k, args.key_dim, task.table->pack_keys);
    pack(args.v, args.value_dim, task.table->pack_values);
    slot += count;
  }
}

// The pointers of one call.
struct CallRows {
  const float* q[kAttentionMaxRows];
  int64_t first[kAttentionMaxRows];
  int64_t last[kAttentionMaxRows];
  int64_t position[kAttentionMaxRows];
  float slopes[kAttentionMaxRows];
};

// Rows [first, first + count) over the segment in the page, whose slot 0 is slot `base`; folds what comes out.
void AttendRows(const Task& task, size_t base, size_t first, size_t count) {
  const StridedAttentionArgs& args = *task.args;
  const int64_t shift = static_cast<int64_t>(base), end = static_cast<int64_t>(kAttentionSegment);
  const int64_t sinks = Clamp(static_cast<int64_t>(Min(args.sink_slots, args.context)) - shift, 0, end);
  CallRows call;
  bool any = false;
  for (size_t r = 0; r < count; ++r) {
    const RowPlace place = PlaceOf(task, first + r);
    const Interval visible = Visible(args, place.token);
    call.first[r] = Clamp(visible.first, shift, shift + end) - shift;
    call.last[r] = Clamp(visible.last, shift, shift + end) - shift;
    any |= call.first[r] < call.last[r] || (sinks > 0 && call.last[r] > 0);
    call.position[r] = args.first_slot + static_cast<int64_t>(place.token) - shift;
    call.slopes[r] = args.alibi_slopes != nullptr ? args.alibi_slopes[place.head] : 0.0f;
    call.q[r] = AsFloats(args.q, place.token, place.head, args.key_dim, task.pieces.q + r * args.key_dim);
  }
  if (!any) return;
  const uint8_t* pages[1] = {task.pieces.page};
  AttentionArgs tile = {};
  tile.layout = &task.layout;
  tile.pages = pages;
  tile.rows = count;
  tile.q = call.q;
  tile.first = call.first;
  tile.last = call.last;
  tile.sink_slots = sinks;
  tile.scale = args.scale;
  tile.softcap = args.softcap;
  tile.alibi_slopes = args.alibi_slopes != nullptr ? call.slopes : nullptr;
  tile.position = call.position;
  tile.scratch = task.pieces.kernel;
  task.table->attend_segment(tile, 0, task.pieces.triples);
  const size_t stride = AttentionTripleFloats(task.layout);
  for (size_t r = 0; r < count; ++r) {
    task.table->fold(task.layout, task.pieces.triples + r * stride, task.pieces.running + 2 * (first + r),
                     OutRow(task, first + r));
  }
}

// Keys that some row of the task sees: of its interval [first, last), and the first `sinks` beside it.
struct TaskKeys {
  size_t first;
  size_t last;
  size_t sinks;
};

TaskKeys KeysOf(const Task& task) {
  int64_t first = INT64_MAX, last = 0, end = 0;
  for (size_t r = 0; r < task.rows; ++r) {
    const Interval one = Visible(*task.args, PlaceOf(task, r).token);
    end = one.last > end ? one.last : end;  // sinks are seen beside an empty interval, too
    if (one.first >= one.last) continue;
    first = one.first < first ? one.first : first;
    last = one.last > last ? one.last : last;
  }
  const size_t sinks = Min(task.args->sink_slots, static_cast<size_t>(end));
  if (first >= last) return {sinks, sinks, sinks};
  return {static_cast<size_t>(first < 0 ? 0 : first), static_cast<size_t>(last), sinks};
}

void RunSegments(const Task& task) {
  const auto [first, last, sinks] = KeysOf(task);
  const size_t keys_end = last < sinks ? sinks : last;
  for (size_t base = 0; base < keys_end; base += kAttentionSegment) {
    const size_t end = Min(base + kAttentionSegment, keys_end);
    if (end <= first && base >= sinks) continue;
    // Sinks and the intervals may both lie in this segment; what is between them is packed for nothing.
    PackSegment(task, base, base < sinks || first < base ? base : first, end <= first ? Min(end, sinks) : end);
    for (size_t row = 0; row < task.rows; row += kAttentionMaxRows) {
      AttendRows(task, base, row, Min(kAttentionMaxRows, task.rows - row));
    }
  }
}

bool InRange(size_t dim) { return dim >= 1 && dim <= kMaxHeadDim; }

}  // namespace

const char* CheckStridedAttention(const StridedAttentionArgs& args) {
  constexpr int64_t kMostSlot = int64_t{1} << 62;
  constexpr size_t kMost = size_t{1} << (sizeof(size_t) * 8 - 8);
  if (args.tokens == 0 || args.context == 0) return "tokens and context must be at least 1";
  if (args.heads == 0 || args.kv_heads == 0) return "heads and kv_heads must be at least 1";
  if (args.heads % args.kv_heads != 0) return "heads must be a multiple of kv_heads";
  if (!InRange(args.key_dim) || !InRange(args.value_dim)) return "key_dim and value_dim must be 1 .. 1024";
  if (args.context > kMost || args.tokens > kMost / args.heads) return "tokens, heads or context are too large";
  if (args.key_type > CacheType::kQ4_0 || args.value_type > CacheType::kQ4_0) return "there is no such cache type";
  if (args.sink_slots % kAttentionTile != 0) return "sink_slots must be a multiple of kAttentionTile";
  if ((args.first == nullptr) != (args.last == nullptr)) return "first and last must both be given or both be null";
  if (args.first_slot < 0 || args.first_slot > kMostSlot) return "first_slot must be 0 .. 2^62";
  if (!IsBuilt(args.variant)) return "the kernel variant is not in this build";
  return nullptr;
}

size_t StridedAttentionScratchBytes(const StridedAttentionArgs& args) {
  Pieces pieces;
  return CutScratch(args, SegmentLayout(args), nullptr, &pieces);
}

size_t StridedAttentionTasks(const StridedAttentionArgs& args) {
  return args.kv_heads * CeilDiv(args.tokens * (args.heads / args.kv_heads), kStridedRows);
}

void RunStridedAttentionTask(const StridedAttentionArgs& args, size_t number, void* scratch) {
  Task task;
  task.args = &args;
  task.table = &GetAttentionTable(args.variant);
  task.layout = SegmentLayout(args);
  CutScratch(args, task.layout, scratch, &task.pieces);
  task.group = args.heads / args.kv_heads;
  task.head = number % args.kv_heads;
  task.first_row = number / args.kv_heads * kStridedRows;
  task.rows = Min(kStridedRows, args.tokens * task.group - task.first_row);
  memset(task.pieces.page, 0, task.layout.page_bytes);  // padding must be zero
  for (size_t r = 0; r < task.rows; ++r) {
    task.pieces.running[2 * r] = -__builtin_inff();
    task.pieces.running[2 * r + 1] = 0.0f;
  }
  RunSegments(task);
  for (size_t r = 0; r < task.rows; ++r) {
    const float sink = args.sinks != nullptr ? args.sinks[PlaceOf(task, r).head] : -__builtin_inff();
    task.table->finish(task.layout, task.pieces.running + 2 * r, sink, OutRow(task, r));
  }
}

void StridedAttention(const StridedAttentionArgs& args, void* scratch) {
  const size_t tasks = StridedAttentionTasks(args);
  for (size_t task = 0; task < tasks; ++task) RunStridedAttentionTask(args, task, scratch);
}

}  // namespace moonlit
