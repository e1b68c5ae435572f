// SPDX-License-Identifier: Apache-2.0
// Runs a command and keeps what it said. Under a cross build the command is started through the emulator that CMake was given.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace moonlit::test {

struct Outcome {
  int exit_code = -1;  // 128 + signal when a signal ended it
  std::string out, err;
};

struct RunOptions {
  std::string input;  // standard input
  // Standard input is a terminal of its own, on which `input` is typed; it has no end but one that is typed (\x04).
  bool input_from_terminal = false;
  std::vector<std::string> environment;  // "NAME=value" added to ours
  // SIGINT is sent so many times, each when the first byte of a line has come on stdout.
  int interrupts = 0;
  // SIGINT is sent once, when stderr has this text.
  std::string interrupt_at_error;
  // `signal` is sent once, as soon as this says so; it is asked again and again.
  std::function<bool()> signal_when = {};
  int signal = 0;
  std::vector<int> ignored;        // signals that the command finds ignored
  size_t most_file_bytes = 0;      // a limit of file sizes (RLIMIT_FSIZE); 0: none
  std::string output_to;           // a file that gets stdout instead
  bool error_to_terminal = false;  // stderr is a terminal of its own, with its line ends
};

// `arguments` without the program: that is MOONLIT_BINARY of this build.
Outcome RunMoonlit(const std::vector<std::string>& arguments, const RunOptions& options = {});

}  // namespace moonlit::test
