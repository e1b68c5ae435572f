// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/sampling_flags.h"

#include <random>

#include "tools/cli/model_flags.h"

namespace moonlit::cli {

void SamplingFlags::Declare(CLI::App& app, moonlit_generate_options* options) {
  app.add_option("--temp,--temperature", options->temperature, "Temperature; 0: always the most likely token")
      ->capture_default_str()
      ->check(IsNumberIn(0, 100));
  app.add_option("--top-k", options->top_k, "Keep the K most likely tokens; 0: all")
      ->capture_default_str()
      ->check(CLI::Range(0, INT32_MAX));
  app.add_option("--top-p", options->top_p, "Keep the most likely tokens up to this probability; 1: all")
      ->capture_default_str()
      ->check(IsNumberIn(0, 1));
  app.add_option("--min-p", options->min_p,
                 "Keep tokens with at least this share of the best one's probability; 0: all")
      ->capture_default_str()
      ->check(IsNumberIn(0, 1));
  app.add_option("--repeat-penalty", options->repeat_penalty, "Penalty for tokens seen lately; 1: off")
      ->capture_default_str()
      ->check(IsNumberIn(0.01, 100));
  app.add_option("--repeat-last-n", options->repeat_last_n, "How far the penalty looks back")
      ->capture_default_str()
      ->check(CLI::Range(0u, 1000000u));
  app.add_option("--seed", seed, "Seed of the sampling; -1: a random one, which the last line tells")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{-1}, INT64_MAX));
}

void SamplingFlags::Seed(moonlit_generate_options* options) {
  if (seed < 0) {
    std::random_device random;
    seed = static_cast<int64_t>((uint64_t{random()} << 32 | random()) >> 1);
  }
  options->seed = static_cast<uint64_t>(seed);
}

}  // namespace moonlit::cli
