// SPDX-License-Identifier: Apache-2.0
// The links of a sampler's chain: each wraps a function of sampler_steps.h or sampler_penalties.h with its checked options, and the
// state that some have.
//
//   Sampler sampler(/*seed=*/42);
//   MOONLIT_ASSIGN_OR_RETURN(auto top_k, MakeTopK(40));
//   MOONLIT_RETURN_IF_ERROR(sampler.Append(std::move(top_k)));
//   MOONLIT_RETURN_IF_ERROR(sampler.Append(MakeDraw()));
//
// Makers return kInvalidArgument with the field, its value and its range; NaN is in none.
#pragma once

#include <cstddef>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/decode/random.h"
#include "runtime/decode/sampler_penalties.h"
#include "runtime/decode/sampler_steps.h"
#include "runtime/decode/token_history.h"
#include "runtime/text/grammar_mask.h"

namespace moonlit {

// What a step may look at beside the candidates, and the chain's one generator: a step that draws says so.
struct SamplerContext {
  const TokenHistory& history;
  Random& random;
  size_t n_vocab;
  const std::atomic<bool>* cancel = nullptr;  // a step that takes long looks at it, and ends with kCancelled
};

class SamplerStep {
 public:
  virtual ~SamplerStep() = default;
  virtual const char* name() const = 0;
  // Leaves at least one candidate, and adds none; on an error the chain stops.
  virtual Status Apply(SamplerContext& context, Candidates& candidates) = 0;
  // Leaves exactly one candidate, so nothing may follow.
  virtual bool chooses() const { return false; }
  // Tokens of the history that it looks at.
  virtual size_t lookback() const { return 0; }
  // A token that the text now has; `chosen`: of the generated part.
  virtual Status Accept(int32_t /*id*/, bool /*chosen*/) { return Status(); }
  // The generated text is complete: nothing may follow.
  virtual bool must_end() const { return false; }
  // As it was before the first token.
  virtual void Reset() {}
  // With its state. kUnsupported: it can't be copied.
  virtual Result<std::unique_ptr<SamplerStep>> Clone() const = 0;
};
using StepResult = Result<std::unique_ptr<SamplerStep>>;

inline constexpr uint32_t kMostRecent = 1000000;  // of every step that looks back

// Ids below n_vocab; -inf: never this token; NaN and +inf are refused.
StepResult MakeLogitBias(std::vector<LogitBias> biases, size_t n_vocab);

struct PenaltyOptions {
  uint32_t last_n = 64;    // 0 .. kMostRecent tokens that are looked back at; 0: off
  float repeat = 1.0f;     // 0.01 .. 100; 1: off
  float frequency = 0.0f;  // -100 .. 100; 0: off
  float presence = 0.0f;   // -100 .. 100; 0: off
};
StepResult MakePenalties(const PenaltyOptions& options);

inline constexpr size_t kMostBreakers = 256, kMostBreakerBytes = 1024;
struct DryOptions {
  float multiplier = 0.0f;      // 0 .. 100; 0: off
  float base = 1.75f;           // 1 .. 100
  uint32_t allowed_length = 2;  // 0 .. kMostRecent
  uint32_t last_n = 4096;       // 0 .. kMostRecent; 0: off
  // What a repetition never spans: at most kMostBreakers texts of 1 to kMostBreakerBytes bytes.
  std::vector<std::string> breakers = {};
};
// The tokenizer (null: breakers match nothing) has to outlive the step.
StepResult MakeDry(const DryOptions& options, const Tokenizer* tokenizer);

StepResult MakeTopK(int32_t k);     // 0 .. 2^31 - 1; 0: off
StepResult MakeTopP(float p);       // 0 .. 1; 1: off, 0: the most likely token only
StepResult MakeMinP(float p);       // 0 .. 1; 0: off
StepResult MakeTypical(float p);    // 0 .. 1; 1: off
StepResult MakeTopNSigma(float n);  // 0 .. 100; 0: off
// With this probability (0 .. 1; 0: off) RemoveTopChoices(threshold: 0 .. 1; above 0.5 there never are two: off). Draws one number
// each time, unless it is off.
StepResult MakeXtc(float probability, float threshold);
// temperature: 0 .. 100; 0: the most likely token, whatever the rest. range: 0 .. 100; 0: off; else the temperature is
// DynamicTemperature from temperature - range (at least 0) to temperature + range. exponent: 0 .. 100.
StepResult MakeTemperature(float temperature, float range = 0.0f, float exponent = 1.0f);
StepResult MakeGrammar(
    GrammarMask grammar);  // at the beginning of a text; kUnsupported: no token that is left may come next

// Steps that choose.
std::unique_ptr<SamplerStep> MakeGreedy();                   // the most likely token; draws no number
std::unique_ptr<SamplerStep> MakeDraw();                     // draws one number
StepResult MakeMirostat(int version, float tau, float eta);  // 1 or 2; tau: 0 .. 100, eta: 0 .. 1; draws one number

}  // namespace moonlit
