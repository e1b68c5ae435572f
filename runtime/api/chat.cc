// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/chat_template.h"

#include <algorithm>
#include <ctime>
#include <vector>

#include "runtime/api/handles.h"

namespace moonlit::api {
namespace {

Result<RenderedChat> RenderChat(const moonlit_model& model, const moonlit_chat_message* messages, size_t count,
                                const moonlit_chat_options* given) {
  MOONLIT_ASSIGN_OR_RETURN(const moonlit_chat_options options,
                           ReadSized(given, "moonlit_chat_options", moonlit_chat_options_init));
  const Tokenizer& tokenizer = model.tokenizer();
  const std::string_view source =
      options.chat_template != nullptr ? std::string_view(options.chat_template) : tokenizer.chat_template();
  if (source.empty()) {
    return Status(
        Code::kNotFound,
        "the model has no chat template: give one (chat_template of moonlit_chat_options, --chat-template-file of "
        "the command), or generate from plain text");
  }
  std::vector<ChatMessage> list;
  for (size_t i = 0; i < count; ++i) {
    if (messages[i].role == nullptr || (messages[i].content == nullptr && messages[i].content_length > 0))
      return Errorf(Code::kInvalidArgument, "message %zu: role and content must not be NULL", i);
    MOONLIT_RETURN_IF_ERROR(CheckArray(messages[i].content, messages[i].content_length, "a message's content"));
    list.push_back({messages[i].role, {messages[i].content, messages[i].content_length}});
  }
  ChatInput input;
  input.messages = list;
  if (options.messages_json != nullptr) input.messages_json = options.messages_json;
  if (options.tools_json != nullptr) input.tools_json = options.tools_json;
  if (options.variables_json != nullptr) input.variables_json = options.variables_json;
  input.add_generation_prompt = options.add_generation_prompt != 0;
  input.now = options.now != 0 ? options.now : static_cast<int64_t>(std::time(nullptr));
  MOONLIT_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Create(source));
  return chat.Render(input, tokenizer);
}

}  // namespace
}  // namespace moonlit::api

using moonlit::Status;
using moonlit::api::CheckArray;
using moonlit::api::Guard;
using moonlit::api::NotNull;

extern "C" {

void moonlit_chat_options_init(moonlit_chat_options* options, size_t size) {
  moonlit_chat_options defaults = {};
  defaults.add_generation_prompt = 1;
  moonlit::api::WriteSized(defaults, size, options);
}

const char* moonlit_chat_template(const moonlit_model* model) {
  if (model == nullptr) return nullptr;
  const std::string& source = model->tokenizer().chat_template();
  return source.empty() ? nullptr : source.c_str();
}

moonlit_code moonlit_chat_tokenize(const moonlit_model* model, const moonlit_chat_message* messages,
                                   size_t message_count, const moonlit_chat_options* options, int32_t* ids,
                                   size_t capacity, size_t* id_count, moonlit_error* error) {
  return Guard(model, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(CheckArray(messages, message_count, "messages"));
    MOONLIT_RETURN_IF_ERROR(NotNull(ids, capacity, "ids"));
    MOONLIT_RETURN_IF_ERROR(NotNull(id_count, "id_count"));
    MOONLIT_ASSIGN_OR_RETURN(const moonlit::RenderedChat chat,
                             moonlit::api::RenderChat(*model, messages, message_count, options));
    MOONLIT_ASSIGN_OR_RETURN(const std::vector<int32_t> found, moonlit::EncodeChat(chat, model->tokenizer()));
    std::copy_n(found.begin(), std::min(found.size(), capacity), ids);
    *id_count = found.size();
    return Status();
  });
}

moonlit_code moonlit_chat_render(const moonlit_model* model, const moonlit_chat_message* messages, size_t message_count,
                                 const moonlit_chat_options* options, char* text, size_t capacity, size_t* length,
                                 moonlit_error* error) {
  return Guard(model, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(CheckArray(messages, message_count, "messages"));
    MOONLIT_RETURN_IF_ERROR(NotNull(text, capacity, "text"));
    MOONLIT_RETURN_IF_ERROR(NotNull(length, "length"));
    MOONLIT_ASSIGN_OR_RETURN(const moonlit::RenderedChat chat,
                             moonlit::api::RenderChat(*model, messages, message_count, options));
    std::copy_n(chat.text.begin(), std::min(chat.text.size(), capacity), text);
    *length = chat.text.size();
    return Status();
  });
}

}  // extern "C"
