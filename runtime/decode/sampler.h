// SPDX-License-Identifier: Apache-2.0
// From logits to the next token. The steps (sampler_steps.h) run in the order of llama.cpp's default chain: repeat
// penalty, top-k, top-p, min-p, temperature, draw.
//
//   MOONLIT_ASSIGN_OR_RETURN(Sampler sampler, Sampler::Create({.temperature = 0.8f, .seed = 42}));
//   for (int32_t id : prompt) sampler.Accept(id);
//   MOONLIT_ASSIGN_OR_RETURN(int32_t id, sampler.Next(logits));
//   sampler.Accept(id);
//
// The same logits, options, seed and history give the same token on every machine (up to the last bit of the C
// library's exp, which matters when a random number meets the edge of an interval). One thread at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/decode/random.h"
#include "runtime/decode/sampler_penalties.h"
#include "runtime/decode/sampler_steps.h"

namespace moonlit {

// Whatever chooses tokens: the sampler, or a script in tests.
class TokenChooser {
 public:
  virtual ~TokenChooser() = default;
  // logits: [n_vocab]. On an error nothing has changed.
  virtual Result<int32_t> Next(std::span<const float> logits) = 0;
  // A token that the text now has: of the prompt, or chosen.
  virtual void Accept(int32_t id) = 0;
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

// kInvalidArgument names the first field that is out of its range (NaN is), with value and range.
Status CheckSamplerOptions(const SamplerOptions& options);

class Sampler final : public TokenChooser {
 public:
  static Result<Sampler> Create(const SamplerOptions& options);
  Result<int32_t> Next(std::span<const float> logits) override;
  void Accept(int32_t id) override;

 private:
  explicit Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {}
  SamplerOptions options_;
  Random random_;
  Candidates candidates_;
  std::vector<int32_t> recent_;  // ring of the last repeat_last_n ids, in no order that matters
  size_t next_recent_ = 0;
};

}  // namespace moonlit
