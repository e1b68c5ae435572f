// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/perplexity.h"

#include <cmath>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/decode/empty_after.h"
#include "runtime/decode/logits_file.h"
#include "runtime/decode/logsumexp.h"

namespace moonlit {
namespace {

constexpr size_t kLeastWindow = 4;

// Row by row, so no more than 32 rows of logits exist at any time.
class SurpriseSum final : public LogitsConsumer {
 public:
  explicit SurpriseSum(size_t vocab) : vocab_(vocab) {}

  // targets[t]: the token that comes after token t of the next prefill.
  void set_targets(std::span<const int32_t> targets) { targets_ = targets; }

  void Consume(size_t, size_t first_token, size_t rows, const float* logits, size_t stride) override {
    for (size_t r = 0; r < rows; ++r) {
      const std::span<const float> row(logits + r * stride, vocab_);
      const double surprise = LogSumExp(row) - double{row[static_cast<size_t>(targets_[first_token + r])]};
      sum_ += surprise;
      squares_ += surprise * surprise;
      ++count_;
      if (status_.ok() && std::isfinite(surprise)) status_ = UseFiles(row, targets_[first_token + r]);
    }
  }

  // Each may stay away. `inputs`: what must not be written over.
  Status OpenFiles(const PerplexityOptions& options, std::span<const int32_t> ids, std::vector<std::string> inputs) {
    inputs.push_back(options.logits_base);
    if (!options.logits_out.empty()) MOONLIT_RETURN_IF_ERROR(RefuseInputs(options.logits_out, inputs));
    if (!options.logits_base.empty()) {
      MOONLIT_ASSIGN_OR_RETURN(base_, LogitsReader::Open(options.logits_base, ids, options.window, vocab_));
    }
    if (!options.logits_out.empty()) {
      MOONLIT_ASSIGN_OR_RETURN(out_, LogitsWriter::Create(options.logits_out, ids, options.window, vocab_));
    }
    return Status();
  }
  Status FinishFiles() { return out_ ? out_->Finish() : Status(); }
  const Status& status() const { return status_; }  // the first fault of a file
  std::optional<DivergenceResult> divergence() const {
    return base_ ? std::optional(divergence_.Result()) : std::nullopt;
  }

  size_t count() const { return count_; }
  double Perplexity() const { return std::exp(sum_ / static_cast<double>(count_)); }
  bool finite() const { return std::isfinite(sum_); }
  double StandardError() const {
    const double n = static_cast<double>(count_);
    const double mean = sum_ / n;
    const double variance = squares_ / n - mean * mean;
    return count_ > 1 && variance > 0 ? Perplexity() * std::sqrt(variance / (n - 1)) : 0;
  }

 private:
  Status UseFiles(std::span<const float> row, int32_t next) {
    if (out_) MOONLIT_RETURN_IF_ERROR(out_->Append(row));
    if (!base_) return Status();
    MOONLIT_ASSIGN_OR_RETURN(const std::span<const float> base, base_->Next());
    divergence_.Add(row, base, next);
    return Status();
  }

  const size_t vocab_;
  std::span<const int32_t> targets_;
  double sum_ = 0;
  double squares_ = 0;
  size_t count_ = 0;
  std::optional<LogitsWriter> out_;
  std::optional<LogitsReader> base_;
  Divergence divergence_;
  Status status_;
};

Status Check(const Engine& engine, std::span<const int32_t> ids, size_t vocab, size_t window) {
  // Not one range: with a context of 3 it would be "4 to 3".
  if (window < kLeastWindow) {
    return Errorf(Code::kInvalidArgument, "perplexity: window is %zu, expected at least %zu", window, kLeastWindow);
  }
  if (window > engine.options().n_ctx) {
    return Errorf(Code::kInvalidArgument, "perplexity: window is %zu, expected at most %zu (n_ctx)", window,
                  engine.options().n_ctx);
  }
  if (ids.size() / 2 < window) {
    return Errorf(Code::kInvalidArgument,
                  "perplexity: the text has %zu tokens, expected at least %zu (two windows of %zu)", ids.size(),
                  2 * window, window);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < 0 || static_cast<size_t>(ids[i]) >= vocab) {
      return Errorf(Code::kInvalidArgument, "perplexity: token %zu is %d, expected 0 to %zu (the model's vocabulary)",
                    i, ids[i], vocab - 1);
    }
  }
  return Status();
}

// One window from an empty session. The last token predicts nothing that is counted, so it is not even read.
Status ReadWindow(Engine& engine, Session& session, std::span<const int32_t> window, const std::atomic<bool>* cancel,
                  std::vector<int32_t>& input, SurpriseSum& sum) {
  MOONLIT_RETURN_IF_ERROR(session.Truncate(0));
  input.assign(window.begin(), window.end() - 1);
  if (engine.tokenizer().add_bos()) input[0] = engine.tokenizer().special().bos;
  const size_t first = window.size() / 2;
  const std::span<const int32_t> all(input);
  MOONLIT_RETURN_IF_ERROR(engine.Prefill(session, all.first(first), Outputs::kNone, nullptr, cancel));
  sum.set_targets(window.subspan(first + 1));
  return engine.Prefill(session, all.subspan(first), Outputs::kAll, &sum, cancel);
}

}  // namespace

Result<PerplexityResult> MeasurePerplexity(Engine& engine, Session& session, std::span<const int32_t> ids,
                                           const PerplexityOptions& options) {
  const size_t vocab = engine.plan().vocab_size();
  MOONLIT_RETURN_IF_ERROR(Check(engine, ids, vocab, options.window));
  SurpriseSum sum(vocab);
  MOONLIT_RETURN_IF_ERROR(sum.OpenFiles(options, ids, engine.facts().files));
  std::vector<int32_t> input;
  const size_t windows = ids.size() / options.window;
  EmptyAfter empty(session);
  Status status;
  for (size_t w = 0; w < windows && status.ok(); ++w) {
    status = ReadWindow(engine, session, ids.subspan(w * options.window, options.window), options.cancel, input, sum);
    if (status.ok()) status = sum.status();
    if (!status.ok()) break;
    if (!sum.finite()) {
      status = Errorf(Code::kInternal,
                      "perplexity: window %zu has a logit that is not a number; the weights are damaged", w);
    } else if (options.progress && !options.progress(w + 1, windows, sum.Perplexity())) {
      status = Errorf(Code::kCancelled, "perplexity: cancelled after window %zu of %zu", w + 1, windows);
    }
  }
  const Status emptied = empty.Now();
  MOONLIT_RETURN_IF_ERROR(status);
  MOONLIT_RETURN_IF_ERROR(emptied);
  MOONLIT_RETURN_IF_ERROR(sum.FinishFiles());
  return PerplexityResult{sum.Perplexity(), sum.StandardError(), sum.count(), windows, sum.divergence()};
}

}  // namespace moonlit
