// SPDX-License-Identifier: Apache-2.0
// The engine: one loaded model, its plan, its cache pool and its sessions. Sessions are independent; a step may serve several.
//
//   auto engine = Engine::Load("model.gguf", {});
//   auto session = engine->NewSession();
//   engine->Prefill(*session, ids, consumer);          // in chunks of options.chunk_tokens, cancellable
//   Generator (runtime/decode/generate.h) does the loop prompt -> tokens -> text.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "kernels/attention/page_layout.h"
#include "kernels/cpu/variant.h"
#include "runtime/base/status.h"
#include "runtime/cache/cache.h"
#include "runtime/exec/plan.h"
#include "runtime/text/tokenizer.h"
#include "runtime/threads/pool.h"

namespace moonlit {

struct EngineOptions {
  size_t threads = 0;             // 0: DefaultThreadCount
  size_t n_ctx = 0;               // tokens a session may hold; 0: the model's training context, at most 4096
  size_t max_sessions = 1;        // the pool holds max_sessions * n_ctx tokens
  size_t chunk_tokens = 512;      // most rows of one step (llama.cpp's -ub)
  size_t page_tokens = 64;
  bool default_key_type = true;   // take DefaultCacheType(variant); else key_type
  CacheType key_type = CacheType::kF16;
  bool default_value_type = true;
  CacheType value_type = CacheType::kF16;
  bool exact = false;
  std::string variant;            // "": MOONLIT_VARIANT from the environment, else the best for this CPU
  ThreadPool* pool = nullptr;     // an app's own pool (not owned); null: the engine makes one of `threads`
  std::function<bool(uint64_t done, uint64_t total)> progress;
};

// Static facts of a loaded model.
struct ModelFacts {
  std::string architecture;       // "llama"
  std::string name;               // general.name, may be empty
  std::string file;
  size_t n_vocab, n_ctx_train, n_layers, n_embd, n_heads, n_kv_heads;
  uint64_t parameters;
  uint64_t file_bytes;            // of the tensors
  std::string file_type;          // "Q4_0", "mostly Q4_K": the format with the most bytes
};

// A conversation's place in the cache. Single owner: two threads in one session at once get kBusy.
class Session {
 public:
  int64_t length() const { return sequence_.length(); }
  void Truncate(int64_t length) { sequence_.Truncate(length); }

 private:
  friend class Engine;
  explicit Session(PagePool* pool) : sequence_(pool) {}
  Sequence sequence_;
  std::atomic<bool> busy_{false};
};

struct SessionSpan {
  Session* session;
  std::span<const int32_t> tokens;
  Outputs outputs = Outputs::kLast;
};

class Engine {
 public:
  // `path`: a GGUF file (any part of a split set), or "poet" for the embedded model.
  static Result<std::unique_ptr<Engine>> Load(const std::string& path, const EngineOptions& options);
  ~Engine();

  const ModelFacts& facts() const;
  const Tokenizer& tokenizer() const;
  const EngineOptions& options() const;      // with every default filled in
  Variant variant() const;
  size_t threads() const;
  std::string thread_reason() const;
  Plan& plan();

  // kExhausted when max_sessions live sessions exist. Sessions die before the engine.
  Result<std::unique_ptr<Session>> NewSession();

  // One step for several sessions, each at most once; rows together at most chunk_tokens. Fails before anything runs when a
  // session would exceed n_ctx (kExhausted with needed and allowed counts) or pages run out. All sessions keep their length on failure.
  // Thread safe: steps are serialised.
  Status Step(std::span<const SessionSpan> spans, LogitsConsumer* consumer, const std::atomic<bool>* abort = nullptr);

  // Feeds any number of tokens in chunks; `progress` after each chunk (tokens done); on failure the session is back at its
  // length before the call. outputs: kLast (of all tokens), kAll or kNone.
  Status Prefill(Session& session, std::span<const int32_t> tokens, Outputs outputs, LogitsConsumer* consumer,
                 const std::atomic<bool>* abort = nullptr, const std::function<void(size_t done)>& progress = {});

 private:
  struct Impl;
  explicit Engine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// MOONLIT_VARIANT's rule: an empty name means the best for this CPU; an unknown, unbuilt or unsupported one is an error.
Result<Variant> ResolveVariant(const std::string& name);

}  // namespace moonlit
