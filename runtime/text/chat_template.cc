// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/chat_template.h"

#include <algorithm>
#include <new>

#include "runtime/json/json.h"
#include "runtime/text/jinja_machine.h"
#include "runtime/text/jinja_parser.h"

namespace moonlit {
namespace {

// The largest of known models has 20 KiB.
constexpr size_t kMostTemplateBytes = size_t{1} << 20;
constexpr size_t kMostMembers = 4096;  // of an object: a template searches them one by one

Status ToStatus(const jinja::Fault& fault) { return Status(fault.code, "chat template: " + fault.message); }

// Templates build control tokens of these ("<|" + role + "|>"); another role is data.
jinja::Value RoleValue(std::string_view role) {
  static constexpr std::string_view kRoles[] = {"system", "user",  "assistant", "tool",    "developer", "function",
                                                "model",  "human", "bot",       "context", "ipython"};
  const bool known = std::find(std::begin(kRoles), std::end(kRoles), role) != std::end(kRoles);
  return jinja::Value::OfText(jinja::Text(std::string(role), !known));
}

// By recursion, which the depth of a document bounds.
jinja::Value FromJson(const Json& json) {
  switch (json.type()) {
    case JsonType::kNull:
      return jinja::Value(jinja::None{});
    case JsonType::kString:
      return jinja::Value::OfText(jinja::Text(std::string(json.AsString()), true));
    case JsonType::kBoolean:
      return jinja::Value(json.AsBoolean());
    case JsonType::kUnsigned:
      if (json.AsUnsigned() > uint64_t{INT64_MAX}) return jinja::Value(json.AsDouble());
      [[fallthrough]];
    case JsonType::kInteger:
      return jinja::Value(json.AsInteger());
    case JsonType::kDouble:
      return jinja::Value(json.AsDouble());
    case JsonType::kArray: {
      std::vector<jinja::Value> items;
      for (const Json item : json) items.push_back(FromJson(item));
      return jinja::Value::OfList(std::move(items));
    }
    case JsonType::kObject:
      break;
  }
  std::vector<std::pair<jinja::Value, jinja::Value>> entries;
  for (size_t i = 0; i < json.size(); ++i) {
    const Json value = json[i];
    const bool role = json.Key(i) == "role" && value.is_string();
    entries.emplace_back(jinja::Value::OfText(jinja::Text(std::string(json.Key(i)), true)),
                         role ? RoleValue(value.AsString()) : FromJson(value));
  }
  return jinja::Value::OfDict(std::move(entries));
}

Result<jinja::Value> ReadInput(const char* what, std::string_view text, JsonType type) {
  const Result<Json> json = ParseJson(text, {.members = kMostMembers});
  if (json.status().code() == Code::kOutOfMemory) return json.status();
  if (!json.ok() || json.value().type() != type) {
    return Errorf(Code::kInvalidArgument, "chat: %s: expected a JSON %s of at most %zu levels, found something else",
                  what, type == JsonType::kArray ? "array" : "object", kMostJsonDepth);
  }
  return FromJson(*json);
}

Result<jinja::Value> Messages(const ChatInput& input) {
  if (!input.messages_json.empty()) return ReadInput("messages", input.messages_json, JsonType::kArray);
  std::vector<jinja::Value> messages;
  for (const ChatMessage& message : input.messages) {
    messages.push_back(jinja::Value::OfDict(
        {{jinja::Value::OfWord("role"), RoleValue(message.role)},
         {jinja::Value::OfWord("content"), jinja::Value::OfText(jinja::Text(std::string(message.content), true))}}));
  }
  return jinja::Value::OfList(std::move(messages));
}

void AddSpecialTokens(const Tokenizer& tokenizer, jinja::Variables* variables) {
  const SpecialTokens& special = tokenizer.special();
  const std::pair<const char*, int32_t> names[] = {{"bos_token", special.bos}, {"eos_token", special.eos},
                                                   {"unk_token", special.unk}, {"sep_token", special.sep},
                                                   {"pad_token", special.pad}, {"mask_token", special.mask}};
  for (const auto& [name, id] : names) {
    if (id != kNoToken) variables->emplace_back(name, jinja::Value::OfWord(tokenizer.TokenText(id)));
  }
}

Result<jinja::Variables> CollectVariables(const ChatInput& input, const Tokenizer& tokenizer) {
  jinja::Variables variables;
  // A later variable of the same name is not looked at, so the caller's own come first.
  if (!input.variables_json.empty()) {
    MOONLIT_ASSIGN_OR_RETURN(const jinja::Value given, ReadInput("variables", input.variables_json, JsonType::kObject));
    for (const auto& [key, value] : given.dict()->entries) variables.emplace_back(key.text()->bytes(), value);
  }
  MOONLIT_ASSIGN_OR_RETURN(jinja::Value messages, Messages(input));
  variables.emplace_back("messages", std::move(messages));
  jinja::Value tools(jinja::None{});
  if (!input.tools_json.empty()) {
    MOONLIT_ASSIGN_OR_RETURN(tools, ReadInput("tools", input.tools_json, JsonType::kArray));
  }
  variables.emplace_back("tools", std::move(tools));
  variables.emplace_back("documents", jinja::Value(jinja::None{}));
  variables.emplace_back("add_generation_prompt", jinja::Value(input.add_generation_prompt));
  AddSpecialTokens(tokenizer, &variables);
  return variables;
}

RenderedChat ToChat(const jinja::Text& text) {
  RenderedChat chat;
  chat.text = text.bytes();
  for (size_t i = 0; i < text.size(); ++i) {
    if (chat.pieces.empty() || chat.pieces.back().from_data != text.FromData(i))
      chat.pieces.push_back({i, i, text.FromData(i)});
    chat.pieces.back().end = i + 1;
  }
  return chat;
}

}  // namespace

ChatTemplate::ChatTemplate(std::unique_ptr<const jinja::Node> root) : root_(std::move(root)) {}
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate::~ChatTemplate() = default;

Result<ChatTemplate> ChatTemplate::Create(std::string_view source) try {
  if (source.size() > kMostTemplateBytes) {
    return Errorf(Code::kExhausted, "chat template: expected at most %zu bytes, found %zu", kMostTemplateBytes,
                  source.size());
  }
  return ChatTemplate(jinja::Parse(source));
} catch (const jinja::Fault& fault) {
  return ToStatus(fault);
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "chat template: no memory");
}

Result<RenderedChat> ChatTemplate::Render(const ChatInput& input, const Tokenizer& tokenizer) const try {
  MOONLIT_ASSIGN_OR_RETURN(jinja::Variables variables, CollectVariables(input, tokenizer));
  jinja::Machine machine({}, input.now);
  return ToChat(machine.Run(*root_, std::move(variables)));
} catch (const jinja::Fault& fault) {
  return ToStatus(fault);
} catch (const std::bad_alloc&) {
  return Status(Code::kOutOfMemory, "chat template: no memory");
}

Result<std::vector<int32_t>> EncodeChat(const RenderedChat& chat, const Tokenizer& tokenizer) {
  std::vector<TextSpan> spans;
  for (const RenderedChat::Piece& piece : chat.pieces)
    spans.push_back({std::string_view(chat.text).substr(piece.begin, piece.end - piece.begin), !piece.from_data});
  MOONLIT_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer.EncodeSpans(spans, {}));
  const int32_t bos = tokenizer.special().bos;
  if (tokenizer.add_bos() && (ids.empty() || ids[0] != bos)) ids.insert(ids.begin(), bos);
  return ids;
}

}  // namespace moonlit
