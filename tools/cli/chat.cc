// SPDX-License-Identifier: Apache-2.0
// A conversation line by line: each message goes through the model's chat template, and the session keeps what it has read.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/cli/adapter_flags.h"
#include "tools/cli/answer.h"
#include "tools/cli/chat_flags.h"
#include "tools/cli/grammar_flags.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/llama_flags.h"
#include "tools/cli/model_flags.h"
#include "tools/cli/sampling_flags.h"

namespace moonlit::cli {
namespace {

// A message longer than that is no line that somebody wrote.
constexpr size_t kMostLineBytes = size_t{64} << 20;

enum class Word { kNew, kRegenerate, kHelp, kExit };

struct NamedWord {
  const char* name;
  Word word;
  const char* help;
};
constexpr NamedWord kWords[] = {
    {"/new", Word::kNew, "begin another conversation"},
    {"/clear", Word::kNew, "the same"},
    {"/regen", Word::kRegenerate, "make the last answer again"},
    {"/help", Word::kHelp, "this list"},
    {"/exit", Word::kExit, "end"},
};

std::string CommandList() {
  std::string list;
  for (const NamedWord& word : kWords) {
    char line[80];
    std::snprintf(line, sizeof line, "  %-8s %s\n", word.name, word.help);
    list += line;
  }
  return list;
}

// One word of letters behind a slash. What has more in it (/etc/passwd, /new ideas) is a message.
bool LooksLikeCommand(std::string_view line) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  return line.size() > 1 && line[0] == '/' && std::all_of(line.begin() + 1, line.end(), is_letter);
}

std::optional<Word> FindWord(std::string_view line) {
  for (const NamedWord& word : kWords) {
    if (line == word.name) return word.word;
  }
  return std::nullopt;
}

bool InputIsTerminal() { return isatty(STDIN_FILENO) != 0; }

class Chat : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    model_.Declare(app, true);
    adapters_.Declare(app);
    chat_.Declare(app, /*always=*/true);
    grammar_flags_.Declare(app);
    moonlit_generate_options_init(&options_, sizeof options_);
    app.add_option("-n,--predict,--n-predict", n_,
                   "Tokens of an answer at most; -1: until the model ends it or the context is full")
        ->capture_default_str()
        ->check(CLI::Range(-1, 1 << 30));
    sampling_.Declare(app);
    app.footer(
        "Each line of standard input is a message, \\ at its end joins the next one to it; the end of the input ends "
        "the "
        "command.\n"
        "Lines that are commands:\n" +
        CommandList() +
        "On a terminal Ctrl-C stops the answer that is being written, and ends the command at the prompt.\n" +
        llama_.DeclareCli(app));
    // llama-cli's word for what this command does anyway.
    app.add_flag("--cnv,--conversation,-i,--interactive", conversation_)->group("");
  }

  int Run() override {
    int code = chat_.Prepare();
    if (code != kOk) return code;
    auto model = LoadModel(model_, &code);
    if (!model) return code;
    // A model without a template says so before somebody has written a message.
    std::vector<int32_t> ids;
    if ((code = chat_.Tokenize(*model, {{"user", "x"}}, &ids)) != kOk) return code;
    std::optional<api::Grammar> grammar;
    if ((code = grammar_flags_.Make(*model, &grammar)) != kOk) return code;
    std::optional<api::Sampler> sampler;
    if ((code = sampling_.Make(*model, grammar, /*escapes=*/true, &sampler)) != kOk) return code;
    auto session = model->NewSession();
    if (!session) return Report(session.error());
    if ((code = adapters_.Apply(*model, *session)) != kOk) return code;
    options_.max_tokens = n_ < 0 ? 0 : static_cast<size_t>(n_);
    options_.sampler = sampler->handle();
    return Converse(*model, *session, *sampler);
  }

 private:
  int Converse(const api::Model& model, api::Session& session, api::Sampler& sampler) {
    if (InputIsTerminal()) {
      std::fputs(
          "moonlit: /help lists commands, /new begins another conversation, /exit or Ctrl-D ends; Ctrl-C stops an "
          "answer\n",
          stderr);
    }
    auto seed = static_cast<uint64_t>(sampling_.seed);
    messages_ = chat_.Beginning();
    std::string line;
    while (ReadMessage(&line)) {
      if (line.empty()) continue;
      std::optional<std::string> former;  // an answer that is made again
      if (LooksLikeCommand(line)) {
        const std::optional<Word> word = FindWord(line);
        if (word == Word::kExit) break;
        if (word != Word::kRegenerate) {
          Obey(word, line);
          continue;
        }
        if (messages_.empty() || messages_.back().role != "assistant") {
          std::fputs("moonlit: there is no answer yet\n", stderr);
          continue;
        }
        former = std::move(messages_.back().content);
        messages_.pop_back();
      } else {
        messages_.push_back({"user", line});
      }
      std::optional<std::string> answer;
      if (const int code = Answer(model, session, &answer); code != kOk) return code;
      if (!answer) answer = std::move(former);
      if (answer) {
        messages_.push_back({"assistant", std::move(*answer)});
      } else {
        messages_.pop_back();
      }
      // The next answer has another seed, and begins the grammar anew.
      if (const api::Error error = sampler.Reset(++seed); error.code != MOONLIT_OK) return Report(error);
    }
    return unanswered_ && !InputIsTerminal() ? kFailed : kOk;
  }

  // Commands that make no answer.
  void Obey(std::optional<Word> word, const std::string& line) {
    if (word == Word::kNew) {
      messages_ = chat_.Beginning();
    } else if (word == Word::kHelp) {
      std::fputs(CommandList().c_str(), stderr);
    } else {
      std::fprintf(stderr,
                   "moonlit: there is no command %s: /help lists them; with a blank before it, it is a message\n",
                   line.c_str());
    }
  }

  // False at the end of the input.
  static bool ReadMessage(std::string* message) {
    message->clear();
    if (InputIsTerminal()) std::fputs("> ", stderr);
    bool any = false;
    for (int c = std::getchar(); c != EOF; c = std::getchar()) {
      any = true;
      if (c != '\n') {
        if (message->size() < kMostLineBytes) message->push_back(static_cast<char>(c));
      } else if (!message->empty() && message->back() == '\\') {
        message->back() = '\n';
      } else {
        break;
      }
    }
    if (!message->empty() && message->back() == '\r') message->pop_back();
    return any;
  }

  // To the last message. Nothing in *answer: it did not fit, or was stopped before it began; then the message is as if unsaid.
  int Answer(const api::Model& model, api::Session& session, std::optional<std::string>* answer) {
    std::vector<int32_t> ids;
    if (const int code = chat_.Tokenize(model, messages_, &ids); code != kOk) return code;
    if (ids.size() >= model.info().n_ctx) {
      std::fprintf(
          stderr,
          "moonlit: the conversation has %zu tokens, the context holds %u: /new begins another one, a larger -c "
          "holds more\n",
          ids.size(), model.info().n_ctx);
      unanswered_ = true;
      return kOk;
    }
    // What the session has read and the conversation still begins with; at least one token is read anew.
    const std::vector<int32_t> held = session.Tokens();
    const auto differs = std::mismatch(held.begin(), held.end(), ids.begin(), ids.end()).second;
    const size_t known = std::min(static_cast<size_t>(differs - ids.begin()), ids.size() - 1);
    if (const api::Error error = session.Truncate(known); error.code != MOONLIT_OK) return Report(error);

    moonlit_generate_result result;
    std::string text;
    const auto unread = std::span<const int32_t>(ids).subspan(known);
    const int code = PrintAnswer(session, unread, options_, &result, &text);
    if (code != kOk && code != kInterrupted) return code;
    if (Interrupted()) {
      if (!InputIsTerminal()) return kInterrupted;
      std::fprintf(stderr, "%smoonlit: stopped%s; Ctrl-C at the prompt ends the chat\n", text.empty() ? "\n" : "",
                   text.empty() ? " before the answer began: nothing is kept of it" : "");
      if (!text.empty()) *answer = std::move(text);
      return kOk;
    }
    if (result.finish == MOONLIT_FINISH_CONTEXT) std::fputs("moonlit: the context is full\n", stderr);
    if (result.finish == MOONLIT_FINISH_LENGTH) {
      std::fprintf(stderr, "moonlit: the answer was cut after %d tokens: a larger -n allows more\n", n_);
    }
    *answer = std::move(text);
    return kOk;
  }

  std::vector<api::ChatMessage> messages_;
  bool unanswered_ = false;  // a message did not fit; a script learns it by the exit code
  ModelFlags model_;
  AdapterFlags adapters_;
  ChatFlags chat_;
  GrammarFlags grammar_flags_;
  LlamaFlags llama_;
  bool conversation_ = true;
  SamplingFlags sampling_;
  moonlit_generate_options options_ = {};
  int n_ = -1;
};

}  // namespace

std::unique_ptr<Command> MakeChat() { return std::make_unique<Chat>(); }

}  // namespace moonlit::cli
