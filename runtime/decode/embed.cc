// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/embed.h"

#include <cmath>

#include "runtime/decode/empty_after.h"

namespace moonlit {
namespace {

// Sums in double, tokens ascending.
class Pooled final : public LogitsConsumer {
 public:
  Pooled(Pooling pooling, size_t width) : pooling_(pooling), sums_(width) {}

  bool takes_hidden() const override { return true; }

  void Consume(size_t, size_t first_token, size_t rows, const float* hidden, size_t stride) override {
    for (size_t r = 0; r < rows; ++r, hidden += stride) {
      if (pooling_ == Pooling::kFirst && first_token + r > 0) return;
      if (pooling_ == Pooling::kLast) sums_.assign(sums_.size(), 0.0);
      for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += double{hidden[i]};
    }
  }

  std::vector<float> Take(size_t tokens, bool normalise) const {
    double scale = pooling_ == Pooling::kMean ? 1.0 / static_cast<double>(tokens) : 1.0;
    if (normalise) {
      double squares = 0;
      for (double sum : sums_) squares += sum * sum;
      if (squares > 0) scale = 1.0 / std::sqrt(squares);
    }
    std::vector<float> vector(sums_.size());
    for (size_t i = 0; i < vector.size(); ++i) vector[i] = static_cast<float>(sums_[i] * scale);
    return vector;
  }

 private:
  Pooling pooling_;
  std::vector<double> sums_;
};

// Piece by piece, so that the caller may cancel between them.
Status Read(Engine& engine, Session& session, std::span<const int32_t> tokens, Outputs outputs, Pooled& pooled,
            const EmbedOptions& options, std::atomic<bool>& cancel) {
  if (!options.progress) return engine.Prefill(session, tokens, outputs, &pooled, &cancel);
  const auto cancelled = [&](size_t done) {
    return Errorf(Code::kCancelled, "embed: cancelled after %zu of %zu tokens", done, tokens.size());
  };
  if (!options.progress(0, tokens.size())) return cancelled(0);
  size_t done = 0;
  bool refused = false;
  const auto progress = [&](size_t now) {
    done = now;
    refused = !options.progress(now, tokens.size());
    if (refused) cancel = true;
  };
  const Status status = engine.Prefill(session, tokens, outputs, &pooled, &cancel, progress);
  return refused ? cancelled(done) : status;
}

}  // namespace

Result<std::vector<float>> Embed(Engine& engine, std::span<const int32_t> tokens, const EmbedOptions& options,
                                 std::atomic<bool>* flag) {
  const Plan& plan = engine.plan();
  const Pooling pooling = options.pooling != Pooling::kUnknown ? options.pooling : plan.pooling();
  if (pooling == Pooling::kUnknown) {
    return Errorf(Code::kInvalidArgument,
                  "the model's file does not say how tokens become one vector (pooling_type); choose mean, first or "
                  "last");
  }
  std::atomic<bool> unset{false};
  std::atomic<bool>& cancel = flag != nullptr ? *flag : unset;
  Pooled pooled(pooling, plan.hidden_width());
  const Outputs outputs = pooling == Pooling::kLast ? Outputs::kLast : Outputs::kAll;
  if (options.session == nullptr) {
    MOONLIT_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, engine.NewSession());
    MOONLIT_RETURN_IF_ERROR(session->SetAdapters(options.adapters));
    MOONLIT_RETURN_IF_ERROR(Read(engine, *session, tokens, outputs, pooled, options, cancel));
  } else {
    if (options.session->length() != 0) {
      return Errorf(Code::kInvalidArgument, "embed: the session holds %lld tokens, expected none: truncate it to 0",
                    static_cast<long long>(options.session->length()));
    }
    EmptyAfter empty(*options.session);
    const Status read = Read(engine, *options.session, tokens, outputs, pooled, options, cancel);
    const Status emptied = empty.Now();
    MOONLIT_RETURN_IF_ERROR(read);
    MOONLIT_RETURN_IF_ERROR(emptied);
  }
  return pooled.Take(tokens.size(), options.normalise);
}

}  // namespace moonlit
