// SPDX-License-Identifier: Apache-2.0
// The steps of the sampler that cut, scale and choose, each a plain function on the list of tokens that are still
// possible; those that change logits are in sampler_penalties.h. Probabilities in a step are the softmax of the logits
// that are left when it begins, over the temperature so far, in double precision. A step never empties the list.
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
  // What logits are divided by wherever they become probabilities; the logits themselves keep all their bits.
  double temperature = 1;
};

// All tokens of the vocabulary with a logit above -inf. kInternal names the first token whose logit is NaN or +inf, and
// a row without any finite logit. REQUIRES: logits are not empty.
Status Fill(std::span<const float> logits, Candidates& candidates);

// The k first tokens. k = 0: all.
void KeepTopK(size_t k, Candidates& candidates);

// The shortest run of first tokens whose probabilities reach p (Holtzman et al. 2019, arXiv:1904.09751). p >= 1: all.
void KeepTopP(double p, Candidates& candidates);

// Tokens of at least p times the probability of the most likely one (Nguyen et al. 2024, arXiv:2407.01082). p <= 0:
// all.
void KeepMinP(double p, Candidates& candidates);

// The tokens whose surprise, -log(probability), is nearest to its mean, the entropy: the shortest run in the order of that
// distance, and by id among equals, whose probabilities reach p (Meister et al. 2022, arXiv:2202.00666, "locally typical
// sampling"). p >= 1: all.
void KeepTypical(double p, Candidates& candidates);

// Removes all but the last of the tokens that have at least this probability ("exclude top choices": p-e-w 2024,
// text-generation-webui's pull request 6335; there is no paper).
void RemoveTopChoices(double threshold, Candidates& candidates);

// Tokens whose logit is at most n standard deviations (of the logits that are left) below the largest (Tang et al. 2024,
// arXiv:2411.07641). n <= 0: all. The one cut that no temperature moves.
void KeepTopNSigma(double n, Candidates& candidates);

// Multiplies the temperature. 0, or less than 1e-300 altogether: the most likely token only.
void Scale(double temperature, Candidates& candidates);

// least + (most - least) * (entropy / its maximum)^exponent: hot where the model does not know, cold where it does ("dynamic
// temperature": kalomaze 2023, llama.cpp's pull request 4972; there is no paper). Of a single token: most.
double DynamicTemperature(double least, double most, double exponent, const Candidates& candidates);

// Mirostat (Basu et al. 2020, arXiv:2007.14966) holds the surprise, -log2(probability), of what is drawn near a target tau: a cut
// by mu before the draw, then mu -= eta * (Surprise(drawn) - tau). mu begins at 2 tau.
// Version 2: tokens whose surprise is at most mu; at least the first.
void KeepUpToSurprise(double mu, Candidates& candidates);
// Version 1: top-k, with k by Zipf's law, whose exponent is estimated from the `kZipfTokens` first tokens. n_vocab: N in the paper.
inline constexpr size_t kZipfTokens = 100;
size_t ZipfTopK(double mu, size_t n_vocab, Candidates& candidates);  // at least 1; sorts
// REQUIRES: the token is in the list.
double Surprise(int32_t id, const Candidates& candidates);

// The first token in the order above.
int32_t MostLikely(const Candidates& candidates);

// Leaves this token alone. REQUIRES: it is in the list.
void KeepOnly(int32_t id, Candidates& candidates);

// Draws by softmax(logit / temperature) with `uniform` in [0, 1): the first token, in the list's order, at which the
// cumulative weight exceeds uniform times the total. REQUIRES: temperature > 0.
int32_t Draw(double temperature, double uniform, const Candidates& candidates);

}  // namespace moonlit
