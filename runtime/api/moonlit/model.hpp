// SPDX-License-Identifier: Apache-2.0
// Models, and all that they make. Part of moonlit.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "adapter.h"
#include "chat.h"
#include "embed.h"
#include "expected.hpp"
#include "memory.h"
#include "model.h"
#include "sampler.hpp"
#include "session.hpp"

namespace moonlit::api {

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
  std::vector<std::string> MetadataKeys() const {
    std::vector<std::string> keys;
    const size_t count = moonlit_model_metadata_count(handle_.get());
    for (size_t i = 0; i < count; ++i) keys.emplace_back(moonlit_model_metadata_key(handle_.get(), i));
    return keys;
  }
  Expected<std::string> Metadata(const std::string& key) const {
    return Filled<std::string>(64,
                               [&](auto... out) { return moonlit_model_metadata(handle_.get(), key.c_str(), out...); });
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
  // `flags`: see moonlit_tokenize; by default a text from its beginning, without names of control tokens.
  Expected<std::vector<int32_t>> Tokenize(std::string_view text, int flags = MOONLIT_ADD_SPECIAL) const {
    return Filled<std::vector<int32_t>>(text.size() + 8, [&](auto... out) {
      return moonlit_tokenize(handle_.get(), text.data(), text.size(), flags, out...);
    });
  }
  Expected<std::string> Detokenize(std::span<const int32_t> ids, bool show_special = false) const {
    return Filled<std::string>(ids.size() * 8 + 8, [&](auto... out) {
      return moonlit_detokenize(handle_.get(), ids.data(), ids.size(), show_special ? 1 : 0, out...);
    });
  }
  Expected<std::string> TokenBytes(int32_t id, bool show_special = false) const {
    return Filled<std::string>(
        32, [&](auto... out) { return moonlit_token_bytes(handle_.get(), id, show_special ? 1 : 0, out...); });
  }
  Expected<std::string> TokenText(int32_t id) const {
    return Filled<std::string>(32, [&](auto... out) { return moonlit_token_text(handle_.get(), id, out...); });
  }
  // -1: the model has none.
  int32_t SpecialToken(moonlit_special kind) const { return moonlit_token_special(handle_.get(), kind); }
  // What begins a text; -1: nothing.
  int32_t BeginToken() const { return moonlit_token_begin(handle_.get()); }
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
    return Filled<std::vector<int32_t>>(256, [&](auto... out) {
      return moonlit_chat_tokenize(handle_.get(), list.data(), list.size(), &options, out...);
    });
  }
  Expected<std::string> ChatRender(std::span<const ChatMessage> messages,
                                   const moonlit_chat_options& options = ChatOptions()) const {
    const std::vector<moonlit_chat_message> list = ToMessages(messages);
    return Filled<std::string>(1024, [&](auto... out) {
      return moonlit_chat_render(handle_.get(), list.data(), list.size(), &options, out...);
    });
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
  static moonlit_embed_options EmbedOptions() {
    moonlit_embed_options options;
    moonlit_embed_options_init(&options, sizeof options);
    return options;
  }
  Expected<std::vector<float>> Embed(std::span<const int32_t> ids,
                                     const moonlit_embed_options& options = EmbedOptions()) const {
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
