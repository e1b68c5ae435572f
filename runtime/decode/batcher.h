// SPDX-License-Identifier: Apache-2.0
// Steps of several threads as one, so that weights are read once for all of them.
//
//   Batcher batcher(plan, sessions, options);          // one an engine
//   Status s = batcher.Step(spans, consumer, abort);   // any thread; returns when these spans are read
//
// What one thread asks for is a call, whose spans succeed or fail together. There is no thread of the batcher's own: who comes
// while nothing runs leads a step at once; who comes later waits in a queue, and when the step ends the oldest call leads the
// next one. It takes along what waits, oldest first, as far as rows fit (chunk_tokens); what does not fit waits on. Before that it
// waits for the threads that the last step served and that use to come back soon, as those do that generate, at most half as long
// as that step took: otherwise those of one step would always be away when the next one begins, and sessions would take turns.
//
// - Bits are those of each call alone: the plan's contract.
// - Outputs: where calls share a step their rows are copied, and each thread hands its own to its consumer when the step is over. A
//   call without company is consumed inside its step, and so is one that wants more than kMostCopiedRows or has a tap, which never
//   shares.
// - Errors: a call whose pages can't be had, or that the plan refuses, gets its own Status; the others run without it. What a step
//   throws (a consumer's exception, std::bad_alloc) likewise: it passes through that call, and whoever waits runs on.
// - Cancelling: a call ends before the next tile of work while its step runs, and within a millisecond while it waits. A shared
//   step is given up then, which leaves its sessions as they were, and the others run again at once.
// - Fairness: while a call has few rows, as generating ones have, the prompts of its step have at most kPromptRows together.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "runtime/decode/engine.h"
#include "runtime/decode/session_pool.h"

namespace moonlit {

class Batcher {
 public:
  static constexpr size_t kMostCopiedRows = 16;  // outputs of a call that shares
  static constexpr size_t kFewRows = 16;         // of a call that is no prompt
  static constexpr size_t kPromptRows = 64;      // a whole chunk of recurrent layers
  static constexpr uint64_t kCompanySteps = 4;

  // All outlive it. `options`: with every default filled in.
  Batcher(Plan& plan, SessionPool& sessions, const EngineOptions& options);
  ~Batcher();

  // Reads the spans in one step, all or nothing. Errors: kExhausted as SessionSpans::Reserve, kCancelled, and what the plan
  // says; what the consumer throws passes through. From inside a consumer or a tap, of whatever batcher: kInvalidArgument. REQUIRES: the
  // caller is the sessions' only user.
  Status Step(std::span<const SessionSpan> spans, LogitsConsumer* consumer, AbortFlags abort);

  // Most rows of a piece of a longer prompt: chunk_tokens; but at most kPromptRows where another thread wants a step or has had one
  // of the last kCompanySteps, so that it does not wait for a whole chunk.
  size_t PieceRows() const;

  // The calling thread will not come again soon: nobody needs to wait for it.
  void Leave();

  // Calls that wait for a step to begin.
  size_t waiting() const;

 private:
  struct Call;
  struct Room;
  struct Outcome;
  class SharedConsumer;
  // A thread that steps have served.
  struct Caller {
    std::thread::id thread;
    uint64_t step;    // number of the last of them
    uint64_t served;  // when it ended
    uint64_t away;    // how long the thread stayed away after the one before
    bool awaited;     // it has not come since
  };
  using Lock = std::unique_lock<std::mutex>;

  void NoteArrival(std::thread::id thread);
  void NoteServed(std::thread::id thread, uint64_t now);
  void WaitForTurn(Lock& lock, Call& call);
  uint64_t Patience() const;
  bool SomebodyIsAwaited() const;
  void AwaitCompany(Lock& lock, Call& leader);
  void Gather(Call& leader);
  void Lead(Lock& lock, Call& leader);
  size_t ReserveBatch();
  Status RunPlan(Call& leader, size_t count);
  Outcome RunBatch(Call& leader) noexcept;
  void Conclude(Outcome outcome, uint64_t now) noexcept;
  void PassOn();
  void End(Call& call);
  void EndCancelled(Call& call);
  bool CanCopy(Call& call) const;

  Plan& plan_;
  SessionPool& sessions_;
  const EngineOptions& options_;

  mutable std::mutex mutex_;
  bool running_ = false;         // somebody leads; otherwise the queue is empty
  std::vector<Call*> queue_;     // those who wait, oldest first
  std::vector<Caller> callers_;  // the latest
  Call* patient_ = nullptr;      // the leader while it waits for company
  uint64_t steps_run_ = 0;
  uint64_t last_step_ = 0;  // nanoseconds that it took

  // The leader's while its step runs. Like the queue they have their full size from the start: a step allocates nothing.
  std::vector<Call*> batch_;  // oldest first
  std::vector<StepSpan> steps_;
  std::vector<Call*> owners_;  // [steps_]
  std::vector<const std::atomic<bool>*> flags_;
};

}  // namespace moonlit
