// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/sampler.h"

#include <string>
#include <utility>

namespace moonlit {

Result<Sampler> Sampler::Create(const SamplerOptions& o, std::optional<GrammarMask> grammar) {
  const auto build = [&]() -> Result<Sampler> {
    Sampler sampler(o.seed);
    if (grammar) MOONLIT_RETURN_IF_ERROR(sampler.Append(MakeGrammar(std::move(*grammar))));
    const PenaltyOptions penalties{.last_n = o.repeat_last_n, .repeat = o.repeat_penalty};
    StepResult cuts[] = {MakeTopK(o.top_k), MakeTopP(o.top_p), MakeMinP(o.min_p), MakeTemperature(o.temperature)};
    for (const StepResult& cut : cuts) MOONLIT_RETURN_IF_ERROR(cut.status());
    MOONLIT_RETURN_IF_ERROR(sampler.Append(MakePenalties(penalties)));
    if (o.temperature == 0) {
      MOONLIT_RETURN_IF_ERROR(sampler.Append(MakeGreedy()));
      return sampler;
    }
    for (StepResult& cut : cuts) MOONLIT_RETURN_IF_ERROR(sampler.Append(std::move(cut)));
    MOONLIT_RETURN_IF_ERROR(sampler.Append(MakeDraw()));
    return sampler;
  };
  Result<Sampler> made = build();
  if (!made.ok()) return made.status().WithContext("sampler");
  return made;
}

Status Sampler::CheckAppend() const {
  if (used_)
    return Status(Code::kInvalidArgument, "sampler: no step can be appended once a token was chosen or accepted");
  if (!steps_.empty() && steps_.back()->chooses())
    return Errorf(Code::kInvalidArgument, "sampler: %s chooses, so no step may follow it", steps_.back()->name());
  if (steps_.size() >= kMostSteps)
    return Errorf(Code::kInvalidArgument, "sampler: a chain has at most %zu steps", kMostSteps);
  return Status();
}

Status Sampler::Append(std::unique_ptr<SamplerStep> step) {
  MOONLIT_RETURN_IF_ERROR(CheckAppend());
  history_.KeepAtLeast(step->lookback());
  steps_.push_back(std::move(step));
  return Status();
}

Status Sampler::Append(StepResult step) {
  MOONLIT_RETURN_IF_ERROR(step.status());
  return Append(std::move(step).value());
}

Status Sampler::Where(size_t step, const Status& status) const {
  return status.WithContext("sampler: step " + std::to_string(step + 1) + " (" + steps_[step]->name() + ")");
}

Result<int32_t> Sampler::Next(std::span<const float> logits, const std::atomic<bool>* cancel) {
  if (steps_.empty() || !steps_.back()->chooses()) {
    return Status(Code::kInvalidArgument, "sampler: no step chooses: a chain ends with draw, greedy or mirostat");
  }
  if (logits.empty()) return Status(Code::kInvalidArgument, "sampler: there are no logits");
  MOONLIT_RETURN_IF_ERROR(Fill(logits, candidates_));
  Random random = random_;
  SamplerContext context{history_, random, logits.size(), cancel};
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (Status status = steps_[i]->Apply(context, candidates_); !status.ok()) return Where(i, status);
  }
  random_ = random;
  used_ = true;
  return candidates_.tokens.front().id;
}

void Sampler::Accept(int32_t id) {
  used_ = true;
  history_.Add(id);
  for (const auto& step : steps_) static_cast<void>(step->Accept(id, /*chosen=*/false));
}

Status Sampler::AcceptChosen(int32_t id) {
  used_ = true;
  for (size_t i = 0; i < steps_.size(); ++i) {
    if (Status status = steps_[i]->Accept(id, /*chosen=*/true); !status.ok()) return Where(i, status);
  }
  history_.Add(id);
  return Status();
}

bool Sampler::must_end() const {
  for (const auto& step : steps_) {
    if (step->must_end()) return true;
  }
  return false;
}

void Sampler::SetHistory(std::span<const int32_t> tokens) {
  used_ = true;
  history_.Clear();
  for (const int32_t id : tokens) history_.Add(id);
}

void Sampler::Reset(uint64_t seed) {
  used_ = false;
  history_.Clear();
  random_ = Random(seed);
  for (const auto& step : steps_) step->Reset();
}

Result<Sampler> Sampler::Clone() const {
  Sampler clone(0);
  for (size_t i = 0; i < steps_.size(); ++i) {
    StepResult step = steps_[i]->Clone();
    if (!step.ok()) return Where(i, step.status());
    clone.steps_.push_back(std::move(step).value());
  }
  clone.history_ = history_;
  clone.random_ = random_;
  clone.used_ = used_;
  return clone;
}

}  // namespace moonlit
