// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/engine.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/base/round.h"
#include "runtime/decode/engine_impl.h"
#include "runtime/decode/engine_setup.h"
#include "runtime/decode/session_use.h"

namespace moonlit {
namespace {

constexpr size_t kStateChunk = 64;  // of recurrent layers (the numeric contract)

// Shifts the token numbers of one chunk to those of the whole prefill.
class ChunkConsumer final : public LogitsConsumer {
 public:
  ChunkConsumer(LogitsConsumer* target, size_t offset) : target_(target), offset_(offset) {}
  bool takes_hidden() const override { return target_->takes_hidden(); }
  void Consume(size_t span, size_t first_token, size_t rows, const float* logits, size_t stride) override {
    target_->Consume(span, offset_ + first_token, rows, logits, stride);
  }

 private:
  LogitsConsumer* target_;
  size_t offset_;
};

}  // namespace

// Takes a session back to where a prefill found it, unless that comes to its end. What was cut can't always be had again (a recurrent
// state knows no way back, pages may be given back); then it keeps what was there.
class Engine::Rollback {
 public:
  Rollback(Engine& engine, Session& session)
      : session_(session), start_(session.length()), before_(*engine.impl_->sessions) {}
  ~Rollback() {
    if (!armed_) return;
    try {
      static_cast<void>(Undo());
    } catch (...) {  // the session is another call's, and there is no memory to say so
    }
  }
  Status Remember() {
    return session_.Use([&] { return before_.Set([&] { return Result<Sequence>(session_.sequence_.Fork()); }); });
  }
  void Arm() { armed_ = true; }
  void Disarm() { armed_ = false; }
  Status Undo() {
    Disarm();
    if (!before_.has_value()) return session_.Truncate(start_);
    return session_.Use([&] {
      before_.SwapWith(session_.sequence_);
      return Status();
    });
  }

 private:
  Session& session_;
  const int64_t start_;
  SpareSequence before_;
  bool armed_ = false;
};

Engine::Engine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Engine::~Engine() = default;

const ModelFacts& Engine::facts() const { return impl_->facts; }
const Tokenizer& Engine::tokenizer() const { return *impl_->tokenizer; }
const EngineOptions& Engine::options() const { return impl_->options; }
Variant Engine::variant() const { return impl_->variant; }
size_t Engine::threads() const { return impl_->options.pool->threads(); }
const std::string& Engine::thread_reason() const { return impl_->thread_reason; }
Plan& Engine::plan() { return *impl_->plan; }

MemoryUse Engine::memory() const {
  const PagePool& pages = *impl_->sessions->pages();
  MemoryUse use = ToMemoryUse(impl_->plan->size());
  use.cache = pages.memory_bytes();
  if (pages.states() != nullptr) use.states = pages.states()->memory_bytes();
  return use;
}

Result<std::unique_ptr<Session>> Engine::NewSession() {
  const std::lock_guard<std::mutex> lock(impl_->sessions->mutex());
  MOONLIT_RETURN_IF_ERROR(impl_->sessions->CheckRoom());
  std::unique_ptr<Session> session(new Session(impl_->sessions, Sequence(impl_->sessions->pages())));
  impl_->sessions->Admit();
  return session;
}

Result<std::unique_ptr<Session>> Engine::Fork(Session& session) {
  std::unique_ptr<Session> fork;
  MOONLIT_RETURN_IF_ERROR(session.Use([&]() -> Status {
    const std::lock_guard<std::mutex> lock(impl_->sessions->mutex());
    MOONLIT_RETURN_IF_ERROR(impl_->sessions->CheckRoom());
    fork.reset(new Session(impl_->sessions, session.sequence_.Fork()));
    impl_->sessions->Admit();
    fork->adapters_ = session.adapters_;
    fork->placed_from_ = session.placed_from_;
    return Status();
  }));
  return fork;
}

Status Engine::TakePrefix(Session& session, std::span<const int32_t> tokens, size_t* taken) {
  return session.Use([&] {
    const std::lock_guard<std::mutex> lock(impl_->sessions->mutex());
    *taken = session.sequence_.TakePrefix(tokens);
    return Status();
  });
}

Status Engine::CheckSpans(std::span<const SessionSpan> spans, const LogitsConsumer* consumer) const {
  const EngineOptions& o = impl_->options;
  const size_t vocab = impl_->plan->vocab_size();
  if (spans.empty()) return Status(Code::kInvalidArgument, "step: no session is given");
  size_t rows = 0;
  for (size_t s = 0; s < spans.size(); ++s) {
    const SessionSpan& span = spans[s];
    MOONLIT_CHECK(span.session != nullptr && span.session->home_ == impl_->sessions);
    for (size_t earlier = 0; earlier < s; ++earlier) {
      if (spans[earlier].session == span.session) {
        return Errorf(Code::kInvalidArgument, "step: spans %zu and %zu are of one session; expected each session once",
                      earlier, s);
      }
    }
    if (span.tokens.empty()) return Errorf(Code::kInvalidArgument, "step: span %zu has no tokens", s);
    if (span.outputs != Outputs::kNone && consumer == nullptr) {
      return Errorf(Code::kInvalidArgument, "step: span %zu wants logits, but nobody takes them", s);
    }
    // Before any token is read: no array is as long as some counts.
    if (span.tokens.size() > o.chunk_tokens) {
      return Errorf(Code::kInvalidArgument, "step: span %zu has %zu tokens, expected at most %zu (chunk_tokens)", s,
                    span.tokens.size(), o.chunk_tokens);
    }
    for (size_t i = 0; i < span.tokens.size(); ++i) {
      if (span.tokens[i] == kInputRow && span.inputs != nullptr) continue;
      if (span.tokens[i] < 0 || static_cast<size_t>(span.tokens[i]) >= vocab) {
        return Errorf(Code::kInvalidArgument, "token %zu is %d, expected 0 to %zu (the model's vocabulary)", i,
                      span.tokens[i], vocab - 1);
      }
    }
    rows += span.tokens.size();
  }
  if (rows > o.chunk_tokens) {
    return Errorf(Code::kInvalidArgument, "step: %zu tokens, expected at most %zu (chunk_tokens)", rows,
                  o.chunk_tokens);
  }
  return Status();
}

Status Engine::Step(std::span<const SessionSpan> spans, LogitsConsumer* consumer, AbortFlags abort) {
  MOONLIT_RETURN_IF_ERROR(CheckSpans(spans, consumer));
  // Gives back those that are ours, whatever a consumer throws.
  struct Taken {
    std::span<const SessionSpan> spans;
    size_t count = 0;
    ~Taken() {
      for (size_t s = 0; s < count; ++s) spans[s].session->busy_.store(false, std::memory_order_release);
    }
  } taken{spans};
  for (; taken.count < spans.size(); ++taken.count) {
    if (!spans[taken.count].session->busy_.exchange(true, std::memory_order_acquire)) continue;
    return Status(Code::kBusy, "a session is in use by another call; one call at a time may use it");
  }
  try {
    return impl_->batcher->Step(spans, consumer, abort);
  } catch (const std::bad_alloc&) {
    return Errorf(Code::kOutOfMemory, "step: the system gives no more memory");
  }
}

size_t Engine::waiting_calls() const { return impl_->batcher->waiting(); }
void Engine::Leave() { impl_->batcher->Leave(); }

Status Engine::Prefill(Session& session, std::span<const int32_t> tokens, Outputs outputs, LogitsConsumer* consumer,
                       const std::atomic<bool>* abort, const std::function<void(size_t done)>& progress,
                       size_t* reused) {
  if (tokens.empty()) return Status(Code::kInvalidArgument, "prefill: no tokens are given");
  const int64_t start = session.length();
  // A count that no array has must not wrap the sum.
  const size_t held = static_cast<size_t>(start);
  const size_t needed = tokens.size() > SIZE_MAX - held ? SIZE_MAX : held + tokens.size();
  if (needed > impl_->options.n_ctx) {
    return Errorf(Code::kExhausted,
                  "context: %zu tokens are needed (%lld held, %zu new), %zu are allowed; shorten the prompt or load "
                  "with a larger n_ctx",
                  needed, static_cast<long long>(start), tokens.size(), impl_->options.n_ctx);
  }
  if (impl_->plan->whole_sequences() && (start != 0 || tokens.size() > impl_->options.chunk_tokens)) {
    return Errorf(
        Code::kInvalidArgument,
        "prefill: %zu tokens after %lld, but the model is an encoder, whose tokens all see each other: expected "
        "the whole text at once in an empty session, of at most %zu tokens (chunk_tokens)",
        tokens.size(), static_cast<long long>(start), impl_->options.chunk_tokens);
  }
  Rollback rollback(*this, session);
  if (impl_->plan->state_bytes() > 0 || (impl_->gives_back && start > 0)) {
    MOONLIT_RETURN_IF_ERROR(rollback.Remember());
  }
  size_t done = 0;
  if (outputs != Outputs::kAll && session.tap_ == nullptr) {
    const size_t most = tokens.size() - (outputs == Outputs::kLast ? 1 : 0);
    const Status taken = TakePrefix(session, tokens.first(most), &done);
    if (!taken.ok()) return taken;
  }
  rollback.Arm();
  if (reused != nullptr) *reused = done;
  if (done == tokens.size() && progress) progress(done);
  while (done < tokens.size()) {
    const size_t count = PieceOf(static_cast<size_t>(start) + done, tokens.size() - done);
    const bool last = done + count == tokens.size();
    ChunkConsumer shifted(consumer, done);
    SessionSpan span{&session, tokens.subspan(done, count), outputs};
    if (outputs == Outputs::kLast && !last) span.outputs = Outputs::kNone;
    const Status status = Step({&span, 1}, consumer == nullptr ? nullptr : &shifted, abort);
    if (!status.ok()) {
      // If another call holds the session it is that call's now, and its length with it.
      if (status.code() == Code::kBusy) rollback.Disarm();
      const Status back = status.code() == Code::kBusy ? Status() : rollback.Undo();
      return back.ok() ? status : back;
    }
    done += count;
    if (progress) progress(done);
  }
  rollback.Disarm();
  return Status();
}

// An encoder's text is never cut. Recurrent layers give the same bits for all chunks that end at multiples of their own.
size_t Engine::PieceOf(size_t position, size_t left) const {
  if (impl_->plan->whole_sequences()) return left;
  const size_t most = impl_->batcher->PieceRows();
  if (left <= most || impl_->plan->state_bytes() == 0) return std::min(left, most);
  const size_t end = (position + most) / kStateChunk * kStateChunk;
  return end > position ? end - position : most;
}

// REQUIRES: the caller is the session's only user.
Status Engine::ReadAgain(Session& session, std::span<const int32_t> tokens, const std::atomic<bool>* abort) {
  size_t done = 0;
  {
    const std::lock_guard<std::mutex> lock(impl_->sessions->mutex());
    done = session.sequence_.TakePrefix(tokens);
  }
  while (done < tokens.size()) {
    const size_t count = PieceOf(static_cast<size_t>(session.length()), tokens.size() - done);
    SessionSpan span{&session, tokens.subspan(done, count), Outputs::kNone};
    span.shown = false;  // they have been seen
    MOONLIT_RETURN_IF_ERROR(impl_->batcher->Step({&span, 1}, nullptr, abort));
    done += count;
  }
  return Status();
}

}  // namespace moonlit
