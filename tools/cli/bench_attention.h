// SPDX-License-Identifier: Apache-2.0
// `moonlit bench --attention`: the engine's fused attention over tokens, contexts, shapes and cache types, as shares of this
// machine's measured peaks, and beside it, in the same run, the naive version that stores its table of scores.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/cli/bench_measure.h"
#include "tools/cli/command.h"

namespace moonlit::cli {

class AttentionBench {
 public:
  // Its own options; they need `mode`, the flag --attention.
  void DeclareFlags(CLI::App& app, CLI::Option* mode);
  // threads: one pass over everything for each; types of keys and values: names, "" is the variant's default; output: md,
  // json or csv. Returns the exit code.
  int Run(const std::vector<uint32_t>& threads, const std::vector<std::string>& key_types,
          const std::vector<std::string>& value_types, const MeasureOptions& options, const std::string& output) const;

 private:
  std::vector<size_t> shape_{32, 8, 64};
  std::vector<size_t> contexts_{1000, 2000, 4000, 8000, 16000, 32000};
  std::vector<size_t> tokens_{1, 512};
  size_t naive_mib_ = 0;
  std::string plot_;
};

}  // namespace moonlit::cli
