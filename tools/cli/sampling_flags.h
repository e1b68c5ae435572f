// SPDX-License-Identifier: Apache-2.0
// How tokens are chosen: the flags of every command that generates, by llama.cpp's names.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/api/moonlit.hpp"
#include "tools/cli/command.h"

namespace moonlit::cli {

struct SamplingFlags {
  int64_t seed = -1;

  void Declare(CLI::App& app);
  // The chain that the flags mean, behind the grammar if there is one; without --seed with a random seed, which `seed` then is. escapes: \n and the like in
  // --dry-sequence-breaker are read as what they stand for. Reports on stderr and gives the exit code.
  int Make(const api::Model& model, const std::optional<api::Grammar>& grammar, bool escapes,
           std::optional<api::Sampler>* sampler);
  // The choice hangs on the seed.
  bool draws() const { return fields_.temperature > 0; }

 private:
  void DeclarePenalties(CLI::App& app);
  void DeclareCuts(CLI::App& app);
  std::vector<moonlit_sampler_kind> Kinds() const;

  moonlit_sampler_step fields_ = api::Sampler::Step(MOONLIT_SAMPLER_DRAW);  // of all kinds
  std::string order_ = "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature";
  int mirostat_ = 0;
  float top_n_sigma_ = -1;
  std::vector<moonlit_token_logit> biases_;
  std::vector<std::string> breakers_;  // given ones
};

}  // namespace moonlit::cli
