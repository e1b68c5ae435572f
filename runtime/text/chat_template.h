// SPDX-License-Identifier: Apache-2.0
// Chat templates: from messages to the text and the ids that a model was trained to see. Templates are Jinja, rendered as
// transformers' apply_chat_template does (huggingface.co/docs/transformers/chat_templating).
//
//   MOONLIT_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Create(tokenizer.chat_template()));
//   MOONLIT_ASSIGN_OR_RETURN(const RenderedChat text, chat.Render(input, tokenizer));
//   MOONLIT_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, EncodeChat(text, tokenizer));
//
// What is different from transformers: control tokens spelt out in a message stay words, since each byte of the rendered text
// knows whether the template wrote it. Roles count as the template's where they are one of the usual names.
//
// Templates are untrusted: their size, nesting, steps, memory and output are bounded (jinja_machine.h), and a template can reach
// nothing but what it is given and the date.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/tokenizer.h"

namespace moonlit {

namespace jinja {
struct Node;
}

struct ChatMessage {
  std::string_view role;
  std::string_view content;
};

struct ChatInput {
  std::span<const ChatMessage> messages;
  std::string_view
      messages_json;  // a JSON array of objects instead of `messages`, for tool calls and the like; empty: none
  std::string_view tools_json;      // a JSON array; empty: none
  std::string_view variables_json;  // an object of more variables, such as {"enable_thinking": false}; empty: none
  bool add_generation_prompt = true;
  int64_t now = 0;  // seconds since 1970, for templates that print the date in the local time zone
};

// The text, cut where template and data meet.
struct RenderedChat {
  std::string text;
  struct Piece {
    size_t begin, end;
    bool from_data;
  };
  std::vector<Piece> pieces;  // cover the text
};

// Immutable; any thread.
class ChatTemplate {
 public:
  // kCorrupt: no Jinja; kUnsupported: Jinja that is not known here; kExhausted: too large or too deep. With the line.
  static Result<ChatTemplate> Create(std::string_view source);
  ChatTemplate(ChatTemplate&&) noexcept;
  ~ChatTemplate();

  // kInvalidArgument: JSON that is none, or what the template objects to (raise_exception), with its words; kExhausted: it takes
  // more than its bounds. The tokenizer gives bos_token, eos_token and the like.
  Result<RenderedChat> Render(const ChatInput& input, const Tokenizer& tokenizer) const;

 private:
  explicit ChatTemplate(std::unique_ptr<const jinja::Node> root);
  std::unique_ptr<const jinja::Node> root_;
};

// Ids of a rendered chat: control tokens are read where the template wrote them; one token that begins a text if the model wants it,
// whether the template writes it or not, none that ends it.
Result<std::vector<int32_t>> EncodeChat(const RenderedChat& chat, const Tokenizer& tokenizer);

}  // namespace moonlit
