// SPDX-License-Identifier: Apache-2.0
// The engine: one loaded model, its plan, its cache pool and its sessions. Sessions are independent; a step may serve
// several.
//
//   MOONLIT_ASSIGN_OR_RETURN(auto engine, Engine::Create(std::move(model), {}));  // runtime/api makes `model`
//   MOONLIT_ASSIGN_OR_RETURN(auto session, engine->NewSession());
//   Status s = engine->Prefill(*session, ids, Outputs::kLast, &consumer);            // in chunks, cancellable
//   Generate (runtime/decode/generate.h) does the loop prompt -> tokens -> text.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/attention/page_layout.h"
#include "kernels/cpu/variant.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/cache/cache.h"
#include "runtime/cache/session_file.h"
#include "runtime/exec/plan.h"
#include "runtime/text/tokenizer.h"
#include "runtime/threads/pool.h"

namespace moonlit {

struct EngineOptions {
  size_t threads = 0;  // 0: DefaultThreadCount
  size_t n_ctx = 0;    // tokens a session may hold; 0: the model's training context, at most default_ctx
  size_t default_ctx = 4096;
  size_t max_sessions = 1;    // the pool holds max_sessions * n_ctx tokens
  size_t chunk_tokens = 512;  // most rows of one step (llama.cpp's -ub)
  size_t page_tokens = 64;
  bool default_key_type = true;  // take DefaultCacheType(variant); else key_type
  CacheType key_type = CacheType::kF16;
  bool default_value_type = true;
  CacheType value_type = CacheType::kF16;
  bool exact = false;
  // Full blocks of the cache stay known when their session ends, until their pages are needed; Prefill takes them for a text
  // that begins with the same tokens.
  bool share_prefixes = true;
  // Sparse attention, see SparseAttention (runtime/exec/plan.h); 0: off. A window and sinks beside it (rounded up to 64, at most a
  // page) for all tokens; or a number of pages (at least 2) that generated tokens read in a layer, for each KV head.
  size_t attention_window = 0;
  size_t attention_sinks = 0;
  size_t attention_pages = 0;
  std::string variant = {};         // "": MOONLIT_VARIANT from the environment, else the best for this CPU
  std::string packed_cache = {};    // folder that keeps packed weights for the next load; "": none
  std::string float_provider = {};  // "": MOONLIT_FLOAT_PROVIDER, else the table (runtime/exec/float_provider.h)
  ThreadPool* pool = nullptr;       // not owned; null: the engine makes one of `threads`
  ParallelFor parallel_for =
      {};  // with a null pool: an app's own threads, `threads` of them at once; the engine creates none
  Allocator allocator = {};  // of all that is sized by the model
  std::function<bool(uint64_t done, uint64_t total)> progress = {};
};

// Static facts of a loaded model.
struct ModelFacts {
  std::string architecture;  // "llama"
  std::string name;          // general.name, may be empty
  std::string file;
  std::vector<std::string> files = {};  // WeightSource::Files: no output may replace one
  size_t n_vocab = 0, n_ctx_train = 0, n_layers = 0, n_embd = 0, n_heads = 0, n_kv_heads = 0;
  size_t n_positions = 0;  // that the model has learned, so that no context is longer; 0: any
  uint64_t parameters = 0;
  uint64_t file_bytes = 0;  // of the tensors
  std::string file_type;    // "Q4_0", "mostly Q4_K": the format with the most bytes
  std::string identity;     // differs for models with other weights; one line, stored in session files
};

// What the engine needs of a model, whoever read it. Graph and weights are behind `make_plan` (called once, by Create,
// then dropped with all it holds; any number of times by Measure), so this room knows neither; tests put a plan of their own there.
struct LoadedModel {
  ModelFacts facts;
  std::unique_ptr<const Tokenizer> tokenizer;
  std::function<Result<std::unique_ptr<Plan>>(const PlanOptions& options)> make_plan;
};

class Batcher;      // runtime/decode/batcher.h
class SessionPool;  // what sessions and steps of one engine share: the cache's pages and the number of live sessions

// Big memory of an engine, in bytes.
struct MemoryUse {
  uint64_t weights = 0;          // packed
  uint64_t arena = 0;            // intermediates of a step, scratch of the threads
  uint64_t product_scratch = 0;  // of XNNPACK's products
  uint64_t cache = 0;            // pages of all sessions
  uint64_t states = 0;           // of recurrent layers, likewise
  uint64_t staging = 0;          // while weights are packed; gone before there is a cache
  uint64_t total() const;        // once it is created
  uint64_t most() const;         // at one moment
};

struct MeasuredEngine {
  MemoryUse memory;
  EngineOptions options;  // with every default filled in
};

// A conversation's place in the cache. Single owner: while a step runs in it, another call on it gets kBusy. Must die
// before its engine, but may die on any thread.
class Session {
 public:
  ~Session();
  int64_t length() const { return sequence_.length(); }
  // [length]; valid until the next call that changes the session.
  std::span<const int32_t> tokens() const { return sequence_.tokens(); }
  // Forgets all but the first `length` tokens. kBusy; kInvalidArgument beyond 0 .. length(); kUnsupported for a part of the text of
  // a model with recurrent layers, whose state knows no way back (a fork does). Layers with windows give back the cache that the
  // next token does not see: where the new end sees it and nobody else has it, the text is read again, which takes a prefill's
  // time and fails as steps do (kCancelled by the flag), with the session shorter than asked for. Not from inside a consumer.
  Status Truncate(int64_t length, const std::atomic<bool>* abort = nullptr);
  // Makes room in a full context: drops tokens [first, last) and moves what follows down by as many places, where it is
  // then read as if it had always been there; it has still been computed with what is dropped. Whole blocks go:
  // kInvalidArgument, naming the block's size, unless both are multiples of block_tokens() within length(). kBusy;
  // kUnsupported for a model whose tokens can't be moved (Plan::can_shift). Where less than a window follows `last`, layers with
  // that window may not see the end of what is kept before `first` (Sequence::Drop).
  // Where nothing follows `last` this is Truncate(first).
  Status Drop(int64_t first, int64_t last, const std::atomic<bool>* abort = nullptr);
  int64_t block_tokens() const;  // EngineOptions::page_tokens
  // What the model's products have added from now on (Plan::Combine of this engine's plan); null: nothing. Shared beginnings,
  // forks and files go with it. kBusy; kInvalidArgument for other ones than before in a session that holds tokens, which were read
  // with those before.
  Status SetAdapters(std::shared_ptr<const AdapterSet> adapters);
  // Who looks on at the tokens that the session reads from now on (StepSpan::tap); null: nobody. Not owned; lives until another one is
  // set or the session dies. Prefill then computes what it could have taken from the cache. Forks and files do not have it. kBusy.
  Status SetTap(StepTap* tap);

 private:
  friend class Engine;
  friend class SessionSpans;  // runtime/decode/session_spans.h
  Session(std::shared_ptr<SessionPool> home, Sequence sequence);
  // Runs `body` as the session's only user; kBusy when there is another one.
  template <typename Body>
  Status Use(const Body& body);
  Status Cut(int64_t length, const std::atomic<bool>* abort);
  // AdapterSet's key and identity; "" without.
  std::string_view AdapterKey() const;
  std::string_view AdapterIdentity() const;
  std::shared_ptr<SessionPool> home_;
  std::shared_ptr<const AdapterSet> adapters_;
  StepTap* tap_ = nullptr;
  // The first token that can't be read again by its id: it came with a position of its own or in a prefix.
  int64_t placed_from_ = INT64_MAX;
  Sequence sequence_;
  std::atomic<bool> busy_{false};
};

struct SessionSpan {
  Session* session;
  std::span<const int32_t> tokens;
  Outputs outputs = Outputs::kLast;
  // The tokens are generated ones, which read chosen pages alone (EngineOptions::attention_pages). Where that leaves any out, the
  // blocks that they fill are never shared by content.
  bool choose_pages = false;
  // StepSpan's: rows in place of ids (tokens of kInputRow), and positions that RoPE turns by, one a token; later tokens without take the
  // numbers of their slots again. Such tokens are never shared by content, and a model with windows can't go back behind them where it
  // would have to read them again (Session::Truncate).
  const float* inputs = nullptr;
  std::span<const int32_t> positions = {};
  bool shown = true;  // to the session's tap
  // StepSpan's: so many first tokens see each other. To sharing and going back they are like those with positions.
  size_t prefix = 0;

  // The same ids after the same text would give the same keys and values.
  bool is_plain() const { return positions.empty() && prefix == 0; }
};

class Engine {
 public:
  // Fills in the defaults, makes the pool, the plan (which reads and packs the weights) and the cache. Errors:
  // kInvalidArgument names the option and its range; what ResolveVariant, the pool, make_plan and the cache say.
  static Result<std::unique_ptr<Engine>> Create(LoadedModel model, const EngineOptions& options);
  // What Create would allocate, found without reading a weight or starting a thread. The model needs no tokenizer. Errors as Create's.
  static Result<MeasuredEngine> Measure(const LoadedModel& model, const EngineOptions& options);
  ~Engine();

  const ModelFacts& facts() const;
  const Tokenizer& tokenizer() const;
  const EngineOptions& options() const;  // with every default filled in
  Variant variant() const;
  size_t threads() const;
  const std::string& thread_reason() const;  // why so many, one sentence
  Plan& plan();
  MemoryUse memory() const;  // what was allocated

  // kExhausted when max_sessions live sessions exist. Thread safe.
  Result<std::unique_ptr<Session>> NewSession();
  // A second session with the same past; both go their own ways. They share what is in the cache, and the page that is not
  // full is copied when one of them goes on. kExhausted as above, kBusy.
  Result<std::unique_ptr<Session>> Fork(Session& session);

  // Writes the session to a file, which appears complete or not at all (runtime/cache/session_file.h). kBusy, kIo, kNotFound.
  Status Save(Session& session, const std::string& path);
  // Makes the session what was saved. A failure leaves it as it was: what SessionReader::Open says, kCorrupt, kBusy, and
  // kExhausted for more tokens than a context has, or while others have the room. Where there is no room for both texts the file is
  // read twice: it is checked, what the session holds goes, and it is read in. If it has changed since, or can't be read again, the
  // session is empty, and the message says so.
  Status Restore(Session& session, const std::string& path, const RestoreOptions& options = {});
  // The same bytes to and from a place of the caller's, and how many they are. Also what the sink or the source says. A source without
  // a size can't be read twice: kExhausted where there is no room for both texts, unless the session is truncated to 0 before.
  Status Write(Session& session, const ByteSink& sink);
  Status Read(Session& session, ByteSource source, const RestoreOptions& options = {});
  Result<uint64_t> SavedBytes(Session& session);

  // One step for several sessions, each at most once; rows together at most chunk_tokens. Fails before anything runs
  // when a session would exceed n_ctx (kExhausted with needed and allowed counts), pages run out, a session is in use
  // (kBusy) or an id is outside the vocabulary (kInvalidArgument). All sessions keep their length on failure.
  // `consumer` may be null when no outputs are wanted. Thread safe: what several threads ask for at the same time goes into
  // one step where it fits, and each fails or succeeds alone (Batcher); consumers run on their callers' threads, and must not
  // start a step of this engine (kInvalidArgument).
  Status Step(std::span<const SessionSpan> spans, LogitsConsumer* consumer, AbortFlags abort = {});

  // Feeds any number of tokens (at least one) in chunks; `progress` after each chunk (tokens done); on failure, and when
  // a consumer or `progress` throws, the session is back at its length before the call. outputs: kLast (of all tokens), kAll or kNone; the consumer sees
  // span 0 and token numbers of the whole call. Steps of other sessions run between chunks, which are then short
  // (Batcher::PieceRows), or share them.
  // With share_prefixes, blocks that the cache still has of such a text are taken, not computed: the same bits. Not with
  // kAll, and never the last token with kLast. *reused (may be null): how many tokens that were.
  // An encoder (Plan::whole_sequences) takes its text at once, in an empty session: kInvalidArgument with the limit.
  Status Prefill(Session& session, std::span<const int32_t> tokens, Outputs outputs, LogitsConsumer* consumer,
                 const std::atomic<bool>* abort = nullptr, const std::function<void(size_t done)>& progress = {},
                 size_t* reused = nullptr);

  // Calls that wait for a step to begin. Thread safe.
  size_t waiting_calls() const;
  // The calling thread needs no step soon: others that could share one with it don't wait for it. Thread safe.
  void Leave();

 private:
  struct Impl;
  class SpareSequence;
  class Rollback;
  explicit Engine(std::unique_ptr<Impl> impl);
  Status CheckSpans(std::span<const SessionSpan> spans, const LogitsConsumer* consumer) const;
  Status TakePrefix(Session& session, std::span<const int32_t> tokens, size_t* taken);
  size_t PieceOf(size_t position, size_t left) const;
  Status ReadAgain(Session& session, std::span<const int32_t> tokens, const std::atomic<bool>* abort);
  SessionFacts SavedFacts(const Session& session) const;
  Status ReadInto(Session& session, ByteSource source, const RestoreOptions& options);
  Status ReadInPlace(Session& session, SessionReader& reader, const Status& no_room);
  std::unique_ptr<Impl> impl_;
};

// MOONLIT_VARIANT's rule: an empty name means the environment's, else the best for this CPU; an unknown, unbuilt or
// unsupported one is an error that lists what could be had.
Result<Variant> ResolveVariant(const std::string& name);

}  // namespace moonlit
