// SPDX-License-Identifier: Apache-2.0
// `moonlit inspect MODEL --plan`: what the model would take of the memory, whether that is free, and the largest context that fits.
#pragma once

#include <cstdint>
#include <string>

#include "tools/cli/command.h"
#include "tools/cli/model_flags.h"

namespace moonlit::cli {

class MemoryPlanFlags {
 public:
  void Declare(CLI::App& app);
  bool wanted() const { return wanted_; }
  // Prints the plan. kFailed when there is less memory than it takes.
  int Run(const std::string& model);

 private:
  bool wanted_ = false;
  ModelFlags flags_;
  uint32_t sessions_ = 1;
};

}  // namespace moonlit::cli
