// SPDX-License-Identifier: Apache-2.0
// The steps of the sampler, each a plain function on the list of tokens that are still possible. Probabilities in a
// step are the softmax of the logits that are left when it begins, in double precision. A step never empties the list.
//
// Order among tokens is by logit, the largest first, and by id among equals, so every cut is the same on every machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"

namespace moonlit {

struct Candidate {
  int32_t id;
  float logit;
};

struct Candidates {
  std::vector<Candidate> tokens;  // at least one after Fill
  bool sorted = false;            // in the order above
};

// All tokens of the vocabulary with a logit above -inf. kInternal names the first token whose logit is NaN or +inf, and
// a row without any finite logit. REQUIRES: logits are not empty.
Status Fill(std::span<const float> logits, Candidates& candidates);

// Every token in `recent` is penalised once, however often it occurs: its logit is divided by `penalty` if positive,
// else multiplied (Keskar et al. 2019, arXiv:1909.05858, with the correction for negative logits that everybody uses).
// Before any other step.
void Penalise(std::span<const int32_t> recent, float penalty, Candidates& candidates);

// The k first tokens. k = 0: all.
void KeepTopK(size_t k, Candidates& candidates);

// The shortest run of first tokens whose probabilities reach p (Holtzman et al. 2019, arXiv:1904.09751). p >= 1: all.
void KeepTopP(double p, Candidates& candidates);

// Tokens of at least p times the probability of the most likely one (Nguyen et al. 2024, arXiv:2407.01082). p <= 0:
// all.
void KeepMinP(double p, Candidates& candidates);

// The first token in the order above.
int32_t MostLikely(const Candidates& candidates);

// Draws by softmax(logit / temperature) with `uniform` in [0, 1): the first token, in the list's order, at which the
// cumulative weight exceeds uniform times the total. REQUIRES: temperature > 0.
int32_t Draw(double temperature, double uniform, const Candidates& candidates);

}  // namespace moonlit
