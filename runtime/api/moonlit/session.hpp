// SPDX-License-Identifier: Apache-2.0
// Adapters, sessions, and steps of several. Part of moonlit.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "adapter.h"
#include "expected.hpp"
#include "generate.h"
#include "measure.h"
#include "rows.h"
#include "session.h"
#include "step.h"
#include "taps.h"

namespace moonlit::api {

// See moonlit_adapter_load; made by Model::LoadAdapter.
class Adapter {
 public:
  explicit Adapter(moonlit_adapter* handle) : handle_(handle, &moonlit_adapter_free) {}
  moonlit_adapter* handle() const { return handle_.get(); }
  moonlit_adapter_info info() const {
    moonlit_adapter_info info = {};
    info.size = sizeof info;
    moonlit_adapter_get_info(handle_.get(), &info);
    return info;
  }

 private:
  std::unique_ptr<moonlit_adapter, void (*)(moonlit_adapter*)> handle_;
};

class Session {
 public:
  explicit Session(moonlit_session* handle) : handle_(handle, &moonlit_session_free) {}
  moonlit_session* handle() const { return handle_.get(); }
  size_t length() const { return moonlit_session_length(handle_.get()); }
  void Cancel() { moonlit_session_cancel(handle_.get()); }
  Error Truncate(size_t length) {
    moonlit_error error = {};
    moonlit_session_truncate(handle_.get(), length, &error);
    return MakeError(error);
  }
  Error Drop(size_t first, size_t last) {
    moonlit_error error = {};
    moonlit_session_drop(handle_.get(), first, last, &error);
    return MakeError(error);
  }
  Expected<Session> Fork() {
    moonlit_session* fork = nullptr;
    moonlit_error error = {};
    if (moonlit_session_fork(handle_.get(), &fork, &error) != MOONLIT_OK) return MakeError(error);
    return Session(fork);
  }
  std::vector<int32_t> Tokens() const {
    std::vector<int32_t> ids(length());
    moonlit_session_tokens(handle_.get(), ids.data(), ids.size());
    return ids;
  }
  Error Save(const std::string& path) {
    moonlit_error error = {};
    moonlit_session_save(handle_.get(), path.c_str(), &error);
    return MakeError(error);
  }
  Error Load(const std::string& path, int flags = 0) {
    moonlit_error error = {};
    moonlit_session_load(handle_.get(), path.c_str(), flags, &error);
    return MakeError(error);
  }
  // write(bytes), read(bytes): return false to give up. See moonlit_session_write and moonlit_session_read.
  Error Write(const std::function<bool(std::span<const uint8_t> bytes)>& write) {
    using Function = std::function<bool(std::span<const uint8_t>)>;
    if (!write) return {MOONLIT_INVALID_ARGUMENT, "Write: the function is empty"};
    moonlit_error error = {};
    auto call = [](void* user, const void* bytes, size_t size) {
      return (*static_cast<const Function*>(user))({static_cast<const uint8_t*>(bytes), size}) ? 0 : 1;
    };
    moonlit_session_write(handle_.get(), call, const_cast<void*>(static_cast<const void*>(&write)), &error);
    return MakeError(error);
  }
  Error Read(const std::function<bool(std::span<uint8_t> bytes)>& read, int flags = 0) {
    using Function = std::function<bool(std::span<uint8_t>)>;
    if (!read) return {MOONLIT_INVALID_ARGUMENT, "Read: the function is empty"};
    moonlit_error error = {};
    auto call = [](void* user, void* bytes, size_t size) {
      return (*static_cast<const Function*>(user))({static_cast<uint8_t*>(bytes), size}) ? 0 : 1;
    };
    moonlit_session_read(handle_.get(), call, const_cast<void*>(static_cast<const void*>(&read)), flags, &error);
    return MakeError(error);
  }
  Expected<uint64_t> SavedBytes() {
    uint64_t bytes = 0;
    moonlit_error error = {};
    if (moonlit_session_saved_bytes(handle_.get(), &bytes, &error) != MOONLIT_OK) return MakeError(error);
    return bytes;
  }
  // scales: one an adapter, or none at all, which means 1.
  Error SetAdapters(std::span<const moonlit_adapter* const> adapters, std::span<const float> scales = {}) {
    if (!scales.empty() && scales.size() != adapters.size()) {
      return {MOONLIT_INVALID_ARGUMENT, "SetAdapters: expected a scale for each adapter, or none"};
    }
    moonlit_error error = {};
    moonlit_session_set_adapters(handle_.get(), adapters.data(), scales.empty() ? nullptr : scales.data(),
                                 adapters.size(), &error);
    return MakeError(error);
  }
  // consume(position, logits): see moonlit_logits_fn.
  Error Eval(std::span<const int32_t> ids, moonlit_outputs outputs,
             const std::function<void(size_t position, std::span<const float> logits)>& consume = {}) {
    moonlit_error error = {};
    auto call = [](void* user, size_t position, const float* logits, size_t n_vocab) {
      const auto& fn = *static_cast<const std::function<void(size_t, std::span<const float>)>*>(user);
      if (fn) fn(position, {logits, n_vocab});
    };
    moonlit_eval(handle_.get(), ids.data(), ids.size(), outputs, call,
                 const_cast<void*>(static_cast<const void*>(&consume)), &error);
    return MakeError(error);
  }
  static moonlit_rows Rows() {
    moonlit_rows rows;
    moonlit_rows_init(&rows, sizeof rows);
    return rows;
  }
  // consume(position, values): see moonlit_row_fn. `consume` and `user` inside `rows` are replaced.
  Error EvalRows(moonlit_rows rows,
                 const std::function<void(size_t position, std::span<const float> values)>& consume = {}) {
    moonlit_error error = {};
    rows.consume = [](void* user, size_t position, const float* values, size_t width) {
      const auto& fn = *static_cast<const std::function<void(size_t, std::span<const float>)>*>(user);
      if (fn) fn(position, {values, width});
    };
    rows.user = const_cast<void*>(static_cast<const void*>(&consume));
    moonlit_eval_rows(handle_.get(), &rows, &error);
    return MakeError(error);
  }
  static moonlit_taps Taps() {
    moonlit_taps taps;
    moonlit_taps_init(&taps, sizeof taps);
    return taps;
  }
  using TapFunction = std::function<void(const moonlit_tapped& tapped)>;
  // The functions, of which one may be empty, are kept until others are set; they replace the callbacks and `user` inside `taps`.
  Error SetTaps(moonlit_taps taps, TapFunction residual, TapFunction attention) {
    auto functions = std::make_unique<TapFunctions>(TapFunctions{std::move(residual), std::move(attention)});
    taps.user = functions.get();
    taps.residual = taps.attention = nullptr;
    if (functions->residual) {
      taps.residual = [](void* user, const moonlit_tapped* tapped) {
        static_cast<const TapFunctions*>(user)->residual(*tapped);
      };
    }
    if (functions->attention) {
      taps.attention = [](void* user, const moonlit_tapped* tapped) {
        static_cast<const TapFunctions*>(user)->attention(*tapped);
      };
    }
    moonlit_error error = {};
    if (moonlit_session_set_taps(handle_.get(), &taps, &error) == MOONLIT_OK) taps_ = std::move(functions);
    return MakeError(error);
  }
  Error ClearTaps() {
    moonlit_error error = {};
    if (moonlit_session_set_taps(handle_.get(), nullptr, &error) == MOONLIT_OK) taps_.reset();
    return MakeError(error);
  }
  static moonlit_generate_options GenerateOptions() {
    moonlit_generate_options options;
    moonlit_generate_options_init(&options, sizeof options);
    return options;
  }
  // text(piece), token(id): return false to stop. The callbacks and `user` inside `given` are replaced; {} in its place: the defaults.
  Expected<moonlit_generate_result> Generate(std::span<const int32_t> prompt,
                                             const std::optional<moonlit_generate_options>& given,
                                             const std::function<bool(std::string_view piece)>& text = {},
                                             const std::function<void(size_t done, size_t total)>& prefill = {},
                                             const std::function<bool(int32_t id)>& token = {}) {
    struct Callbacks {
      const std::function<bool(std::string_view)>* text;
      const std::function<void(size_t, size_t)>* prefill;
      const std::function<bool(int32_t)>* token;
    } callbacks{&text, &prefill, &token};
    moonlit_generate_options options = given ? *given : GenerateOptions();
    options.user = &callbacks;
    options.text = [](void* user, const char* piece, size_t length) {
      const auto& fn = *static_cast<Callbacks*>(user)->text;
      return fn && !fn({piece, length}) ? 1 : 0;
    };
    options.prefill_progress = [](void* user, size_t done, size_t total) {
      const auto& fn = *static_cast<Callbacks*>(user)->prefill;
      if (fn) fn(done, total);
    };
    options.token = [](void* user, int32_t id) {
      const auto& fn = *static_cast<Callbacks*>(user)->token;
      return fn && !fn(id) ? 1 : 0;
    };
    moonlit_generate_result result = {};
    result.size = sizeof result;
    moonlit_error error = {};
    if (moonlit_generate(handle_.get(), prompt.data(), prompt.size(), &options, &result, &error) != MOONLIT_OK) {
      return MakeError(error);
    }
    return result;
  }
  // progress(done, total, perplexity_so_far): return false to cancel. See moonlit_perplexity, which says what the session holds afterwards.
  Expected<moonlit_perplexity_result> Perplexity(
      std::span<const int32_t> ids, size_t window,
      const std::function<bool(size_t done, size_t total, double so_far)>& progress = {}) {
    auto call = [](void* user, size_t done, size_t total, double so_far) {
      const auto& fn = *static_cast<const std::function<bool(size_t, size_t, double)>*>(user);
      return fn && !fn(done, total, so_far) ? 1 : 0;
    };
    moonlit_perplexity_result result = {};
    result.size = sizeof result;
    moonlit_error error = {};
    if (moonlit_perplexity(handle_.get(), ids.data(), ids.size(), window, call,
                           const_cast<void*>(static_cast<const void*>(&progress)), &result, &error) != MOONLIT_OK) {
      return MakeError(error);
    }
    return result;
  }
  static moonlit_perplexity_options PerplexityOptions() {
    moonlit_perplexity_options options;
    moonlit_perplexity_options_init(&options, sizeof options);
    return options;
  }
  // The same with options, and their callback.
  Expected<moonlit_perplexity_result> Perplexity(std::span<const int32_t> ids,
                                                 const moonlit_perplexity_options& options) {
    moonlit_perplexity_result result = {};
    result.size = sizeof result;
    moonlit_error error = {};
    if (moonlit_perplexity_with(handle_.get(), ids.data(), ids.size(), &options, &result, &error) != MOONLIT_OK) {
      return MakeError(error);
    }
    return result;
  }

 private:
  struct TapFunctions {
    TapFunction residual, attention;
  };
  std::unique_ptr<TapFunctions> taps_;  // outlives the handle
  std::unique_ptr<moonlit_session, void (*)(moonlit_session*)> handle_;
};

// See moonlit_step: rows[i] go to sessions[i], all or nothing. consume(session, position, values): `session` is its number. `consume` and
// `user` inside the rows are replaced.
inline Error Step(
    std::span<Session* const> sessions, std::span<const moonlit_rows> rows,
    const std::function<void(size_t session, size_t position, std::span<const float> values)>& consume = {}) {
  if (sessions.size() != rows.size()) return {MOONLIT_INVALID_ARGUMENT, "step: expected rows for each session"};
  struct Receiver {
    const std::function<void(size_t, size_t, std::span<const float>)>* consume;
    size_t session;
  };
  std::vector<Receiver> receivers;
  std::vector<moonlit_session*> handles;
  std::vector<moonlit_rows> copies(rows.begin(), rows.end());
  std::vector<const moonlit_rows*> pointers;
  for (size_t i = 0; i < rows.size(); ++i) receivers.push_back({&consume, i});
  for (size_t i = 0; i < rows.size(); ++i) {
    handles.push_back(sessions[i]->handle());
    copies[i].consume = [](void* user, size_t position, const float* values, size_t width) {
      const Receiver& to = *static_cast<const Receiver*>(user);
      if (*to.consume) (*to.consume)(to.session, position, {values, width});
    };
    copies[i].user = &receivers[i];
    pointers.push_back(&copies[i]);
  }
  moonlit_error error = {};
  moonlit_step(handles.data(), pointers.data(), handles.size(), &error);
  return MakeError(error);
}

}  // namespace moonlit::api
