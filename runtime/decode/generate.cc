// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/generate.h"

#include <algorithm>

#include "kernels/base/round.h"
#include "runtime/base/clock.h"
#include "runtime/text/stop_matcher.h"
#include "runtime/text/utf8_stream.h"

namespace moonlit {
namespace {

// Keeps the logits of the last row it saw.
class LastLogits final : public LogitsConsumer {
 public:
  explicit LastLogits(size_t vocab) : logits_(vocab) {}
  void Consume(size_t, size_t, size_t rows, const float* logits, size_t stride) override {
    const float* last = logits + (rows - 1) * stride;
    logits_.assign(last, last + logits_.size());
  }
  std::span<const float> row() const { return logits_; }

 private:
  std::vector<float> logits_;
};

// Token bytes -> stop strings -> whole characters -> the caller.
class TextOutput {
 public:
  TextOutput(const Tokenizer& tokenizer, StopMatcher matcher, const std::function<bool(std::string_view)>& text)
      : tokens_(tokenizer, /*show_special=*/false, /*at_start=*/false), matcher_(std::move(matcher)), text_(text) {}

  // Returns the index of the stop string that the token completed, else -1.
  int Add(int32_t id) {
    const StopMatcher::Output output = matcher_.Add(tokens_.NextBytes(id));
    Give(utf8_.Add(output.text));
    return output.stop_index;
  }
  // What was held back leaves when the generation is over, unless it belongs to a stop string.
  void Finish() {
    std::string rest =
        utf8_.Add(matcher_.Finish());  // before the stream ends, which operands of one sum would not be sure of
    rest += utf8_.Finish();
    Give(rest);
  }
  bool refused() const { return refused_; }

 private:
  void Give(const std::string& piece) {
    if (!piece.empty() && text_ && !refused_) refused_ = !text_(piece);
  }
  TokenStream tokens_;
  StopMatcher matcher_;
  Utf8Stream utf8_;
  const std::function<bool(std::string_view)>& text_;
  bool refused_ = false;
};

// Slots [first, last) that make room in a context of n_ctx tokens.
struct Shift {
  int64_t first = 0, last = 0;
};

Result<Shift> PlanShift(Engine& engine, const Session& session, const GenerateOptions& options) {
  if (!engine.plan().can_shift()) {
    return Errorf(Code::kUnsupported,
                  "context shift: what this model has read can't be moved to other positions; generate without it, or "
                  "load with a larger n_ctx");
  }
  const size_t n_ctx = engine.options().n_ctx, block = static_cast<size_t>(session.block_tokens());
  const size_t keep = std::min(std::max<size_t>(options.keep, 1), n_ctx);
  const size_t first = RoundUp(keep, block);
  if (n_ctx < first + 2 * block) {
    return Errorf(
        Code::kInvalidArgument,
        "context shift: a context of %zu tokens is too short to keep %zu and drop half of the rest: expected at "
        "least %zu (whole pages of %zu tokens move)",
        n_ctx, keep, first + 2 * block, block);
  }
  const size_t dropped = (n_ctx - first) / 2 / block * block;
  return Shift{static_cast<int64_t>(first), static_cast<int64_t>(first + dropped)};
}

bool IsSet(const std::atomic<bool>* flag) { return flag != nullptr && flag->load(std::memory_order_relaxed); }

class Generation {
 public:
  Generation(Engine& engine, Session& session, TokenChooser& chooser, const GenerateOptions& options,
             StopMatcher matcher)
      : engine_(engine),
        session_(session),
        chooser_(chooser),
        options_(options),
        logits_(engine.plan().vocab_size()),
        output_(engine.tokenizer(), std::move(matcher), options.text) {}

  Result<GenerateResult> Run(std::span<const int32_t> prompt) {
    if (options_.context_shift) {
      MOONLIT_ASSIGN_OR_RETURN(shift_, PlanShift(engine_, session_, options_));
    }
    const uint64_t start = MonotonicNanoseconds();
    const auto progress = [&](size_t done) {
      if (options_.prefill_progress) options_.prefill_progress(done, prompt.size());
    };
    size_t reused = 0;
    const Status prefill =
        engine_.Prefill(session_, prompt, Outputs::kLast, &logits_, options_.cancel, progress, &reused);
    result_.prefill_seconds = SecondsSince(start);
    if (prefill.code() == Code::kCancelled) {
      result_.finish = Finish::kCancelled;
      return std::move(result_);
    }
    MOONLIT_RETURN_IF_ERROR(prefill);
    result_.prompt_tokens = prompt.size();
    result_.reused_tokens = reused;
    // Penalties look back at what the session held already, wherever that came from.
    chooser_.SetHistory(session_.tokens().first(session_.tokens().size() - prompt.size()));
    for (int32_t id : prompt) chooser_.Accept(id);

    const uint64_t decode_start = MonotonicNanoseconds();
    bool more = true;
    while (more) {
      MOONLIT_ASSIGN_OR_RETURN(more, ChooseOne());
      if (!more) break;
      MOONLIT_ASSIGN_OR_RETURN(more, ReadLast());
    }
    result_.decode_seconds = SecondsSince(decode_start);
    output_.Finish();
    return std::move(result_);
  }

 private:
  static double SecondsSince(uint64_t start) { return static_cast<double>(MonotonicNanoseconds() - start) * 1e-9; }

  bool End(Finish finish) {
    result_.finish = finish;
    return false;
  }

  // Chooses a token and gives its text out; false when that ended the generation.
  Result<bool> ChooseOne() {
    if (IsSet(options_.cancel)) return End(Finish::kCancelled);
    const Result<int32_t> chosen = chooser_.Next(logits_.row(), options_.cancel);
    if (chosen.status().code() == Code::kCancelled) return End(Finish::kCancelled);
    MOONLIT_RETURN_IF_ERROR(chosen.status());
    const int32_t id = *chosen;
    if (!options_.ignore_end && engine_.tokenizer().IsEndOfGeneration(id)) {
      result_.end_token = id;
      return End(Finish::kEnd);
    }
    MOONLIT_RETURN_IF_ERROR(chooser_.AcceptChosen(id));
    result_.tokens.push_back(id);
    result_.last_token = id;
    const bool refused = options_.token && !options_.token(id);
    result_.stop_index = output_.Add(id);
    if (result_.stop_index >= 0) return End(Finish::kStop);
    if (refused || output_.refused()) return End(Finish::kCancelled);
    if (chooser_.must_end()) return End(Finish::kEnd);
    if (options_.max_tokens != 0 && result_.tokens.size() >= options_.max_tokens) return End(Finish::kLength);
    if (static_cast<size_t>(session_.length()) < engine_.options().n_ctx) return true;
    if (!options_.context_shift) return End(Finish::kContext);
    MOONLIT_RETURN_IF_ERROR(session_.Drop(shift_.first, shift_.last));
    ++result_.shifts;
    return true;
  }

  // The model reads the last token; false when cancelled meanwhile.
  Result<bool> ReadLast() {
    const SessionSpan span{&session_, {&result_.tokens.back(), 1}, Outputs::kLast, /*choose_pages=*/true};
    const Status status = engine_.Step({&span, 1}, &logits_, options_.cancel);
    if (status.code() == Code::kCancelled) return End(Finish::kCancelled);
    MOONLIT_RETURN_IF_ERROR(status);
    result_.last_token = -1;
    return true;
  }

  Engine& engine_;
  Session& session_;
  TokenChooser& chooser_;
  const GenerateOptions& options_;
  Shift shift_;  // of a full context, if it is wanted
  LastLogits logits_;
  TextOutput output_;
  GenerateResult result_;
};

}  // namespace

const char* FinishName(Finish finish) {
  switch (finish) {
    case Finish::kEnd:
      return "end";
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kContext:
      return "context";
    case Finish::kCancelled:
      return "cancelled";
  }
  return "unknown";
}

Result<GenerateResult> Generate(Engine& engine, Session& session, std::span<const int32_t> prompt,
                                TokenChooser& chooser, const GenerateOptions& options) {
  if (prompt.empty())
    return Status(Code::kInvalidArgument, "generate: the prompt has no tokens, so there is nothing to go on from");
  MOONLIT_ASSIGN_OR_RETURN(StopMatcher matcher, StopMatcher::Create(options.stop));
  auto result = Generation(engine, session, chooser, options, std::move(matcher)).Run(prompt);
  engine.Leave();
  return result;
}

}  // namespace moonlit
