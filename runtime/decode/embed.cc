// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/embed.h"

#include <cmath>

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

}  // namespace

Result<std::vector<float>> Embed(Engine& engine, std::span<const int32_t> tokens, const EmbedOptions& options,
                                 const std::atomic<bool>* abort) {
  const Plan& plan = engine.plan();
  const Pooling pooling = options.pooling != Pooling::kUnknown ? options.pooling : plan.pooling();
  if (pooling == Pooling::kUnknown) {
    return Errorf(Code::kInvalidArgument,
                  "the model's file does not say how tokens become one vector (pooling_type); choose mean, first or "
                  "last");
  }
  MOONLIT_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session, engine.NewSession());
  MOONLIT_RETURN_IF_ERROR(session->SetAdapters(options.adapters));
  Pooled pooled(pooling, plan.hidden_width());
  const Outputs outputs = pooling == Pooling::kLast ? Outputs::kLast : Outputs::kAll;
  MOONLIT_RETURN_IF_ERROR(engine.Prefill(*session, tokens, outputs, &pooled, abort));
  return pooled.Take(tokens.size(), options.normalise);
}

}  // namespace moonlit
