// SPDX-License-Identifier: Apache-2.0
// A conversation line by line: each message goes through the model's chat template, and the session keeps what it has read.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/adapter_flags.h"
#include "tools/cli/answer.h"
#include "tools/cli/chat_flags.h"
#include "tools/cli/grammar_flags.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/model_flags.h"
#include "tools/cli/sampling_flags.h"

namespace moonlit::cli {
namespace {

// A message longer than that is no line that somebody wrote.
constexpr size_t kMostLineBytes = size_t{64} << 20;

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
        "Each line of standard input is a message, \\ at its end joins the next one to it. /new begins another "
        "conversation,\n"
        "/exit or the end of the input ends the command, as does Ctrl-C.");
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
    auto seed = static_cast<uint64_t>(sampling_.seed);
    std::vector<api::ChatMessage> messages = chat_.Beginning();
    std::string line;
    while (ReadMessage(&line)) {
      if (line == "/exit") break;
      if (line == "/new") {
        messages = chat_.Beginning();
        continue;
      }
      if (line.empty()) continue;
      messages.push_back({"user", line});
      if (const int code = Answer(model, session, &messages); code != kOk) return code;
      // The next answer has another seed, and begins the grammar anew.
      if (const api::Error error = sampler.Reset(++seed); error.code != MOONLIT_OK) return Report(error);
    }
    return kOk;
  }

  // False at the end of the input.
  static bool ReadMessage(std::string* message) {
    message->clear();
    if (isatty(STDIN_FILENO) != 0) std::fputs("> ", stderr);
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

  int Answer(const api::Model& model, api::Session& session, std::vector<api::ChatMessage>* messages) {
    std::vector<int32_t> ids;
    if (const int code = chat_.Tokenize(model, *messages, &ids); code != kOk) return code;
    if (ids.size() >= model.info().n_ctx) {
      std::fprintf(
          stderr,
          "moonlit: the conversation has %zu tokens, the context holds %u: /new begins another one, a larger -c "
          "holds more\n",
          ids.size(), model.info().n_ctx);
      messages->pop_back();
      return kOk;
    }
    // What the session has read and the conversation still begins with; at least one token is read anew.
    const std::vector<int32_t> held = session.Tokens();
    const auto differs = std::mismatch(held.begin(), held.end(), ids.begin(), ids.end()).second;
    const size_t known = std::min(static_cast<size_t>(differs - ids.begin()), ids.size() - 1);
    if (const api::Error error = session.Truncate(known); error.code != MOONLIT_OK) return Report(error);

    moonlit_generate_result result;
    std::string answer;
    const auto unread = std::span<const int32_t>(ids).subspan(known);
    if (const int code = PrintAnswer(session, unread, options_, &result, &answer); code != kOk) return code;
    if (Interrupted()) return kInterrupted;
    if (result.finish == MOONLIT_FINISH_CONTEXT) std::fputs("moonlit: the context is full\n", stderr);
    messages->push_back({"assistant", std::move(answer)});
    return kOk;
  }

  ModelFlags model_;
  AdapterFlags adapters_;
  ChatFlags chat_;
  GrammarFlags grammar_flags_;
  SamplingFlags sampling_;
  moonlit_generate_options options_ = {};
  int n_ = -1;
};

}  // namespace

std::unique_ptr<Command> MakeChat() { return std::make_unique<Chat>(); }

}  // namespace moonlit::cli
