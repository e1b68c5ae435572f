// SPDX-License-Identifier: Apache-2.0
// What is behind the opaque handles of moonlit.h, and the wall that no exception passes.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "runtime/api/moonlit.h"
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
  const moonlit::Tokenizer& tokenizer() const { return engine ? engine->tokenizer() : *vocabulary; }
};

struct moonlit_session {
  moonlit_model* model;
  std::unique_ptr<moonlit::StepTap> tap;  // outlives the session that it looks at
  std::unique_ptr<moonlit::Session> session;
  std::atomic<bool> cancel{false};
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
moonlit_code Give(const Status& status, moonlit_error* error);

// Runs `body` (returning Status) and turns exceptions, which only the standard library throws, into codes.
template <typename Body>
moonlit_code Guard(moonlit_error* error, const Body& body) {
  try {
    return Give(body(), error);
  } catch (const std::bad_alloc&) {
    return Give(Status(Code::kOutOfMemory, "the system gives no more memory"), error);
  } catch (const std::exception& caught) {
    return Give(Status(Code::kInternal, caught.what()), error);
  }
}

// The same for a call on a model, whose log it is.
template <typename Body>
moonlit_code Guard(const moonlit_model* model, moonlit_error* error, const Body& body) {
  const LogScope scope(&model->log);
  return Guard(error, body);
}

// Structs that begin with the size the caller was compiled with, which may be an older or a newer one than ours. Writes as much of
// `full` as *to has room for, and that size.
template <typename Sized>
void WriteSized(Sized full, size_t size, Sized* to) {
  full.size = size;
  std::memcpy(to, &full, std::min(size, sizeof full));
}
// What the caller filled (null: nothing) over the defaults.
template <typename Sized>
Sized ReadSized(const Sized* given, void (*set_defaults)(Sized*, size_t)) {
  Sized full;
  set_defaults(&full, sizeof full);
  if (given != nullptr) std::memcpy(&full, given, std::min(given->size, sizeof full));
  full.size = sizeof full;
  return full;
}

}  // namespace moonlit::api
