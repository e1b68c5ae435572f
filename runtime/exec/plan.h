// SPDX-License-Identifier: Apache-2.0
// The plan: a graph bound to kernels, its weights packed, its intermediates laid out in one arena. The only room where graph
// and kernels meet. One plan serves prefill chunks, decode and batches of sequences.
//
//   PlanOptions options{.variant = variant, .pool = pool, .max_rows = 512};
//   auto plan = Plan::Create(graph, source, options);              // reads and packs every weight, in parallel
//   StepSpan span{.tokens = ids, .pages = pages, .first_slot = 0, .outputs = Outputs::kLast};
//   Status s = plan->Run({&span, 1}, consumer, &abort);
//
// The bits of a row's outputs depend on its sequence alone: not on threads, chunks, the other spans or the page size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/page_layout.h"
#include "kernels/cpu/variant.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/exec/float_provider.h"
#include "runtime/graph/pooling.h"
#include "runtime/threads/pool.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

class Adapter;        // runtime/exec/adapter.h
class AdapterSet;     // likewise
class Graph;          // runtime/graph/graph.h
class StepTap;        // runtime/exec/step_tap.h
struct TappedLayer;   // likewise
struct ProductTable;  // kernels/matmul/matmul.h

// Sparse attention in the layers that see the whole text: no window of their own, no chunks, no encoder. Off by default; with the
// bits of dense attention where it covers the text.
struct SparseAttention {
  // Sinks and a window (Xiao et al. 2023, "StreamingLLM", arXiv:2309.17453): a token sees the first `sinks` slots, rounded up to
  // tiles of 64 and at most a page, and the latest `window` with itself. 0: off.
  size_t window = 0;
  size_t sinks = 0;
  // Chosen pages (Tang et al. 2024, "Quest", arXiv:2406.10774): tokens of spans that say so (StepSpan::choose_pages) read for each KV
  // head at most so many pages, always the first and the latest; not in the first two attention layers, nor with ALiBi. At least
  // 2, without a window; 0: off.
  size_t pages = 0;
  // With `pages`: most pages of a sequence, and most tokens of a step that choose.
  size_t most_pages = 0, most_tokens = 0;
};

struct PlanOptions {
  Variant variant;             // a built one that this CPU runs
  ThreadPool* pool = nullptr;  // not owned; outlives the plan
  // Everything is chosen and laid out, and no weight is read: for size() and what else is known then. Run is kInvalidArgument. The pool may
  // be null; `threads` are those that it would have.
  bool layout_only = false;
  size_t threads = 1;
  size_t max_rows = 512;    // tokens of all spans of one step together
  size_t page_tokens = 64;  // of the KV cache, a multiple of kAttentionTile
  CacheType key_type = CacheType::kF16;
  CacheType value_type = CacheType::kF16;
  bool exact = false;  // float activations on dequantized weights: slow, the reference path, always by our own kernels
  SparseAttention sparse = {};
  FloatProviderChoice float_provider = FloatProviderChoice::kTable;  // who multiplies with F32 weights
  std::string packed_cache = {};  // folder that keeps packed weights for the next load (packed_cache.h); "": none
  // Who rounds activations; null: the variant's own table. Tests pass one that looks on. Not owned; outlives the plan.
  const ProductTable* products = nullptr;
  Allocator allocator = {};  // of packed weights, intermediates, scratch, adapters
  // Called from the loading thread with bytes packed so far and in total, the last time with all; return false to cancel
  // (kCancelled). May be empty.
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

// An adapter and what its addends are multiplied by.
struct AdapterUse {
  std::shared_ptr<const Adapter> adapter;
  float scale = 1;
};

// In place of a token's id: its row of the embedding is StepSpan::inputs'.
inline constexpr int32_t kInputRow = -1;

enum class Outputs : uint8_t { kNone, kLast, kAll };  // which rows of a span go through the output head

// A run of consecutive tokens of one sequence. Pointers are the caller's and live until Run returns.
struct StepSpan {
  std::span<const int32_t> tokens;  // ids, each below vocab_size(), or kInputRow
  // [groups] -> page pointers of the sequence for that cache group; all pages up to slot first_slot + tokens.size() exist that the
  // group looks back to (Plan::lookback), null is what no token sees, and those that the step writes are owned by this sequence alone.
  std::span<uint8_t* const* const> pages;
  int64_t first_slot;                       // slots below it are filled: the sequence's length before the step
  std::span<const int32_t> positions = {};  // [tokens] RoPE positions; empty: the slot number + the last run's shift
  Outputs outputs = Outputs::kLast;
  // Where the keys of the slots so far were rotated to; the new ones belong to the last run. Empty: one run, shift 0.
  std::span<const SlotRun> runs = {};
  // The recurrent state of the sequence, of Plan::state_bytes() each: what it was after first_slot tokens (null: first_slot is 0), and
  // where it goes, all of it. They do not overlap; `state` is only read, so that a step that fails has changed nothing.
  const float* state = nullptr;
  float* next_state = nullptr;
  // So many first tokens of the span see each other whatever their order, and windows and chunks do not part them (a prefix, an
  // image); at most all. They lie in one span: what was fed before can't see them.
  size_t prefix = 0;
  // The tokens choose their pages (SparseAttention::pages; without it nothing happens). Keys and values of later layers are then
  // not those that other tokens would give.
  bool choose_pages = false;
  // What the products of its rows have added (Plan::Combine); null: nothing. Keys and values then depend on it too.
  const AdapterSet* adapters = nullptr;
  // [tokens, Plan::input_width()] rows of floats that stand for those of the embedding's table where the token is kInputRow; null: all
  // tokens are ids. What a model does with the table's rows (gemma scales them) it does with these too.
  const float* inputs = nullptr;
  // Who looks on at its rows; null: nobody. Not with choose_pages, whose weights would not be those that are shown.
  StepTap* tap = nullptr;
};

// Receives logits, at most 32 rows at a time, in the order of spans and tokens, from the thread that called Run; or hidden states, those
// behind the last layer and the norm that may follow it.
class LogitsConsumer {
 public:
  virtual ~LogitsConsumer() = default;
  // Which of both it wants. A model that gives no logits (Plan::gives_hidden) refuses a consumer of them.
  virtual bool takes_hidden() const { return false; }
  // logits: [rows, Plan::vocab_size or hidden_width], row stride `stride` floats, valid during the call. Row r is token first_token + r of span `span`.
  virtual void Consume(size_t span, size_t first_token, size_t rows, const float* logits, size_t stride) = 0;
};

// Bytes of what a plan holds.
struct PlanSize {
  uint64_t packed_weight_bytes;
  uint64_t arena_bytes;
  uint64_t product_scratch_bytes;  // of XNNPACK's products
  uint64_t staging_bytes;          // beside weights and arena while it is made, and gone then
};

class Plan {
 public:
  // Errors: kUnsupported (a format or op that this build lacks, naming the tensor or node), kCorrupt, kNotFound (file),
  // kOutOfMemory, kCancelled. Non-matrix weights (norms, biases) are held as f32.
  static Result<std::unique_ptr<Plan>> Create(const Graph& graph, const WeightSource& source,
                                              const PlanOptions& options);
  virtual ~Plan() = default;

  virtual size_t vocab_size() const = 0;
  // Floats of a row of outputs: the vocabulary, or the width of the hidden states.
  virtual size_t output_width() const { return vocab_size(); }
  virtual bool gives_hidden() const { return false; }  // and no logits
  virtual size_t hidden_width() const { return 0; }    // floats of a hidden state
  virtual size_t input_width() const { return 0; }     // of a row of StepSpan::inputs; 0: the plan takes ids alone
  virtual Pooling pooling() const { return Pooling::kUnknown; }  // of its hidden states, as the model is made for it
  virtual const PlanOptions& options() const = 0;
  // One page layout a cache group; a sequence has pages for each.
  virtual const std::vector<PageLayout>& cache_groups() const = 0;
  // How many tokens a token sees in the layers of a cache group, itself among them; 0: all before it. Pages that lie before what the
  // next token sees may be null.
  virtual size_t lookback(size_t) const { return 0; }
  // What recurrent layers remember of one sequence; 0: the model has none.
  virtual size_t state_bytes() const { return 0; }
  virtual PlanSize size() const = 0;
  // Whether some layer is an encoder's (AttentionSpec::bidirectional) or has scores as a value (PairSpec). A sequence is then fed in one step, which starts at slot
  // 0, and no part of it may serve another one.
  virtual bool whole_sequences() const { return false; }
  // Whether what a sequence has read can stand at other places afterwards (StepSpan::runs with several runs).
  virtual bool can_shift() const { return !whole_sequences() && state_bytes() == 0; }
  // A LoRA adapter's low-rank matrices, checked against the graph: see Adapter::Load. Thread safe, steps may run meanwhile.
  virtual Result<std::shared_ptr<const Adapter>> LoadAdapter(const WeightSource& source, float alpha);
  // Adapters of this plan for StepSpan::adapters: see AdapterSet::Make. Thread safe likewise.
  virtual Result<std::shared_ptr<const AdapterSet>> Combine(std::span<const AdapterUse> uses) const;
  // What StepSpan::tap can see: the attention layers in the order of the graph, and the numbers of the layers whose residual stream is
  // known (Graph::EndLayer).
  virtual std::span<const TappedLayer> attention_layers() const;
  virtual std::span<const int> stream_layers() const { return {}; }
  virtual std::string Describe() const = 0;  // stages, kernels and bytes, one a line, for `doctor` and bench

  // One step. Nothing is allocated but by taps. Not thread safe: one step at a time (the engine serialises). On kCancelled or any error the
  // contents of slots from first_slot on, and next_state, are undefined; slots before are untouched.
  virtual Status Run(std::span<const StepSpan> spans, LogitsConsumer* consumer, AbortFlags abort = {}) = 0;
};

}  // namespace moonlit
