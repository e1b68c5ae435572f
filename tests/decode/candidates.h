// SPDX-License-Identifier: Apache-2.0
// Lists of tokens as the tests of the sampler write them.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "runtime/decode/sampler_steps.h"

namespace moonlit {

inline std::vector<float> Logs(const std::vector<double>& probabilities) {
  std::vector<float> logits;
  for (double p : probabilities) logits.push_back(static_cast<float>(std::log(p)));
  return logits;
}

inline std::vector<int32_t> IdsOf(const Candidates& candidates) {
  std::vector<int32_t> ids;
  for (const Candidate& c : candidates.tokens) ids.push_back(c.id);
  return ids;
}

}  // namespace moonlit
