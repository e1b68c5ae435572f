// SPDX-License-Identifier: Apache-2.0
// A subcommand of `moonlit`: one file each, one line in commands.inc. A command declares its flags on its CLI::App and runs
// when it was chosen. Text results go to stdout, everything else to stderr.
#pragma once

#include <CLI/CLI.hpp>

namespace moonlit::cli {

// Exit codes of every command.
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;         // it ran and did not succeed
inline constexpr int kUsage = 2;          // bad flags, or a model that is not supported
inline constexpr int kInterrupted = 130;  // Ctrl-C

class Command {
 public:
  virtual ~Command() = default;
  virtual void DeclareFlags(CLI::App& app) = 0;
  virtual int Run() = 0;
};

}  // namespace moonlit::cli
