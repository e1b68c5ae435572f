// SPDX-License-Identifier: Apache-2.0
// `moonlit bench --sessions` and `--cancel`: what an application with several sessions of one model gets, each on a thread of its own,
// and how soon a prefill ends that is cancelled.
#pragma once

#include <cstdint>
#include <vector>

#include "tools/cli/bench_table.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/model_flags.h"

namespace moonlit::cli {

class SessionBench {
 public:
  // Its own options.
  void DeclareFlags(CLI::App& app);
  bool chosen() const { return !sessions_.empty() || cancels_ != 0; }
  // Most sessions at once.
  uint32_t most_sessions() const;

  // How long a prompt, and how many tokens each session then generates.
  struct Test {
    size_t n_prompt, n_gen;
  };
  // Adds rows for one model as it is loaded; `flags`: with room for the tests. Returns the exit code.
  int Measure(const ModelFlags& flags, const std::vector<Test>& tests, int repetitions, bool warm_up,
              InterruptGuard* guard);
  // To stdout what has been measured.
  void Print(const std::string& format) const;

 private:
  struct Model;
  api::Error MeasureSessions(Model& model, const Test& test, int repetitions, bool warm_up);
  api::Error MeasureCancels(Model& model, size_t n_prompt);

  std::vector<uint32_t> sessions_;
  uint32_t cancels_ = 0;
  std::vector<nlohmann::ordered_json> session_rows_, cancel_rows_;
};

}  // namespace moonlit::cli
