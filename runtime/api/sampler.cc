// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/api/grammar_handle.h"
#include "runtime/api/handles.h"
#include "runtime/api/sampler_handle.h"
#include "runtime/decode/sampler_chain.h"

namespace moonlit::api {
namespace {

// An application's step.
class CustomStep final : public SamplerStep {
 public:
  explicit CustomStep(const moonlit_sampler_step& calls) : calls_(calls) {}
  ~CustomStep() override {
    if (calls_.free_user != nullptr) calls_.free_user(calls_.user);
  }
  CustomStep(const CustomStep&) = delete;
  CustomStep& operator=(const CustomStep&) = delete;

  const char* name() const override { return "custom"; }
  Status Apply(SamplerContext& context, Candidates& candidates) override {
    Lend(context.n_vocab, candidates);
    const size_t kept = calls_.apply(calls_.user, tokens_.data(), tokens_.size());
    if (kept == 0) return Status(Code::kCancelled, "it has kept no token");
    if (kept > tokens_.size()) {
      return Errorf(Code::kInvalidArgument, "it keeps %zu tokens of %zu", kept, tokens_.size());
    }
    return TakeBack(kept, candidates);
  }
  Status Accept(int32_t id, bool) override {
    if (calls_.accept != nullptr) calls_.accept(calls_.user, id);
    return Status();
  }
  void Reset() override {
    if (calls_.reset != nullptr) calls_.reset(calls_.user);
  }
  StepResult Clone() const override {
    if (calls_.clone == nullptr && calls_.free_user != nullptr)
      return Status(Code::kUnsupported, "it has a free_user function, but none that clones");
    // Memory that may end is taken before there is a user who would have to be freed.
    moonlit_sampler_step calls = calls_;
    calls.free_user = nullptr;
    auto clone = std::make_unique<CustomStep>(calls);
    if (calls_.clone != nullptr) {
      clone->calls_.user = calls_.clone(calls_.user);
      if (clone->calls_.user == nullptr) return Status(Code::kOutOfMemory, "its clone function gives NULL");
      clone->calls_.free_user = calls_.free_user;
    }
    return std::unique_ptr<SamplerStep>(std::move(clone));
  }

 private:
  static constexpr float kMost = std::numeric_limits<float>::max();

  void Lend(size_t n_vocab, const Candidates& candidates) {
    lent_.assign(n_vocab, false);
    tokens_.clear();
    for (const Candidate& c : candidates.tokens) {
      lent_[static_cast<size_t>(c.id)] = true;
      const double logit = double{c.logit} / candidates.temperature;
      tokens_.push_back({c.id, static_cast<float>(std::clamp(logit, -double{kMost}, double{kMost}))});
    }
  }
  // Each of the tokens must be one that was lent, and once.
  Status TakeBack(size_t kept, Candidates& candidates) {
    candidates.tokens.clear();
    for (size_t i = 0; i < kept; ++i) {
      const auto [id, logit] = tokens_[i];
      if (id < 0 || static_cast<size_t>(id) >= lent_.size() || !lent_[static_cast<size_t>(id)])
        return Errorf(Code::kInvalidArgument, "it gives token %d, which it did not get or has given already", id);
      lent_[static_cast<size_t>(id)] = false;
      if (!(logit <= kMost)) {
        return Errorf(Code::kInvalidArgument, "it gives token %d the logit %g, expected a finite number or -inf", id,
                      double{logit});
      }
      if (logit >= -kMost) candidates.tokens.push_back({id, logit});
    }
    candidates.sorted = false;
    candidates.temperature = 1;
    return candidates.tokens.empty() ? Status(Code::kCancelled, "it has kept no token") : Status();
  }

  moonlit_sampler_step calls_;
  std::vector<moonlit_token_logit> tokens_;
  std::vector<bool> lent_;  // [n_vocab]
};

size_t VocabOf(const moonlit_model& model) {
  return model.engine ? model.engine->facts().n_vocab : static_cast<size_t>(model.tokenizer().vocab_size());
}

// -1: the model's context; of a model without one, all that a step may look back at.
Result<uint32_t> LastN(const char* name, int32_t given, const moonlit_model& model) {
  if (given >= 0) return static_cast<uint32_t>(given);
  if (given < -1)
    return Errorf(Code::kInvalidArgument, "%s is %d, expected -1 (the context) to %u", name, given, kMostRecent);
  const size_t context = model.engine ? model.engine->options().n_ctx : kMostRecent;
  return static_cast<uint32_t>(std::min<size_t>(context, kMostRecent));
}

StepResult MakeLogitBiases(const moonlit_sampler_step& from, const moonlit_model& model) {
  // Counts that can't be meant are refused before anything is read.
  const size_t n_vocab = VocabOf(model);
  if (from.bias_count > n_vocab) {
    return Errorf(Code::kInvalidArgument, "bias_count is %zu, expected at most %zu, the model's tokens",
                  from.bias_count, n_vocab);
  }
  if (from.biases == nullptr && from.bias_count > 0)
    return Errorf(Code::kInvalidArgument, "biases is NULL, but bias_count %zu", from.bias_count);
  std::vector<LogitBias> biases;
  for (size_t i = 0; i < from.bias_count; ++i) biases.push_back({from.biases[i].id, from.biases[i].logit});
  return MakeLogitBias(std::move(biases), n_vocab);
}

StepResult MakePenaltiesOf(const moonlit_sampler_step& from, const moonlit_model& model) {
  PenaltyOptions options;
  MOONLIT_ASSIGN_OR_RETURN(options.last_n, LastN("penalty_last_n", from.penalty_last_n, model));
  options.repeat = from.repeat_penalty;
  options.frequency = from.frequency_penalty;
  options.presence = from.presence_penalty;
  return MakePenalties(options);
}

StepResult MakeDryOf(const moonlit_sampler_step& from, const moonlit_model& model) {
  DryOptions options;
  MOONLIT_ASSIGN_OR_RETURN(options.last_n, LastN("dry_last_n", from.dry_last_n, model));
  options.multiplier = from.dry_multiplier;
  options.base = from.dry_base;
  if (from.dry_allowed_length < 0) {
    return Errorf(Code::kInvalidArgument, "dry_allowed_length is %d, expected 0 to %u", from.dry_allowed_length,
                  kMostRecent);
  }
  options.allowed_length = static_cast<uint32_t>(from.dry_allowed_length);
  if (from.dry_breaker_count > kMostBreakers) {
    return Errorf(Code::kInvalidArgument, "dry_breaker_count is %zu, expected at most %zu", from.dry_breaker_count,
                  kMostBreakers);
  }
  for (size_t i = 0; i < from.dry_breaker_count; ++i) {
    if (from.dry_breakers == nullptr || from.dry_breakers[i] == nullptr)
      return Errorf(Code::kInvalidArgument, "dry_breakers[%zu] is NULL", i);
    options.breakers.emplace_back(from.dry_breakers[i]);
  }
  return MakeDry(options, &model.tokenizer());
}

StepResult MakeGrammarOf(const moonlit_sampler_step& from, const moonlit_model& model) {
  if (from.grammar == nullptr) return Status(Code::kInvalidArgument, "grammar is NULL");
  MOONLIT_ASSIGN_OR_RETURN(auto mask, NewMask(from.grammar, model.tokenizer()));
  return MakeGrammar(std::move(*mask));
}

struct NamedStep {
  const char* name;
  StepResult step;
};

NamedStep MakeStep(const moonlit_sampler_step& from, const moonlit_model& model) {
  switch (from.kind) {
    case MOONLIT_SAMPLER_LOGIT_BIAS:
      return {"logit-bias", MakeLogitBiases(from, model)};
    case MOONLIT_SAMPLER_PENALTIES:
      return {"penalties", MakePenaltiesOf(from, model)};
    case MOONLIT_SAMPLER_DRY:
      return {"dry", MakeDryOf(from, model)};
    case MOONLIT_SAMPLER_TOP_K:
      return {"top-k", MakeTopK(from.top_k)};
    case MOONLIT_SAMPLER_TOP_P:
      return {"top-p", MakeTopP(from.top_p)};
    case MOONLIT_SAMPLER_MIN_P:
      return {"min-p", MakeMinP(from.min_p)};
    case MOONLIT_SAMPLER_TYPICAL:
      return {"typical", MakeTypical(from.typical_p)};
    case MOONLIT_SAMPLER_XTC:
      return {"xtc", MakeXtc(from.xtc_probability, from.xtc_threshold)};
    case MOONLIT_SAMPLER_TOP_N_SIGMA:
      return {"top-n-sigma", MakeTopNSigma(from.top_n_sigma)};
    case MOONLIT_SAMPLER_TEMPERATURE:
      return {"temperature", MakeTemperature(from.temperature, from.dynatemp_range, from.dynatemp_exponent)};
    case MOONLIT_SAMPLER_GRAMMAR:
      return {"grammar", MakeGrammarOf(from, model)};
    case MOONLIT_SAMPLER_GREEDY:
      return {"greedy", MakeGreedy()};
    case MOONLIT_SAMPLER_DRAW:
      return {"draw", MakeDraw()};
    case MOONLIT_SAMPLER_MIROSTAT:
    case MOONLIT_SAMPLER_MIROSTAT_V2:
      return {"mirostat",
              MakeMirostat(from.kind == MOONLIT_SAMPLER_MIROSTAT ? 1 : 2, from.mirostat_tau, from.mirostat_eta)};
    case MOONLIT_SAMPLER_CUSTOM:
      if (from.apply == nullptr) return {"custom", Status(Code::kInvalidArgument, "apply is NULL")};
      return {"custom", std::unique_ptr<SamplerStep>(std::make_unique<CustomStep>(from))};
    default:
      return {"?", Errorf(Code::kInvalidArgument, "kind is %d, expected one of moonlit_sampler_kind", from.kind)};
  }
}

}  // namespace
}  // namespace moonlit::api

using moonlit::Code;
using moonlit::Errorf;
using moonlit::Status;
using moonlit::api::CheckArray;
using moonlit::api::Guard;
using moonlit::api::NotNull;

extern "C" {

void moonlit_sampler_step_init(moonlit_sampler_step* step, size_t size) {
  static const char* const kBreakers[] = {"\n", ":", "\"", "*"};
  const moonlit::SamplerOptions plain;
  const moonlit::DryOptions dry;
  moonlit_sampler_step defaults = {};
  defaults.penalty_last_n = static_cast<int32_t>(plain.repeat_last_n);
  defaults.repeat_penalty = plain.repeat_penalty;
  defaults.dry_base = dry.base;
  defaults.dry_allowed_length = static_cast<int32_t>(dry.allowed_length);
  defaults.dry_last_n = -1;
  defaults.dry_breakers = kBreakers;
  defaults.dry_breaker_count = std::size(kBreakers);
  defaults.top_k = plain.top_k;
  defaults.top_p = plain.top_p;
  defaults.min_p = plain.min_p;
  defaults.typical_p = 1.0f;
  defaults.xtc_threshold = 0.1f;
  defaults.temperature = plain.temperature;
  defaults.dynatemp_exponent = 1.0f;
  defaults.mirostat_tau = 5.0f;
  defaults.mirostat_eta = 0.1f;
  moonlit::api::WriteSized(defaults, size, step);
}

moonlit_code moonlit_sampler_new(const moonlit_model* model, uint64_t seed, moonlit_sampler** sampler,
                                 moonlit_error* error) {
  return Guard(model, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(sampler, "sampler"));
    *sampler = new moonlit_sampler(model, moonlit::Sampler(seed));
    return Status();
  });
}

void moonlit_sampler_free(moonlit_sampler* sampler) { delete sampler; }

moonlit_code moonlit_sampler_append(moonlit_sampler* sampler, const moonlit_sampler_step* given, moonlit_error* error) {
  return Guard(sampler, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(given, "step"));
    MOONLIT_ASSIGN_OR_RETURN(const moonlit_sampler_step from,
                             moonlit::api::ReadSized(given, "moonlit_sampler_step", moonlit_sampler_step_init));
    const size_t number = sampler->chain.steps() + 1;
    MOONLIT_RETURN_IF_ERROR(sampler->chain.CheckAppend());
    auto [name, step] = moonlit::api::MakeStep(from, *sampler->model);
    if (step.ok()) return sampler->chain.Append(std::move(step));
    return step.status().WithContext("sampler: step " + std::to_string(number) + " (" + name + ")");
  });
}

moonlit_code moonlit_sampler_apply(moonlit_sampler* sampler, const float* logits, size_t n_vocab, int32_t* id,
                                   moonlit_error* error) {
  return Guard(sampler, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(logits, "logits"));
    MOONLIT_RETURN_IF_ERROR(NotNull(id, "id"));
    const size_t expected = moonlit::api::VocabOf(*sampler->model);
    if (n_vocab != expected)
      return Errorf(Code::kInvalidArgument, "sampler: there are %zu logits, the model has %zu tokens", n_vocab,
                    expected);
    MOONLIT_ASSIGN_OR_RETURN(*id, sampler->chain.Next({logits, n_vocab}, sampler->turn.cancelled()));
    return Status();
  });
}

void moonlit_sampler_cancel(moonlit_sampler* sampler) {
  if (sampler != nullptr) sampler->turn.Cancel();
}

moonlit_code moonlit_sampler_accept(moonlit_sampler* sampler, int32_t id, moonlit_error* error) {
  return Guard(sampler, error, [&]() -> Status {
    const size_t n_vocab = moonlit::api::VocabOf(*sampler->model);
    if (id < 0 || static_cast<size_t>(id) >= n_vocab)
      return Errorf(Code::kInvalidArgument, "sampler: token %d: the vocabulary has tokens 0 to %zu", id, n_vocab - 1);
    return sampler->chain.AcceptChosen(id);
  });
}

moonlit_code moonlit_sampler_accept_prompt(moonlit_sampler* sampler, const int32_t* ids, size_t count,
                                           moonlit_error* error) {
  return Guard(sampler, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(CheckArray(ids, count, "ids"));
    const size_t n_vocab = moonlit::api::VocabOf(*sampler->model);
    for (size_t i = 0; i < count; ++i) {
      if (ids[i] < MOONLIT_EMBEDDING_ROW || (ids[i] >= 0 && static_cast<size_t>(ids[i]) >= n_vocab)) {
        return Errorf(Code::kInvalidArgument, "sampler: token %d at place %zu: the vocabulary has tokens 0 to %zu",
                      ids[i], i, n_vocab - 1);
      }
    }
    for (size_t i = 0; i < count; ++i) sampler->chain.Accept(ids[i]);
    return Status();
  });
}

moonlit_code moonlit_sampler_reset(moonlit_sampler* sampler, uint64_t seed, moonlit_error* error) {
  return Guard(sampler, error, [&]() -> Status {
    sampler->chain.Reset(seed);
    return Status();
  });
}

moonlit_code moonlit_sampler_clone(moonlit_sampler* sampler, moonlit_sampler** clone, moonlit_error* error) {
  return Guard(sampler, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(clone, "clone"));
    MOONLIT_ASSIGN_OR_RETURN(moonlit::Sampler chain, sampler->chain.Clone());
    *clone = new moonlit_sampler(sampler->model, std::move(chain));
    return Status();
  });
}

}  // extern "C"
