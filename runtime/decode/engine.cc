// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/engine.h"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/base/round.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/decode/batcher.h"
#include "runtime/decode/engine_setup.h"
#include "runtime/decode/session_use.h"
#include "runtime/threads/topology.h"

namespace moonlit {
namespace {

constexpr size_t kStateChunk = 64;  // of recurrent layers (the numeric contract)

std::string ThreadReason(const EngineOptions& asked) {
  if (asked.pool != nullptr) return "the application's own pool";
  const std::string reason = asked.threads != 0 ? "as asked for" : DefaultThreadCount(ReadTopology()).reason;
  return asked.parallel_for.run != nullptr ? "at most so many of the application's own threads: " + reason : reason;
}

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

Result<std::unique_ptr<Engine>> Engine::Create(LoadedModel model, const EngineOptions& options) {
  MOONLIT_CHECK(model.make_plan && model.tokenizer != nullptr);
  auto impl = std::make_unique<Impl>();
  MOONLIT_ASSIGN_OR_RETURN(impl->variant, ResolveVariant(options.variant));
  impl->options = options;
  impl->thread_reason = ThreadReason(options);
  EngineOptions& o = impl->options;
  MOONLIT_RETURN_IF_ERROR(FillDefaults(model.facts, impl->variant, o));
  if (model.facts.n_ctx_train != 0 && o.n_ctx > model.facts.n_ctx_train) {
    Logf(LogLevel::kWarning, "the context of %zu tokens is longer than the %zu that the model was trained for", o.n_ctx,
         model.facts.n_ctx_train);
  }
  if (o.pool == nullptr) {
    auto pool = ThreadPool::Create({.threads = o.threads, .loop = o.parallel_for});
    if (!pool.ok()) return pool.status();
    impl->own_pool = std::move(pool).value();
    o.pool = impl->own_pool.get();
  }
  o.threads = o.pool->threads();

  MOONLIT_ASSIGN_OR_RETURN(const PlanOptions plan_options, MakePlanOptions(o, impl->variant));
  MOONLIT_ASSIGN_OR_RETURN(impl->plan, model.make_plan(plan_options));
  o.progress = nullptr;  // it belongs to the load, and so does what it points to

  o.share_prefixes = o.share_prefixes && !impl->plan->whole_sequences();
  PagePoolOptions pool_options;
  impl->gives_back = PlanPages(*impl->plan, o, pool_options);
  const size_t most_pages = o.max_sessions * (CeilDiv(o.n_ctx, o.page_tokens) + 1);
  MOONLIT_ASSIGN_OR_RETURN(auto page_pool, PagePool::Create(impl->plan->cache_groups(), most_pages, pool_options));
  impl->sessions = std::make_shared<SessionPool>(std::move(page_pool), o.max_sessions, impl->plan->can_shift());
  impl->batcher = std::make_unique<Batcher>(*impl->plan, *impl->sessions, impl->options);
  impl->facts = std::move(model.facts);
  impl->tokenizer = std::move(model.tokenizer);
  std::unique_ptr<Engine> engine(new Engine(std::move(impl)));
  engine->impl_->sessions->read = [self = engine.get()](Session& session, std::span<const int32_t> tokens,
                                                        const std::atomic<bool>* abort) {
    return self->ReadAgain(session, tokens, abort);
  };
  return engine;
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

SessionFacts Engine::SavedFacts(const Session& session) const {
  SessionFacts facts;
  facts.variant = impl_->options.variant;
  facts.model = impl_->facts.identity + (impl_->options.exact ? ", exact" : "");
  if (impl_->options.attention_window != 0) {
    facts.model += ", attention window " + std::to_string(impl_->options.attention_window) + " and sinks " +
                   std::to_string(impl_->options.attention_sinks);
  }
  // Without it pages have no bounds of their keys.
  if (impl_->options.attention_pages != 0) facts.model += ", attention pages";
  facts.model += session.AdapterIdentity();
  facts.vocab = impl_->plan->vocab_size();
  facts.n_ctx = impl_->options.n_ctx;
  facts.placed_from = session.placed_from_;
  return facts;
}

// Nobody writes to a page that this session holds, so other sessions may go on meanwhile.
Status Engine::Save(Session& session, const std::string& path) {
  MOONLIT_RETURN_IF_ERROR(RefuseInputs(path, impl_->facts.files));
  return session.Use([&]() -> Status { return SaveSession(session.sequence_, SavedFacts(session), path); });
}

Status Engine::Write(Session& session, const ByteSink& sink) {
  return session.Use([&]() -> Status { return WriteSession(session.sequence_, SavedFacts(session), sink); });
}

Result<uint64_t> Engine::SavedBytes(Session& session) {
  uint64_t bytes = 0;
  MOONLIT_RETURN_IF_ERROR(session.Use([&] {
    bytes = SessionBytes(session.sequence_, SavedFacts(session));
    return Status();
  }));
  return bytes;
}

Status Engine::Restore(Session& session, const std::string& path, const RestoreOptions& options) {
  return session.Use([&]() -> Status {
    MOONLIT_ASSIGN_OR_RETURN(const File file, File::Open(path));
    return ReadInto(session, SourceOf(file), options);
  });
}

Status Engine::Read(Session& session, ByteSource source, const RestoreOptions& options) {
  return session.Use([&] { return ReadInto(session, std::move(source), options); });
}

Status Engine::ReadInto(Session& session, ByteSource source, const RestoreOptions& options) {
  PagePool* pages = impl_->sessions->pages();
  MOONLIT_ASSIGN_OR_RETURN(SessionReader reader, SessionReader::Open(source, SavedFacts(session), options, *pages));
  SpareSequence restored(*impl_->sessions);  // other sessions may go on while the bytes come
  const Status room = restored.Set([&] { return Sequence::Make(pages, reader.shape(), session.AdapterKey()); });
  if (room.code() == Code::kExhausted && source.size) return ReadInPlace(session, reader, room);
  if (room.code() == Code::kExhausted && session.length() != 0) {
    return Errorf(Code::kExhausted,
                  "%s; or truncate the session to 0 first: it keeps its %lld tokens until the others are read",
                  std::string(room.message()).c_str(), static_cast<long long>(session.length()));
  }
  MOONLIT_RETURN_IF_ERROR(room);
  MOONLIT_RETURN_IF_ERROR(reader.ReadPages(*restored));
  restored.SwapWith(session.sequence_);
  session.placed_from_ = reader.placed_from();
  return Status();
}

// Nothing of the session goes before the file is known to be whole and to fit. no_room: what was said of room for both.
Status Engine::ReadInPlace(Session& session, SessionReader& reader, const Status& no_room) {
  SessionPool& pool = *impl_->sessions;
  const auto fits = [&] { return session.sequence_.MakesRoomFor(reader.shape()); };
  {
    const std::lock_guard<std::mutex> lock(pool.mutex());
    if (!fits()) return no_room;
  }
  MOONLIT_RETURN_IF_ERROR(reader.Check());
  SpareSequence restored(pool);
  bool fitted = false;
  const auto take_place = [&]() -> Result<Sequence> {
    fitted = fits();  // others may have gone on
    if (!fitted) return no_room;
    session.sequence_.Truncate(0);
    session.placed_from_ = INT64_MAX;
    return Sequence::Make(pool.pages(), reader.shape(), session.AdapterKey());
  };
  Status made;
  try {
    made = restored.Set(take_place);
  } catch (const std::bad_alloc&) {
    made = Status(Code::kOutOfMemory, "session: the system gives no more memory");
  }
  if (!fitted) return made;
  const Status read = made.ok() ? reader.ReadPages(*restored) : made;
  if (!read.ok()) {
    return Errorf(read.code(), "%s; the session is empty: there was no room for its text until the file's was read",
                  std::string(read.message()).c_str());
  }
  restored.SwapWith(session.sequence_);
  session.placed_from_ = reader.placed_from();
  return Status();
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
