// SPDX-License-Identifier: Apache-2.0
// `moonlit bench --kernels`: every product kernel over formats, shapes and rows, as shares of this machine's measured peaks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/cli/bench_measure.h"
#include "tools/cli/command.h"

namespace moonlit::cli {

class KernelBench {
 public:
  // Its own options; they need `mode`, the flag --kernels.
  void DeclareFlags(CLI::App& app, CLI::Option* mode);
  // threads: one pass over everything for each; output: md, json or csv. Returns the exit code.
  int Run(const std::vector<uint32_t>& threads, const MeasureOptions& options, const std::string& output) const;

 private:
  std::vector<std::string> formats_;  // empty: all
  std::vector<std::string> shapes_{"2048x2048", "8192x2048", "2048x8192"};
  std::vector<std::string> float_providers_;  // empty: the engine's choice
  std::vector<size_t> rows_{1, 2, 4, 8, 16, 64, 512};
};

}  // namespace moonlit::cli
