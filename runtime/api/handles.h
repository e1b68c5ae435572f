// SPDX-License-Identifier: Apache-2.0
// What is behind the opaque handles of moonlit.h, and the wall that no exception passes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/api/metadata_texts.h"
#include "runtime/api/moonlit.h"
#include "runtime/api/turn.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/decode/engine.h"
#include "runtime/exec/adapter.h"
#include "runtime/exec/step_tap.h"

struct moonlit_model {
  explicit moonlit_model(moonlit::Log::Receiver receiver) : log(std::move(receiver)) {}
  mutable moonlit::Log log;
  std::unique_ptr<moonlit::Engine> engine;               // null when vocab_only
  std::unique_ptr<const moonlit::Tokenizer> vocabulary;  // only when vocab_only
  moonlit::MetadataTexts metadata;
  const moonlit::Tokenizer& tokenizer() const { return engine ? engine->tokenizer() : *vocabulary; }
};

struct moonlit_session {
  moonlit_model* model;
  std::unique_ptr<moonlit::StepTap> tap;  // outlives the session that it looks at
  std::unique_ptr<moonlit::Session> session;
  moonlit::api::Turn turn;  // a call's, callbacks included
};

struct moonlit_adapter {
  std::shared_ptr<const moonlit::Adapter> adapter;
  moonlit_adapter_info info;
};

namespace moonlit::api {

// `count` adapters, each times its scale (null: all 1); null for none. kInvalidArgument: one is null or was loaded for another model.
Result<std::shared_ptr<const AdapterSet>> CombineAdapters(Engine& engine, const moonlit_adapter* const* adapters,
                                                          const float* scales, size_t count);

// The C face of a log's receiver; empty for null.
Log::Receiver ToReceiver(moonlit_log_fn receiver, void* user);

// Copies code and message into *error (may be null) and returns the code.
moonlit_code Give(Code code, std::string_view message, moonlit_error* error) noexcept;
inline moonlit_code Give(const Status& status, moonlit_error* error) {
  return Give(status.code(), status.message(), error);
}

// Runs `body` (returning Status) and turns exceptions, which only the standard library and an application's callbacks throw, into codes.
template <typename Body>
moonlit_code Guard(moonlit_error* error, const Body& body) {
  try {
    return Give(body(), error);
  } catch (const std::bad_alloc&) {
    return Give(Code::kOutOfMemory, "the system gives no more memory", error);
  } catch (const std::exception& caught) {
    return Give(Code::kInternal, caught.what(), error);
  } catch (...) {
    return Give(Code::kInternal, "a callback threw what is no std::exception", error);
  }
}

// kInvalidArgument for null, which an array of no elements may be.
inline Status NotNull(const void* pointer, const char* name) {
  if (pointer != nullptr) return Status();
  return Errorf(Code::kInvalidArgument, "%s must not be NULL", name);
}
// The same for an array that is written to.
inline Status NotNull(const void* array, size_t capacity, const char* name) {
  return capacity == 0 ? Status() : NotNull(array, name);
}
// The same for an array that is read; kInvalidArgument also for a count that none has.
template <typename Element>
Status CheckArray(const Element* array, size_t count, const char* name) {
  if (count == 0) return Status();
  if (count > PTRDIFF_MAX / sizeof(Element))
    return Errorf(Code::kInvalidArgument, "%s: their count is %zu, which no array has", name, count);
  return NotNull(array, name);
}

// Guard for a call on a model, whose log it is.
template <typename Body>
moonlit_code Guard(const moonlit_model* model, moonlit_error* error, const Body& body) {
  const LogScope scope(model == nullptr ? nullptr : &model->log);
  return Guard(error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(model, "model"));
    return body();
  });
}

// The only use of a session or a sampler at that time, until the end of this object.
class Use {
 public:
  Use() = default;
  Use(Use&& other) noexcept : turn_(std::exchange(other.turn_, nullptr)) {}
  ~Use() {
    if (turn_ != nullptr) turn_->End();
  }
  // kBusy; kInvalidArgument for null. `name`: what it is called. A call to cancel counts from here on.
  template <typename Handle>
  Status Take(Handle* handle, const char* name) {
    MOONLIT_RETURN_IF_ERROR(NotNull(handle, name));
    if (!handle->turn.Begin())
      return Errorf(Code::kBusy, "the %s is in use by another call; one call at a time may use it", name);
    turn_ = &handle->turn;
    return Status();
  }

 private:
  Turn* turn_ = nullptr;
};

// Guard for a call that uses a session.
template <typename Body>
moonlit_code Guard(moonlit_session* session, moonlit_error* error, const Body& body) {
  const LogScope scope(session == nullptr ? nullptr : &session->model->log);
  return Guard(error, [&]() -> Status {
    Use use;
    MOONLIT_RETURN_IF_ERROR(use.Take(session, "session"));
    return body();
  });
}

// Structs that begin with the size the caller was compiled with, which may be an older or a newer one than ours. A smaller one than that of
// the field itself is nobody's: the caller has forgotten to set it, and all fields would be passed over in silence.
inline bool IsSize(size_t size) { return size >= sizeof(size_t); }

// Writes as much of `full` as *to (null: nothing) has room for, and that size; nothing where that is none.
template <typename Sized>
void WriteSized(Sized full, size_t size, Sized* to) {
  if (to == nullptr || !IsSize(size)) return;
  full.size = size;
  std::memcpy(to, &full, std::min(size, sizeof full));
}

// Before the work whose result *to (null: nobody wants it) is to be written to. kInvalidArgument: its size is none.
template <typename Sized>
Status CheckSized(const Sized* to, const char* name) {
  if (to == nullptr || IsSize(to->size)) return Status();
  return Errorf(Code::kInvalidArgument, "%s: its size is %zu; set it to sizeof(%s) before the call", name, to->size,
                name);
}

// What the caller filled (null: nothing) over the defaults, which NAME_init sets. kInvalidArgument: its size is none.
template <typename Sized>
Result<Sized> ReadSized(const Sized* given, const char* name, void (*set_defaults)(Sized*, size_t)) {
  Sized full;
  set_defaults(&full, sizeof full);
  if (given == nullptr) return full;
  if (!IsSize(given->size)) {
    return Errorf(Code::kInvalidArgument, "%s: its size is %zu; initialise it with %s_init, then set fields", name,
                  given->size, name);
  }
  std::memcpy(&full, given, std::min(given->size, sizeof full));
  full.size = sizeof full;
  return full;
}

}  // namespace moonlit::api
