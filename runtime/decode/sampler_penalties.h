// SPDX-License-Identifier: Apache-2.0
// The steps of the sampler that change logits: biases, and penalties for what the text has said already. Where a temperature
// came before, they act on the logits divided by it. What would leave the range of a float stays at its end, so that no token
// becomes certain or impossible by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/decode/sampler_steps.h"

namespace moonlit {

struct LogitBias {
  int32_t id;
  float bias;  // finite, or -inf: never this token
};

// Adds the biases; those of one token add up. kInvalidArgument: they forbid every token that is left, and none is taken out.
Status AddBiases(std::span<const LogitBias> by_id, Candidates& candidates);  // by_id: ascending

// Every token in `recent` is penalised once, however often it occurs: its logit is divided by `penalty` if positive,
// else multiplied (Keskar et al. 2019, arXiv:1909.05858, with the correction for negative logits that everybody uses).
void Penalise(std::span<const int32_t> recent, float penalty, Candidates& candidates);

// Subtracts `frequency` as often as the token occurs in `recent`, and `presence` if it does at all (OpenAI's API reference,
// "frequency_penalty" and "presence_penalty"; there is no paper). Negative ones favour repetition.
void PenaliseFrequency(std::span<const int32_t> recent, double frequency, double presence, Candidates& candidates);

// DRY, "don't repeat yourself" (p-e-w 2024, text-generation-webui's pull request 5677; there is no paper): a token that would go on
// with a repetition loses multiplier * base^(n - allowed_length), n being how many tokens before it the text has said alike, if they
// are at least allowed_length. The text is `recent`; of a token that stands in several such places the longest counts.
struct DryPenalty {
  double multiplier = 0;          // 0: off
  double base = 1.75;             // at least 1
  size_t allowed_length = 2;      // repetitions of fewer tokens are free
  size_t most_length = SIZE_MAX;  // longer ones count as that long: see TokensSinceBreaker
};
// exempt(id): tokens that are never penalised, since a breaker is in them.
void PenaliseRepetition(std::span<const int32_t> recent, const DryPenalty& dry,
                        const std::function<bool(int32_t)>& exempt, Candidates& candidates);

// How many tokens stand behind the last one in which a breaker ends; all if there is none. A breaker may begin in an earlier token:
// it is looked for in the text, whatever tokens that consists of. bytes(id): a token's text.
size_t TokensSinceBreaker(std::span<const int32_t> recent, std::span<const std::string> breakers,
                          const std::function<std::string_view(int32_t)>& bytes);

}  // namespace moonlit
