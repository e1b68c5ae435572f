// SPDX-License-Identifier: Apache-2.0
// What an engine is made of, for engine*.cc alone.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "runtime/decode/batcher.h"
#include "runtime/decode/engine.h"
#include "runtime/decode/session_pool.h"

namespace moonlit {

struct Engine::Impl {
  ModelFacts facts;
  std::unique_ptr<const Tokenizer> tokenizer;
  EngineOptions options;
  Variant variant;
  std::string thread_reason;
  std::unique_ptr<ThreadPool> own_pool;  // null when the app gave one
  std::unique_ptr<Plan> plan;
  std::shared_ptr<SessionPool> sessions;
  std::unique_ptr<Batcher> batcher;
  bool gives_back = false;  // some group of the cache does
};

// A sequence beside those of sessions. It holds pages, so it comes and goes under the mutex, whatever is thrown meanwhile.
class Engine::SpareSequence {
 public:
  explicit SpareSequence(SessionPool& pool) : pool_(pool) {}
  SpareSequence(const SpareSequence&) = delete;
  SpareSequence& operator=(const SpareSequence&) = delete;
  ~SpareSequence() {
    if (!sequence_) return;
    const std::lock_guard<std::mutex> lock(pool_.mutex());
    sequence_.reset();
  }
  bool has_value() const { return sequence_.has_value(); }
  Sequence& operator*() { return *sequence_; }
  // make(): a Result<Sequence>.
  template <class Make>
  Status Set(const Make& make) {
    const std::lock_guard<std::mutex> lock(pool_.mutex());
    MOONLIT_ASSIGN_OR_RETURN(sequence_, make());
    return Status();
  }
  void SwapWith(Sequence& other) {
    const std::lock_guard<std::mutex> lock(pool_.mutex());
    std::swap(*sequence_, other);
  }

 private:
  SessionPool& pool_;
  std::optional<Sequence> sequence_;
};

}  // namespace moonlit
