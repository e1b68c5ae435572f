// SPDX-License-Identifier: Apache-2.0
// The flags of the commands that write model files, and how they run and report.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "runtime/api/moonlit.hpp"
#include "tools/cli/command.h"

namespace moonlit::cli {

struct WriteFlags {
  std::string type;
  std::string imatrix;
  uint32_t threads = 0;
  bool pure = false;

  void Declare(CLI::App& app);
  moonlit_write_options ToOptions() const;
};

// Calls write(options, result, error) with a progress line and Ctrl-C, prints what was written to `out`, gives the exit code.
using WriteCall = std::function<moonlit_code(const moonlit_write_options*, moonlit_write_result*, moonlit_error*)>;
int RunWrite(const char* what, const std::string& out, moonlit_write_options options, const WriteCall& write);

}  // namespace moonlit::cli
