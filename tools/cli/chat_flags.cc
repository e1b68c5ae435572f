// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/chat_flags.h"

#include <cstdio>
#include <span>

#include "tools/cli/model_flags.h"
#include "tools/cli/text_flags.h"

namespace moonlit::cli {

void ChatFlags::Declare(CLI::App& app, bool always) {
  CLI::Option* const asked =
      always ? nullptr
             : app.add_flag("--chat", chat, "The text is a user's message: put it into the model's chat template");
  CLI::Option* const others[] = {
      app.add_option("--system,--sys,--system-prompt", system, "What the system says before the first message"),
      app.add_option("--chat-template-file", template_file, "File with a chat template (Jinja) in place of the model's")
          ->check(IsNotEmpty()),
      app.add_option("--chat-template-kwargs", variables,
                     "JSON object of variables for the template: {\"enable_thinking\": false}")};
  for (CLI::Option* const option : others) {
    if (asked != nullptr) option->needs(asked);
  }
}

int ChatFlags::Prepare() {
  if (template_file.empty()) return kOk;
  const int code = ReadTextFile(template_file, &template_);
  if (code != kOk || !template_.empty()) return code;
  std::fprintf(stderr, "moonlit: --chat-template-file: file %s is empty\n", Printable(template_file).c_str());
  return kFailed;
}

std::vector<api::ChatMessage> ChatFlags::Beginning() const {
  std::vector<api::ChatMessage> messages;
  if (!system.empty()) messages.push_back({"system", system});
  return messages;
}

int ChatFlags::Tokenize(const api::Model& model, const std::vector<api::ChatMessage>& messages,
                        std::vector<int32_t>* ids) const {
  moonlit_chat_options options = api::Model::ChatOptions();
  if (!template_file.empty()) options.chat_template = template_.c_str();
  if (!variables.empty()) options.variables_json = variables.c_str();
  auto found = model.ChatTokenize(messages, options);
  if (!found && found.error().code == MOONLIT_NOT_FOUND && template_file.empty()) {
    std::fprintf(
        stderr,
        "moonlit: the model (%s) has no chat template: name one that was trained for chats with -m (-m smollm2), "
        "or give a template with --chat-template-file\n",
        Printable(model.info().name).c_str());
    return kFailed;
  }
  if (!found) return Report(found.error());
  *ids = std::move(*found);
  return kOk;
}

}  // namespace moonlit::cli
