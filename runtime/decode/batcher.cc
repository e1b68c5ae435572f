// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/batcher.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <new>
#include <utility>

#include "runtime/base/clock.h"
#include "runtime/decode/session_spans.h"

namespace moonlit {
namespace {

// How often who waits looks at its flags: nobody wakes it for them.
constexpr uint64_t kLookEvery = 1'000'000;
constexpr uint64_t kMostPatience = 50'000'000;
constexpr size_t kMostCallers = 64;

// The wanted rows of a call, until its thread takes them.
class CopiedRows {
 public:
  // False: there is no memory.
  bool Allocate(size_t rows, size_t width) {
    if (values_ == nullptr && rows > 0) values_.reset(new (std::nothrow) float[rows * width]);
    width_ = width;
    return values_ != nullptr || rows == 0;
  }
  void Clear() { count_ = 0; }
  void Add(size_t span, size_t token, const float* row) {
    places_[count_] = {span, token};
    std::copy_n(row, width_, values_.get() + count_++ * width_);
  }
  void GiveTo(LogitsConsumer& consumer) const {
    for (size_t i = 0; i < count_; ++i) {
      consumer.Consume(places_[i].span, places_[i].token, 1, values_.get() + i * width_, width_);
    }
  }

 private:
  struct Place {
    size_t span, token;
  };
  std::unique_ptr<float[]> values_;  // [rows, width]
  size_t width_ = 0, count_ = 0;
  Place places_[Batcher::kMostCopiedRows];
};

size_t WantedRows(std::span<const SessionSpan> spans) {
  size_t rows = 0;
  for (const SessionSpan& span : spans) {
    rows += span.outputs == Outputs::kAll ? span.tokens.size() : span.outputs == Outputs::kLast ? 1 : 0;
  }
  return rows;
}

}  // namespace

// Lives on its thread's stack.
struct Batcher::Call {
  enum class State { kWaits, kRides, kLeads, kEnded };

  Call(std::span<const SessionSpan> s, LogitsConsumer* c, AbortFlags a)
      : spans(s),
        consumer(c),
        flags(a),
        wanted(WantedRows(s)),
        shares(wanted <= kMostCopiedRows && !SessionSpans::AreShown(s)) {
    for (const SessionSpan& span : spans) rows += span.tokens.size();
  }
  bool is_prompt() const { return rows > kFewRows; }
  bool takes_hidden() const { return consumer != nullptr && consumer->takes_hidden(); }

  const std::span<const SessionSpan> spans;
  LogitsConsumer* const consumer;
  const AbortFlags flags;
  const size_t wanted;
  size_t rows = 0;
  const std::thread::id thread = std::this_thread::get_id();

  bool shares;  // may go with others
  State state = State::kWaits;
  Status status;
  bool in_step = false;   // what it needs is reserved
  size_t first_span = 0;  // among those of the step
  CopiedRows copies;
  std::exception_ptr thrown;  // by the consumer, or std::bad_alloc
  std::condition_variable turn;
};

// What a step has come to.
struct Batcher::Outcome {
  bool ok() const { return status.ok() && thrown == nullptr; }
  Status status;
  std::exception_ptr thrown;
};

// What a batch has room for.
struct Batcher::Room {
  Room(const Call& leader, size_t most_rows) : rows(most_rows) { Take(leader); }
  bool Has(const Call& call) const {
    if (call.rows > rows || (generating && call.is_prompt() && call.rows > prompt_rows)) return false;
    return call.wanted == 0 || !any_wanted || call.takes_hidden() == hidden;
  }
  void Take(const Call& call) {
    rows -= call.rows;
    if (call.is_prompt()) prompt_rows -= std::min(prompt_rows, call.rows);
    generating |= !call.is_prompt();
    if (call.wanted == 0) return;
    any_wanted = true;
    hidden = call.takes_hidden();
  }

  size_t rows, prompt_rows = kPromptRows;
  bool generating = false;  // some call that is no prompt goes along
  bool any_wanted = false, hidden = false;
};

class Batcher::SharedConsumer final : public LogitsConsumer {
 public:
  explicit SharedConsumer(std::span<Call* const> owners) : owners_(owners) {
    for (const Call* owner : owners) hidden_ |= owner->wanted > 0 && owner->takes_hidden();
  }
  bool takes_hidden() const override { return hidden_; }
  void Consume(size_t span, size_t first_token, size_t rows, const float* values, size_t stride) override {
    Call& owner = *owners_[span];
    for (size_t r = 0; r < rows; ++r) {
      owner.copies.Add(span - owner.first_span, first_token + r, values + r * stride);
    }
  }

 private:
  std::span<Call* const> owners_;  // [spans of the step]
  bool hidden_ = false;
};

// Every call has a session of its own at least.
Batcher::Batcher(Plan& plan, SessionPool& sessions, const EngineOptions& options)
    : plan_(plan), sessions_(sessions), options_(options) {
  queue_.reserve(options.max_sessions);
  callers_.reserve(std::min(options.max_sessions, kMostCallers));
  batch_.reserve(options.max_sessions);
  steps_.reserve(options.max_sessions);
  owners_.reserve(options.max_sessions);
  flags_.reserve(options.max_sessions);
}

Batcher::~Batcher() = default;

size_t Batcher::waiting() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return queue_.size();
}

size_t Batcher::PieceRows() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  bool company = running_;
  for (const Caller& caller : callers_) {
    company |= caller.thread != std::this_thread::get_id() && steps_run_ - caller.step < kCompanySteps;
  }
  return company ? std::min(kPromptRows, options_.chunk_tokens) : options_.chunk_tokens;
}

void Batcher::Leave() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::thread::id thread = std::this_thread::get_id();
  callers_.erase(std::remove_if(callers_.begin(), callers_.end(), [&](const Caller& c) { return c.thread == thread; }),
                 callers_.end());
  if (patient_ != nullptr) patient_->turn.notify_one();
}

namespace {

thread_local bool inside_step = false;

// A thread's stay in Step, of any batcher. One that comes again meanwhile comes from a consumer, which the step waits for: of the same
// model it would wait for itself, and of another one for a thread that may wait for this one.
class Visit {
 public:
  Visit() : entered_(!inside_step) { inside_step = true; }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
  ~Visit() {
    if (entered_) inside_step = false;
  }
  bool entered() const { return entered_; }

 private:
  const bool entered_;
};

}  // namespace

Status Batcher::Step(std::span<const SessionSpan> spans, LogitsConsumer* consumer, AbortFlags abort) {
  const Visit visit;
  if (!visit.entered()) {
    return Status(
        Code::kInvalidArgument,
        "step: who receives outputs must not evaluate meanwhile, with any model; keep what is given and go on "
        "when the call has returned");
  }
  Call call(spans, consumer, abort);
  Lock lock(mutex_);
  NoteArrival(call.thread);
  if (running_) {
    call.shares = call.shares && CanCopy(call);
    queue_.push_back(&call);
  } else {
    running_ = true;
    call.state = Call::State::kLeads;
  }
  while (call.state != Call::State::kEnded) {
    call.state == Call::State::kLeads ? Lead(lock, call) : WaitForTurn(lock, call);
  }
  lock.unlock();
  if (call.thrown) std::rethrow_exception(call.thrown);
  if (call.status.ok() && consumer != nullptr) call.copies.GiveTo(*consumer);
  return std::move(call.status);
}

bool Batcher::CanCopy(Call& call) const {
  return call.copies.Allocate(call.wanted, call.takes_hidden() ? plan_.hidden_width() : plan_.output_width());
}

void Batcher::NoteArrival(std::thread::id thread) {
  for (Caller& caller : callers_) {
    if (caller.thread != thread || !caller.awaited) continue;
    caller.away = MonotonicNanoseconds() - caller.served;
    caller.awaited = false;
  }
  if (patient_ != nullptr && !SomebodyIsAwaited()) patient_->turn.notify_one();
}

void Batcher::NoteServed(std::thread::id thread, uint64_t now) {
  for (Caller& caller : callers_) {
    if (caller.thread != thread) continue;
    caller.step = steps_run_;
    caller.served = now;
    caller.awaited = true;
    return;
  }
  if (callers_.size() == callers_.capacity()) {
    callers_.erase(std::min_element(callers_.begin(), callers_.end(),
                                    [](const Caller& a, const Caller& b) { return a.served < b.served; }));
  }
  callers_.push_back({thread, steps_run_, now, 0, true});
}

// A call that rides is cancelled by its step, which looks at all flags.
void Batcher::WaitForTurn(Lock& lock, Call& call) {
  while (call.state == Call::State::kWaits || call.state == Call::State::kRides) {
    if (call.state == Call::State::kRides || call.flags.empty()) {
      call.turn.wait(lock);
    } else if (call.flags.AnySet()) {
      queue_.erase(std::find(queue_.begin(), queue_.end(), &call));
      return EndCancelled(call);
    } else {
      call.turn.wait_for(lock, std::chrono::nanoseconds(kLookEvery));
    }
  }
}

uint64_t Batcher::Patience() const { return std::min(last_step_ / 2, kMostPatience); }

// Not one that stayed away longer the last time.
bool Batcher::SomebodyIsAwaited() const {
  const uint64_t patience = Patience();
  return std::any_of(callers_.begin(), callers_.end(),
                     [&](const Caller& caller) { return caller.awaited && caller.away <= patience; });
}

void Batcher::AwaitCompany(Lock& lock, Call& leader) {
  if (!leader.shares) return;
  const uint64_t begin = MonotonicNanoseconds(), patience = Patience();
  patient_ = &leader;
  while (SomebodyIsAwaited() && !leader.flags.AnySet()) {
    const uint64_t waited = MonotonicNanoseconds() - begin;
    if (waited >= patience) {
      // They may never come again. If they do, it is known how long they were away.
      for (Caller& caller : callers_) caller.away = caller.awaited ? UINT64_MAX : caller.away;
      break;
    }
    leader.turn.wait_for(lock, std::chrono::nanoseconds(std::min(kLookEvery, patience - waited)));
  }
  patient_ = nullptr;
}

void Batcher::Gather(Call& leader) {
  batch_.assign(1, &leader);
  if (queue_.empty() || leader.flags.AnySet() || !leader.shares) return;
  if (!CanCopy(leader)) return;
  Room room(leader, options_.chunk_tokens);
  for (const Call* call : queue_) room.generating |= call->shares && !call->is_prompt();
  auto stays = queue_.begin();
  for (Call* call : queue_) {
    if (!call->shares || call->flags.AnySet() || !room.Has(*call)) {
      *stays++ = call;
      continue;
    }
    room.Take(*call);
    call->state = Call::State::kRides;
    batch_.push_back(call);
  }
  queue_.erase(stays, queue_.end());
}

// Until it has passed on, nobody else can: nothing that is called here throws.
void Batcher::Lead(Lock& lock, Call& leader) {
  AwaitCompany(lock, leader);
  Gather(leader);
  lock.unlock();
  const uint64_t begin = MonotonicNanoseconds();
  Outcome outcome = RunBatch(leader);
  const uint64_t end = MonotonicNanoseconds();
  lock.lock();
  last_step_ = end - begin;
  ++steps_run_;
  Conclude(std::move(outcome), end);
  PassOn();
}

// Returns how many calls have got what they need.
size_t Batcher::ReserveBatch() {
  steps_.clear();
  owners_.clear();
  flags_.clear();
  size_t count = 0;
  const std::lock_guard<std::mutex> lock(sessions_.mutex());
  for (Call* call : batch_) {
    call->first_span = steps_.size();
    call->in_step = false;
    const size_t flags = flags_.size();
    try {
      call->flags.ForEach([&](const std::atomic<bool>* flag) { flags_.push_back(flag); });
      call->status = SessionSpans::Reserve(call->spans, options_, &steps_);
      call->in_step = call->status.ok();
    } catch (const std::bad_alloc&) {  // this call's alone; others must not wait for ever
      call->thrown = std::current_exception();
      SessionSpans::GiveBack(call->spans);
      steps_.resize(call->first_span);
    }
    if (!call->in_step) {
      flags_.resize(flags);
      continue;
    }
    ++count;
    owners_.resize(steps_.size(), call);
    call->copies.Clear();
  }
  return count;
}

// A call without company has its own consumer.
Status Batcher::RunPlan(Call& leader, size_t count) {
  if (count == 0) return Status();
  if (count == 1 && leader.in_step) return plan_.Run(steps_, leader.consumer, leader.flags);
  SharedConsumer consumer(owners_);
  return plan_.Run(steps_, &consumer, AbortFlags(flags_));
}

Batcher::Outcome Batcher::RunBatch(Call& leader) noexcept {
  Outcome outcome;
  const size_t count = ReserveBatch();
  try {
    outcome.status = RunPlan(leader, count);
  } catch (...) {
    outcome.thrown = std::current_exception();
  }
  const std::lock_guard<std::mutex> lock(sessions_.mutex());
  for (const Call* call : batch_) {
    if (!call->in_step) continue;
    outcome.ok() ? SessionSpans::Commit(call->spans, options_) : SessionSpans::GiveBack(call->spans);
  }
  return outcome;
}

// A shared step that failed says nothing of the single calls. Where one of them was cancelled the others run again together, else
// each runs alone and gets its own Status or exception.
void Batcher::Conclude(Outcome outcome, uint64_t now) noexcept {
  size_t count = 0, again = 0;
  bool cancelled = false;
  for (const Call* call : batch_) {
    count += call->in_step ? 1 : 0;
    cancelled |= call->in_step && call->flags.AnySet();
  }
  for (Call* call : batch_) {
    if (!call->in_step) {
      End(*call);
    } else if (outcome.ok()) {
      NoteServed(call->thread, now);
      End(*call);
    } else if (count == 1) {
      call->status = std::move(outcome.status);
      call->thrown = std::move(outcome.thrown);
      End(*call);
    } else if (call->flags.AnySet()) {
      EndCancelled(*call);
    } else {
      call->shares = call->shares && cancelled && outcome.status.code() == Code::kCancelled;
      call->state = Call::State::kWaits;
      call->turn.notify_one();
      batch_[again++] = call;
    }
  }
  queue_.insert(queue_.begin(), batch_.begin(), batch_.begin() + static_cast<std::ptrdiff_t>(again));
  batch_.clear();
}

void Batcher::PassOn() {
  running_ = !queue_.empty();
  if (!running_) return;
  Call& next = *queue_.front();
  queue_.erase(queue_.begin());
  next.state = Call::State::kLeads;
  next.turn.notify_one();
}

// With the status that it has. The call may be gone as soon as the mutex is free.
void Batcher::End(Call& call) {
  call.state = Call::State::kEnded;
  call.turn.notify_one();
}

void Batcher::EndCancelled(Call& call) {
  try {
    call.status = Status(Code::kCancelled, "the step was cancelled");
  } catch (const std::bad_alloc&) {
    call.thrown = std::current_exception();
  }
  End(call);
}

}  // namespace moonlit
