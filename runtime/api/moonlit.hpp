// SPDX-License-Identifier: Apache-2.0
// A thin C++20 layer over moonlit.h: the same functions with owners, spans and strings. Header only; no exception is thrown.
//
//   auto model = moonlit::api::Model::Load("poet");
//   if (!model) { std::cerr << model.error().message; return 1; }
//   auto session = model->NewSession();
//   auto ids = model->Tokenize("...", MOONLIT_ADD_SPECIAL);
//   session->Generate(*ids, options, [](std::string_view piece) { std::cout << piece; return true; });
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "moonlit.h"

namespace moonlit::api {

struct Error {
  moonlit_code code = MOONLIT_OK;
  std::string message;
};

// A value or an Error.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}      // NOLINT: implicit on purpose
  Expected(Error error) : error_(std::move(error)) {}  // NOLINT
  explicit operator bool() const { return value_.has_value(); }
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }
  const Error& error() const { return error_; }

 private:
  std::optional<T> value_;
  Error error_;
};

inline Error MakeError(const moonlit_error& error) { return Error{error.code, error.message}; }

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
  // scales: one an adapter, or none at all, which means 1.
  Error SetAdapters(std::span<const moonlit_adapter* const> adapters, std::span<const float> scales = {}) {
    moonlit_error error = {};
    moonlit_session_set_adapters(handle_.get(), adapters.data(), scales.empty() ? nullptr : scales.data(),
                                 adapters.size(), &error);
    return MakeError(error);
  }
  // consume(position, logits): see moonlit_logits_fn.
  Error Eval(std::span<const int32_t> ids, moonlit_outputs outputs,
             const std::function<void(size_t position, std::span<const float> logits)>& consume) {
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
                 const std::function<void(size_t position, std::span<const float> values)>& consume) {
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
  // text(piece), token(id): return false to stop. The callbacks and `user` inside `options` are replaced.
  Expected<moonlit_generate_result> Generate(std::span<const int32_t> prompt, moonlit_generate_options options,
                                             const std::function<bool(std::string_view piece)>& text,
                                             const std::function<void(size_t done, size_t total)>& prefill = {},
                                             const std::function<bool(int32_t id)>& token = {}) {
    struct Callbacks {
      const std::function<bool(std::string_view)>* text;
      const std::function<void(size_t, size_t)>* prefill;
      const std::function<bool(int32_t)>* token;
    } callbacks{&text, &prefill, &token};
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

 private:
  struct TapFunctions {
    TapFunction residual, attention;
  };
  std::unique_ptr<TapFunctions> taps_;  // outlives the handle
  std::unique_ptr<moonlit_session, void (*)(moonlit_session*)> handle_;
};

// See moonlit_step: rows[i] go to sessions[i], all or nothing. consume(session, position, values): `session` is its number. `consume` and
// `user` inside the rows are replaced.
inline Error Step(std::span<Session* const> sessions, std::span<const moonlit_rows> rows,
                  const std::function<void(size_t session, size_t position, std::span<const float> values)>& consume) {
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

// For moonlit_generate_options::grammar, by handle(). The model must outlive it.
class Grammar {
 public:
  explicit Grammar(moonlit_grammar* handle) : handle_(handle, &moonlit_grammar_free) {}
  const moonlit_grammar* handle() const { return handle_.get(); }

 private:
  std::unique_ptr<moonlit_grammar, void (*)(moonlit_grammar*)> handle_;
};

// A chain of steps that chooses tokens, by Append or AppendCustom in their order; for moonlit_generate_options::sampler, by handle(), or alone.
// The model must outlive it.
class Sampler {
 public:
  explicit Sampler(moonlit_sampler* handle) : handle_(handle, &moonlit_sampler_free) {}
  moonlit_sampler* handle() const { return handle_.get(); }
  static moonlit_sampler_step Step(moonlit_sampler_kind kind) {
    moonlit_sampler_step step;
    moonlit_sampler_step_init(&step, sizeof step);
    step.kind = kind;
    return step;
  }
  Error Append(const moonlit_sampler_step& step) {
    moonlit_error error = {};
    moonlit_sampler_append(handle_.get(), &step, &error);
    return MakeError(error);
  }
  Error Append(moonlit_sampler_kind kind) { return Append(Step(kind)); }
  // keep(tokens) returns how many are left, at the front; a clone has a copy of it.
  Error AppendCustom(std::function<size_t(std::span<moonlit_token_logit> tokens)> keep) {
    using Keep = std::function<size_t(std::span<moonlit_token_logit>)>;
    auto user = std::make_unique<Keep>(std::move(keep));
    moonlit_sampler_step step = Step(MOONLIT_SAMPLER_CUSTOM);
    step.user = user.get();
    step.apply = [](void* fn, moonlit_token_logit* tokens, size_t count) {
      return (*static_cast<Keep*>(fn))({tokens, count});
    };
    step.clone = [](const void* fn) -> void* { return new Keep(*static_cast<const Keep*>(fn)); };
    step.free_user = [](void* fn) { delete static_cast<Keep*>(fn); };
    Error error = Append(step);
    if (error.code == MOONLIT_OK) user.release();
    return error;
  }
  Expected<int32_t> Apply(std::span<const float> logits) {
    int32_t id = 0;
    moonlit_error error = {};
    if (moonlit_sampler_apply(handle_.get(), logits.data(), logits.size(), &id, &error) != MOONLIT_OK)
      return MakeError(error);
    return id;
  }
  Error Accept(int32_t id) {
    moonlit_error error = {};
    moonlit_sampler_accept(handle_.get(), id, &error);
    return MakeError(error);
  }
  Error AcceptPrompt(std::span<const int32_t> ids) {
    moonlit_error error = {};
    moonlit_sampler_accept_prompt(handle_.get(), ids.data(), ids.size(), &error);
    return MakeError(error);
  }
  Error Reset(uint64_t seed) {
    moonlit_error error = {};
    moonlit_sampler_reset(handle_.get(), seed, &error);
    return MakeError(error);
  }
  Expected<Sampler> Clone() {
    moonlit_sampler* clone = nullptr;
    moonlit_error error = {};
    if (moonlit_sampler_clone(handle_.get(), &clone, &error) != MOONLIT_OK) return MakeError(error);
    return Sampler(clone);
  }

 private:
  std::unique_ptr<moonlit_sampler, void (*)(moonlit_sampler*)> handle_;
};

struct ChatMessage {
  std::string role;
  std::string content;
};

class Model {
 public:
  static moonlit_model_options Options() {
    moonlit_model_options options;
    moonlit_model_options_init(&options, sizeof options);
    return options;
  }
  static Expected<Model> Load(const std::string& path, const moonlit_model_options& options = Options()) {
    moonlit_model* handle = nullptr;
    moonlit_error error = {};
    if (moonlit_model_load(path.c_str(), &options, &handle, &error) != MOONLIT_OK) return MakeError(error);
    return Model(handle);
  }
  moonlit_model* handle() const { return handle_.get(); }
  moonlit_model_info info() const {
    moonlit_model_info info = {};
    info.size = sizeof info;
    moonlit_model_get_info(handle_.get(), &info);
    return info;
  }
  // What Load would take; see moonlit_plan_memory.
  static Expected<moonlit_memory> PlanMemory(const std::string& path,
                                             const moonlit_model_options& options = Options()) {
    moonlit_memory memory = {};
    memory.size = sizeof memory;
    moonlit_error error = {};
    if (moonlit_plan_memory(path.c_str(), &options, &memory, &error) != MOONLIT_OK) return MakeError(error);
    return memory;
  }
  // The largest context that fits into so many bytes; see moonlit_plan_context.
  static Expected<uint32_t> PlanContext(const std::string& path, uint64_t bytes,
                                        const moonlit_model_options& options = Options()) {
    uint32_t n_ctx = 0;
    moonlit_error error = {};
    if (moonlit_plan_context(path.c_str(), &options, bytes, &n_ctx, &error) != MOONLIT_OK) return MakeError(error);
    return n_ctx;
  }
  moonlit_memory memory() const {
    moonlit_memory memory = {};
    memory.size = sizeof memory;
    moonlit_model_memory(handle_.get(), &memory);
    return memory;
  }
  // Several sessions need moonlit_model_options.max_sessions.
  Expected<Session> NewSession() {
    moonlit_session* session = nullptr;
    moonlit_error error = {};
    if (moonlit_session_new(handle_.get(), &session, &error) != MOONLIT_OK) return MakeError(error);
    return Session(session);
  }
  Expected<Adapter> LoadAdapter(const std::string& path) const {
    moonlit_adapter* adapter = nullptr;
    moonlit_error error = {};
    if (moonlit_adapter_load(handle_.get(), path.c_str(), &adapter, &error) != MOONLIT_OK) return MakeError(error);
    return Adapter(adapter);
  }
  Expected<std::vector<int32_t>> Tokenize(std::string_view text, int flags) const {
    std::vector<int32_t> ids(text.size() + 8);
    size_t count = 0;
    moonlit_error error = {};
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (moonlit_tokenize(handle_.get(), text.data(), text.size(), flags, ids.data(), ids.size(), &count, &error) !=
          MOONLIT_OK) {
        return MakeError(error);
      }
      const bool fits = count <= ids.size();
      ids.resize(count);
      if (fits) break;
    }
    return ids;
  }
  Expected<std::string> Detokenize(std::span<const int32_t> ids, bool show_special = false) const {
    std::string text(ids.size() * 8 + 8, '\0');
    size_t length = 0;
    moonlit_error error = {};
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (moonlit_detokenize(handle_.get(), ids.data(), ids.size(), show_special ? 1 : 0, text.data(), text.size(),
                             &length, &error) != MOONLIT_OK) {
        return MakeError(error);
      }
      const bool fits = length <= text.size();
      text.resize(length);
      if (fits) break;
    }
    return text;
  }
  Expected<std::string> TokenBytes(int32_t id, bool show_special = false) const {
    std::string bytes(32, '\0');
    size_t length = 0;
    moonlit_error error = {};
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (moonlit_token_bytes(handle_.get(), id, show_special ? 1 : 0, bytes.data(), bytes.size(), &length, &error) !=
          MOONLIT_OK) {
        return MakeError(error);
      }
      const bool fits = length <= bytes.size();
      bytes.resize(length);
      if (fits) break;
    }
    return bytes;
  }
  Expected<std::string> TokenText(int32_t id) const {
    std::string text(32, '\0');
    size_t length = 0;
    moonlit_error error = {};
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (moonlit_token_text(handle_.get(), id, text.data(), text.size(), &length, &error) != MOONLIT_OK) {
        return MakeError(error);
      }
      const bool fits = length <= text.size();
      text.resize(length);
      if (fits) break;
    }
    return text;
  }
  // -1: the model has none.
  int32_t SpecialToken(moonlit_special kind) const { return moonlit_token_special(handle_.get(), kind); }
  // Null: the model has no template of its own.
  const char* chat_template() const { return moonlit_chat_template(handle_.get()); }
  static moonlit_chat_options ChatOptions() {
    moonlit_chat_options options;
    moonlit_chat_options_init(&options, sizeof options);
    return options;
  }
  Expected<std::vector<int32_t>> ChatTokenize(std::span<const ChatMessage> messages,
                                              const moonlit_chat_options& options = ChatOptions()) const {
    const std::vector<moonlit_chat_message> list = ToMessages(messages);
    std::vector<int32_t> ids(256);
    size_t count = 0;
    moonlit_error error = {};
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (moonlit_chat_tokenize(handle_.get(), list.data(), list.size(), &options, ids.data(), ids.size(), &count,
                                &error) != MOONLIT_OK) {
        return MakeError(error);
      }
      const bool fits = count <= ids.size();
      ids.resize(count);
      if (fits) break;
    }
    return ids;
  }
  Expected<std::string> ChatRender(std::span<const ChatMessage> messages,
                                   const moonlit_chat_options& options = ChatOptions()) const {
    const std::vector<moonlit_chat_message> list = ToMessages(messages);
    std::string text(1024, '\0');
    size_t length = 0;
    moonlit_error error = {};
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (moonlit_chat_render(handle_.get(), list.data(), list.size(), &options, text.data(), text.size(), &length,
                              &error) != MOONLIT_OK) {
        return MakeError(error);
      }
      const bool fits = length <= text.size();
      text.resize(length);
      if (fits) break;
    }
    return text;
  }
  Expected<Grammar> NewGrammar(std::string_view text, const std::string& root = "root") const {
    moonlit_grammar* grammar = nullptr;
    moonlit_error error = {};
    if (moonlit_grammar_new(handle_.get(), text.data(), text.size(), root.c_str(), &grammar, &error) != MOONLIT_OK)
      return MakeError(error);
    return Grammar(grammar);
  }
  Expected<Grammar> NewJsonGrammar(std::string_view schema) const {
    moonlit_grammar* grammar = nullptr;
    moonlit_error error = {};
    if (moonlit_grammar_new_json(handle_.get(), schema.data(), schema.size(), &grammar, &error) != MOONLIT_OK)
      return MakeError(error);
    return Grammar(grammar);
  }
  Expected<Sampler> NewSampler(uint64_t seed) const {
    moonlit_sampler* sampler = nullptr;
    moonlit_error error = {};
    if (moonlit_sampler_new(handle_.get(), seed, &sampler, &error) != MOONLIT_OK) return MakeError(error);
    return Sampler(sampler);
  }
  Expected<std::vector<float>> Embed(std::span<const int32_t> ids, const moonlit_embed_options& options) const {
    std::vector<float> vector(info().n_embd);
    size_t width = 0;
    moonlit_error error = {};
    if (moonlit_embed(handle_.get(), ids.data(), ids.size(), &options, vector.data(), vector.size(), &width, &error) !=
        MOONLIT_OK) {
      return MakeError(error);
    }
    vector.resize(width);
    return vector;
  }
  bool IsEnd(int32_t id) const { return moonlit_token_is_end(handle_.get(), id) != 0; }

 private:
  static std::vector<moonlit_chat_message> ToMessages(std::span<const ChatMessage> messages) {
    std::vector<moonlit_chat_message> list;
    for (const ChatMessage& one : messages) list.push_back({one.role.c_str(), one.content.data(), one.content.size()});
    return list;
  }
  explicit Model(moonlit_model* handle) : handle_(handle, &moonlit_model_free) {}
  std::unique_ptr<moonlit_model, void (*)(moonlit_model*)> handle_;
};

}  // namespace moonlit::api
