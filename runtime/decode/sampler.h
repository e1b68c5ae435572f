// SPDX-License-Identifier: Apache-2.0
// From logits to the next token: a chain of steps (sampler_chain.h) in the caller's order, or by Create in that of llama.cpp's
// default chain: repeat penalty, top-k, top-p, min-p, temperature, draw.
//
//   MOONLIT_ASSIGN_OR_RETURN(Sampler sampler, Sampler::Create({.temperature = 0.8f, .seed = 42}));
//   for (int32_t id : prompt) sampler.Accept(id);
//   MOONLIT_ASSIGN_OR_RETURN(int32_t id, sampler.Next(logits));
//   MOONLIT_RETURN_IF_ERROR(sampler.AcceptChosen(id));
//
// The same steps, logits, seed and history give the same token on every machine (up to the last bit of the C library's exp, log
// and pow, which matters when a random number or a bound meets the edge of an interval). Random numbers come from one generator, one
// each for XTC and for the step that draws, in the chain's order; a step that is off takes none. One thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/decode/random.h"
#include "runtime/decode/sampler_chain.h"
#include "runtime/decode/sampler_steps.h"
#include "runtime/decode/token_history.h"

namespace moonlit {

// Whatever chooses tokens: the sampler, or a script in tests.
class TokenChooser {
 public:
  virtual ~TokenChooser() = default;
  // logits: [n_vocab]. On an error nothing has changed. kCancelled: *cancel, which may be null, became true meanwhile.
  virtual Result<int32_t> Next(std::span<const float> logits, const std::atomic<bool>* cancel) = 0;
  // What stands before the prompt, in place of all that was accepted before.
  virtual void SetHistory(std::span<const int32_t> /*tokens*/) {}
  // A token that the text now has, which was there before the choosing began: of the prompt.
  virtual void Accept(int32_t id) = 0;
  // A token that the text now has, as one of the generated ones. An error: a step that follows the text (a grammar) does not go on with
  // it, and knows the place no longer.
  virtual Status AcceptChosen(int32_t id) {
    Accept(id);
    return Status();
  }
  // The generated text is complete: nothing may follow.
  virtual bool must_end() const { return false; }
};

struct SamplerOptions {
  float temperature = 0.8f;     // 0 .. 100; 0: the most likely token, the lowest id among equals
  int32_t top_k = 40;           // 0 .. 2^31 - 1; 0: off
  float top_p = 0.95f;          // 0 .. 1; 1: off, 0: the most likely token only
  float min_p = 0.05f;          // 0 .. 1; 0: off
  float repeat_penalty = 1.0f;  // 0.01 .. 100; 1: off
  uint32_t repeat_last_n = 64;  // 0 .. 1000000 tokens that the penalty looks back at; 0: off
  uint64_t seed = 0;
};

class Sampler final : public TokenChooser {
 public:
  static constexpr size_t kMostSteps = 64;

  // An empty chain.
  explicit Sampler(uint64_t seed) : random_(seed) { steps_.reserve(kMostSteps); }
  // The default chain, behind the grammar if there is one; with temperature 0 the most likely token, without the cuts. kInvalidArgument
  // names the first field that is out of its range (NaN is), with value and range.
  static Result<Sampler> Create(const SamplerOptions& options, std::optional<GrammarMask> grammar = std::nullopt);

  // kInvalidArgument: the chain has chosen or accepted a token already, its last step chooses, or it has kMostSteps.
  Status Append(std::unique_ptr<SamplerStep> step);
  Status Append(StepResult step);
  Status CheckAppend() const;  // what Append would say of any step
  size_t steps() const { return steps_.size(); }

  // Errors of a step name its number and its name. kInvalidArgument: no step chooses. kInternal: see Fill.
  Result<int32_t> Next(std::span<const float> logits, const std::atomic<bool>* cancel) override;
  Result<int32_t> Next(std::span<const float> logits) { return Next(logits, nullptr); }
  void Accept(int32_t id) override;
  Status AcceptChosen(int32_t id) override;
  bool must_end() const override;

  // The history becomes these tokens; what steps know otherwise stays.
  void SetHistory(std::span<const int32_t> tokens) override;
  // As it was before the first token, with this seed.
  void Reset(uint64_t seed);
  // The same chain in the same state. kUnsupported: a step can't be copied.
  Result<Sampler> Clone() const;

 private:
  Status Where(size_t step, const Status& status) const;
  std::vector<std::unique_ptr<SamplerStep>> steps_;
  TokenHistory history_;
  Random random_;
  Candidates candidates_;
  bool used_ = false;
};

}  // namespace moonlit
