// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/sampler_chain.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/text/tokenizer.h"

namespace moonlit {
namespace {

// Written so that NaN is out of every range.
Status CheckRange(const char* name, float value, float least, float most) {
  if (value >= least && value <= most) return Status();
  return Errorf(Code::kInvalidArgument, "%s is %g, expected %g to %g", name, double{value}, double{least},
                double{most});
}

Status CheckLastN(const char* name, uint32_t value) {
  if (value <= kMostRecent) return Status();
  return Errorf(Code::kInvalidArgument, "%s is %u, expected 0 (off) to %u", name, value, kMostRecent);
}

// A step without a state: a function, and how far it looks back.
template <typename Function>
class PlainStep final : public SamplerStep {
 public:
  PlainStep(const char* name, size_t lookback, bool chooses, Function function)
      : name_(name), lookback_(lookback), chooses_(chooses), function_(std::move(function)) {}
  const char* name() const override { return name_; }
  size_t lookback() const override { return lookback_; }
  bool chooses() const override { return chooses_; }
  Status Apply(SamplerContext& context, Candidates& candidates) override { return function_(context, candidates); }
  StepResult Clone() const override { return std::unique_ptr<SamplerStep>(std::make_unique<PlainStep>(*this)); }

 private:
  const char* name_;
  size_t lookback_;
  bool chooses_;
  Function function_;
};

template <typename Function>
std::unique_ptr<SamplerStep> LookBack(const char* name, size_t lookback, Function function) {
  return std::make_unique<PlainStep<Function>>(name, lookback, false, std::move(function));
}

// function(candidates): cannot fail, and looks at nothing else.
template <typename Function>
std::unique_ptr<SamplerStep> Cut(const char* name, Function function) {
  return LookBack(name, 0, [function](SamplerContext&, Candidates& candidates) {
    function(candidates);
    return Status();
  });
}

template <typename Function>
std::unique_ptr<SamplerStep> Choose(const char* name, Function choose) {
  auto step = [choose](SamplerContext& context, Candidates& candidates) {
    KeepOnly(choose(context, candidates), candidates);
    return Status();
  };
  return std::make_unique<PlainStep<decltype(step)>>(name, 0, true, std::move(step));
}

class GrammarStep final : public SamplerStep {
 public:
  explicit GrammarStep(GrammarMask mask) : start_(mask), now_(std::move(mask)) {}
  const char* name() const override { return "grammar"; }
  Status Apply(SamplerContext& context, Candidates& candidates) override {
    MOONLIT_ASSIGN_OR_RETURN(const GrammarMask::Allowed* allowed, now_.Next(context.cancel));
    const auto forbidden = [&](const Candidate& c) { return !allowed->Has(c.id); };
    if (std::all_of(candidates.tokens.begin(), candidates.tokens.end(), forbidden)) {
      return Status(Code::kUnsupported, "no token that is left goes on as the grammar asks here, or ends the text");
    }
    std::erase_if(candidates.tokens, forbidden);
    return Status();
  }
  Status Accept(int32_t id, bool chosen) override { return chosen ? now_.Accept(id) : Status(); }
  bool must_end() const override { return now_.must_end(); }
  void Reset() override { now_ = start_; }
  StepResult Clone() const override { return std::unique_ptr<SamplerStep>(std::make_unique<GrammarStep>(*this)); }

 private:
  GrammarMask start_, now_;
};

class MirostatStep final : public SamplerStep {
 public:
  MirostatStep(int version, double tau, double eta) : version_(version), tau_(tau), eta_(eta), mu_(2 * tau) {}
  const char* name() const override { return "mirostat"; }
  bool chooses() const override { return true; }
  Status Apply(SamplerContext& context, Candidates& candidates) override {
    if (version_ == 1) {
      KeepTopK(ZipfTopK(mu_, context.n_vocab, candidates), candidates);
    } else {
      KeepUpToSurprise(mu_, candidates);
    }
    const int32_t id = Draw(candidates.temperature, context.random.NextUniform(), candidates);
    mu_ -= eta_ * (Surprise(id, candidates) - tau_);
    KeepOnly(id, candidates);
    return Status();
  }
  void Reset() override { mu_ = 2 * tau_; }
  StepResult Clone() const override { return std::unique_ptr<SamplerStep>(std::make_unique<MirostatStep>(*this)); }

 private:
  int version_;
  double tau_, eta_, mu_;
};

}  // namespace

StepResult MakeLogitBias(std::vector<LogitBias> biases, size_t n_vocab) {
  for (const LogitBias& bias : biases) {
    if (bias.id < 0 || static_cast<size_t>(bias.id) >= n_vocab)
      return Errorf(Code::kInvalidArgument, "bias of token %d: the vocabulary has tokens 0 to %zu", bias.id,
                    n_vocab - 1);
    if (std::isnan(bias.bias) || bias.bias > std::numeric_limits<float>::max()) {
      return Errorf(Code::kInvalidArgument, "bias of token %d is %g, expected a finite number, or -inf for never",
                    bias.id, double{bias.bias});
    }
  }
  std::stable_sort(biases.begin(), biases.end(), [](const LogitBias& a, const LogitBias& b) { return a.id < b.id; });
  return LookBack("logit-bias", 0, [biases = std::move(biases)](SamplerContext&, Candidates& candidates) {
    return AddBiases(biases, candidates);
  });
}

StepResult MakePenalties(const PenaltyOptions& o) {
  MOONLIT_RETURN_IF_ERROR(CheckLastN("repeat_last_n", o.last_n));
  MOONLIT_RETURN_IF_ERROR(CheckRange("repeat_penalty", o.repeat, 0.01f, 100));
  MOONLIT_RETURN_IF_ERROR(CheckRange("frequency_penalty", o.frequency, -100, 100));
  MOONLIT_RETURN_IF_ERROR(CheckRange("presence_penalty", o.presence, -100, 100));
  const bool off = o.repeat == 1.0f && o.frequency == 0.0f && o.presence == 0.0f;
  return LookBack("penalties", off ? 0 : o.last_n, [o](SamplerContext& context, Candidates& candidates) {
    const std::span<const int32_t> recent = context.history.Last(o.last_n);
    Penalise(recent, o.repeat, candidates);
    PenaliseFrequency(recent, double{o.frequency}, double{o.presence}, candidates);
    return Status();
  });
}

StepResult MakeDry(const DryOptions& o, const Tokenizer* tokenizer) {
  MOONLIT_RETURN_IF_ERROR(CheckRange("dry_multiplier", o.multiplier, 0, 100));
  MOONLIT_RETURN_IF_ERROR(CheckRange("dry_base", o.base, 1, 100));
  MOONLIT_RETURN_IF_ERROR(CheckLastN("dry_last_n", o.last_n));
  if (o.allowed_length > kMostRecent) {
    return Errorf(Code::kInvalidArgument, "dry_allowed_length is %u, expected 0 to %u", o.allowed_length, kMostRecent);
  }
  if (o.breakers.size() > kMostBreakers) {
    return Errorf(Code::kInvalidArgument, "there are %zu dry_breakers, expected at most %zu", o.breakers.size(),
                  kMostBreakers);
  }
  for (size_t i = 0; i < o.breakers.size(); ++i) {
    if (!o.breakers[i].empty() && o.breakers[i].size() <= kMostBreakerBytes) continue;
    return Errorf(Code::kInvalidArgument, "dry_breakers[%zu] has %zu bytes, expected 1 to %zu", i, o.breakers[i].size(),
                  kMostBreakerBytes);
  }
  const size_t lookback = o.multiplier == 0.0f ? 0 : o.last_n;
  return LookBack("dry", lookback, [o, tokenizer](SamplerContext& context, Candidates& candidates) {
    if (o.multiplier == 0.0f) return Status();
    // Control tokens as they are written: they make good breakers.
    const auto bytes = [&](int32_t id) {
      const bool known = tokenizer != nullptr && id >= 0 && id < tokenizer->vocab_size();
      return known ? tokenizer->TokenBytes(id, /*show_special=*/true) : std::string_view();
    };
    const auto exempt = [&](int32_t id) {
      return std::any_of(o.breakers.begin(), o.breakers.end(),
                         [&](const std::string& breaker) { return bytes(id).find(breaker) != std::string_view::npos; });
    };
    const std::span<const int32_t> recent = context.history.Last(o.last_n);
    const DryPenalty dry{double{o.multiplier}, double{o.base}, o.allowed_length,
                         TokensSinceBreaker(recent, o.breakers, bytes)};
    PenaliseRepetition(recent, dry, exempt, candidates);
    return Status();
  });
}

StepResult MakeTopK(int32_t k) {
  if (k < 0) return Errorf(Code::kInvalidArgument, "top_k is %d, expected 0 (off) to %d", k, INT32_MAX);
  return Cut("top-k", [k](Candidates& candidates) { KeepTopK(static_cast<size_t>(k), candidates); });
}

StepResult MakeTopP(float p) {
  MOONLIT_RETURN_IF_ERROR(CheckRange("top_p", p, 0, 1));
  return Cut("top-p", [p](Candidates& candidates) { KeepTopP(double{p}, candidates); });
}

StepResult MakeMinP(float p) {
  MOONLIT_RETURN_IF_ERROR(CheckRange("min_p", p, 0, 1));
  return Cut("min-p", [p](Candidates& candidates) { KeepMinP(double{p}, candidates); });
}

StepResult MakeTypical(float p) {
  MOONLIT_RETURN_IF_ERROR(CheckRange("typical_p", p, 0, 1));
  return Cut("typical", [p](Candidates& candidates) { KeepTypical(double{p}, candidates); });
}

StepResult MakeTopNSigma(float n) {
  MOONLIT_RETURN_IF_ERROR(CheckRange("top_n_sigma", n, 0, 100));
  return Cut("top-n-sigma", [n](Candidates& candidates) { KeepTopNSigma(double{n}, candidates); });
}

StepResult MakeXtc(float probability, float threshold) {
  MOONLIT_RETURN_IF_ERROR(CheckRange("xtc_probability", probability, 0, 1));
  MOONLIT_RETURN_IF_ERROR(CheckRange("xtc_threshold", threshold, 0, 1));
  const bool off = probability == 0.0f || threshold > 0.5f;
  return LookBack("xtc", 0, [=](SamplerContext& context, Candidates& candidates) {
    if (!off && context.random.NextUniform() < double{probability}) RemoveTopChoices(double{threshold}, candidates);
    return Status();
  });
}

StepResult MakeTemperature(float temperature, float range, float exponent) {
  MOONLIT_RETURN_IF_ERROR(CheckRange("temperature", temperature, 0, 100));
  MOONLIT_RETURN_IF_ERROR(CheckRange("dynatemp_range", range, 0, 100));
  MOONLIT_RETURN_IF_ERROR(CheckRange("dynatemp_exponent", exponent, 0, 100));
  return Cut("temperature", [=](Candidates& candidates) {
    double now = double{temperature};
    if (range > 0 && temperature > 0) {
      now = DynamicTemperature(std::max(0.0, now - double{range}), now + double{range}, double{exponent}, candidates);
    }
    Scale(now, candidates);
  });
}

StepResult MakeGrammar(GrammarMask grammar) {
  return std::unique_ptr<SamplerStep>(std::make_unique<GrammarStep>(std::move(grammar)));
}

std::unique_ptr<SamplerStep> MakeGreedy() {
  return Choose("greedy", [](SamplerContext&, Candidates& candidates) { return MostLikely(candidates); });
}

std::unique_ptr<SamplerStep> MakeDraw() {
  return Choose("draw", [](SamplerContext& context, Candidates& candidates) {
    return Draw(candidates.temperature, context.random.NextUniform(), candidates);
  });
}

StepResult MakeMirostat(int version, float tau, float eta) {
  if (version != 1 && version != 2)
    return Errorf(Code::kInvalidArgument, "the version is %d, expected 1 or 2", version);
  MOONLIT_RETURN_IF_ERROR(CheckRange("mirostat_tau", tau, 0, 100));
  MOONLIT_RETURN_IF_ERROR(CheckRange("mirostat_eta", eta, 0, 1));
  return std::unique_ptr<SamplerStep>(std::make_unique<MirostatStep>(version, double{tau}, double{eta}));
}

}  // namespace moonlit
