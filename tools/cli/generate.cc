// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <string>

#include "tools/cli/adapter_flags.h"
#include "tools/cli/answer.h"
#include "tools/cli/chat_flags.h"
#include "tools/cli/grammar_flags.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/llama_flags.h"
#include "tools/cli/model_flags.h"
#include "tools/cli/prompt_cache.h"
#include "tools/cli/sampling_flags.h"
#include "tools/cli/text_flags.h"

namespace moonlit::cli {
namespace {

class Generate : public Command {
 public:
  void DeclareFlags(CLI::App& app) override {
    model_.Declare(app, true);
    adapters_.Declare(app);
    prompt_.Declare(app, "-p and -s");
    chat_.Declare(app, /*always=*/false);
    grammar_flags_.Declare(app);
    moonlit_generate_options_init(&options_, sizeof options_);
    app.add_option("-n,--predict,--n-predict", n_,
                   "Tokens to generate at most; -1: until the model ends or the context is full")
        ->capture_default_str()
        ->check(CLI::Range(-1, 1 << 30));
    app.add_flag("--context-shift,!--no-context-shift", shift_,
                 "Go on when the context is full: drop the older half of what stands behind the first --keep tokens");
    app.add_option("--keep", keep_,
                   "First tokens that a context shift leaves, rounded up to whole pages; -1: the whole prompt")
        ->capture_default_str()
        ->check(CLI::Range(-1, 1 << 30));
    sampling_.Declare(app);
    app.add_option("-s,--stop,-r,--reverse-prompt", stop_,
                   "Text that ends the generation and is not printed; may be repeated")
        ->expected(1)
        ->allow_extra_args(false)
        ->check(IsNotEmpty())
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    app.add_flag("--ignore-eos", ignore_end_, "Go on after an end token");
    app.add_flag("--echo", echo_, "Print the prompt before its continuation");
    cache_.Declare(app);
    app.add_flag("--quiet,-q", quiet_, "No timings at the end");
    app.footer(llama_.DeclareCli(app));
  }

  int Run() override {
    std::string prompt;
    int code = prompt_.text.CheckOutput(cache_.output());
    if (code == kOk) code = prompt_.Read(&prompt);
    if (code == kOk) code = chat_.Prepare();
    if (code != kOk) return code;
    auto model = LoadModel(model_, &code);
    if (!model) return code;
    std::vector<int32_t> ids;
    if ((code = Tokenize(*model, prompt, &ids)) != kOk) return code;
    std::optional<api::Grammar> grammar;
    if ((code = grammar_flags_.Make(*model, &grammar)) != kOk) return code;
    std::optional<api::Sampler> sampler;
    if ((code = sampling_.Make(*model, grammar, prompt_.escape, &sampler)) != kOk) return code;
    if ((code = CheckContext(*model, ids.size(), "the prompt")) != kOk) return code;
    auto session = model->NewSession();
    if (!session) return Report(session.error());
    if ((code = adapters_.Apply(*model, *session)) != kOk) return code;
    if (cache_.used() && (code = cache_.Load(*session, ids, &known_)) != kOk) return code;

    FillOptions();
    options_.sampler = sampler->handle();
    options_.keep = keep_ < 0 ? ids.size() : static_cast<size_t>(keep_);
    const std::span<const int32_t> unread = std::span<const int32_t>(ids).subspan(known_);
    if (n_ == 0) {
      const api::Error error = session->Eval(unread, MOONLIT_OUTPUT_NONE, {});
      if (error.code != MOONLIT_OK) return Report(error);
      return cache_.used() ? cache_.Save(*session, ids.size()) : kOk;
    }
    if ((code = GenerateText(*model, *session, prompt, unread)) == kFailed || !cache_.used()) return code;
    if (shifts_ > 0) {
      std::fprintf(stderr, "moonlit: warning: the prompt cache is not written: context shifts have moved the prompt\n");
      return code;
    }
    const int saved = cache_.Save(*session, ids.size());
    return code == kOk ? saved : code;
  }

 private:
  int Tokenize(const api::Model& model, const std::string& prompt, std::vector<int32_t>* ids) const {
    if (chat_.chat) {
      std::vector<api::ChatMessage> messages = chat_.Beginning();
      messages.push_back({"user", prompt});
      return chat_.Tokenize(model, messages, ids);
    }
    auto found = model.Tokenize(prompt, MOONLIT_ADD_SPECIAL | MOONLIT_PARSE_SPECIAL);
    if (!found) return Report(found.error());
    *ids = std::move(*found);
    return kOk;
  }

  int GenerateText(const api::Model& model, api::Session& session, const std::string& prompt,
                   std::span<const int32_t> unread) {
    if (echo_) Print(prompt);
    moonlit_generate_result result;
    if (const int code = PrintAnswer(session, unread, options_, &result, nullptr); code != kOk) return code;
    shifts_ = result.context_shifts;
    if (!quiet_) PrintTimings(model.info(), result);
    return result.finish == MOONLIT_FINISH_CANCELLED && Interrupted() ? kInterrupted : kOk;
  }

  void FillOptions() {
    options_.max_tokens = n_ < 0 ? 0 : static_cast<size_t>(n_);
    options_.ignore_end = ignore_end_ ? 1 : 0;
    options_.context_shift = shift_ ? 1 : 0;
    for (std::string& stop : stop_) {
      if (stop.find_first_not_of("0123456789") == std::string::npos) {
        std::fprintf(stderr,
                     "moonlit: warning: %s is taken for a stop string, which -s gives here; --seed is the seed\n",
                     stop.c_str());
      }
      if (prompt_.escape) ReadEscapes(stop);
      stop_pointers_.push_back(stop.c_str());
    }
    options_.stop = stop_pointers_.data();
    options_.stop_count = stop_pointers_.size();
  }

  // False when stdout is gone (a closed pipe): the generation stops.
  void PrintTimings(const moonlit_model_info& info, const moonlit_generate_result& r) const {
    auto rate = [](size_t n, double seconds) { return seconds > 0 ? static_cast<double>(n) / seconds : 0.0; };
    static const char* const kFinish[] = {"end of text", "stop string", "token limit",
                                          "context full (--context-shift goes on, a larger -c holds more)",
                                          "interrupted"};
    const std::string shifts = r.context_shifts > 0 ? std::to_string(r.context_shifts) + " context shifts; " : "";
    const std::string known = known_ > 0 ? " (" + std::to_string(known_) + " more from the prompt cache)" : "";
    std::fprintf(
        stderr,
        "\nprefill %zu tokens%s in %.1f ms (%.1f tokens/s), decode %zu tokens in %.1f ms (%.1f tokens/s); %s%s; "
        "%s, %u thread%s%s\n",
        r.prompt_tokens, known.c_str(), 1e3 * r.prefill_seconds, rate(r.prompt_tokens, r.prefill_seconds),
        r.generated_tokens, 1e3 * r.decode_seconds, rate(r.generated_tokens, r.decode_seconds), shifts.c_str(),
        kFinish[r.finish], info.variant, info.threads, info.threads == 1 ? "" : "s",
        sampling_.draws() ? (", seed " + std::to_string(sampling_.seed)).c_str() : "");
  }

  ModelFlags model_;
  AdapterFlags adapters_;
  PromptFlags prompt_;
  ChatFlags chat_;
  GrammarFlags grammar_flags_;
  SamplingFlags sampling_;
  moonlit_generate_options options_ = {};
  int n_ = -1;
  std::vector<std::string> stop_;
  std::vector<const char*> stop_pointers_;
  PromptCache cache_;
  size_t known_ = 0;  // tokens of the prompt that came from the prompt cache
  size_t shifts_ = 0;
  int keep_ = 0;
  bool shift_ = false;
  bool ignore_end_ = false;
  bool echo_ = false;
  bool quiet_ = false;
  LlamaFlags llama_;
};

}  // namespace

std::unique_ptr<Command> MakeGenerate() { return std::make_unique<Generate>(); }

}  // namespace moonlit::cli
