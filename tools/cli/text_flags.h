// SPDX-License-Identifier: Apache-2.0
// Text that a user gives: as a flag, in a file or on standard input.
#pragma once

#include <string>

#include "tools/cli/command.h"

namespace moonlit::cli {

// -p TEXT, -f FILE ("-": standard input), else standard input when it is no terminal. Read reports on stderr and gives the
// exit code, kOk with the text.
struct TextFlags {
  std::string prompt;
  std::string file;
  CLI::Option* prompt_option = nullptr;
  CLI::Option* file_option = nullptr;
  void Declare(CLI::App& app);
  int Read(std::string* text) const;
  // kOk, unless the command would write `out` over the text's file; reports on stderr.
  int CheckOutput(const std::string& out) const;

 private:
  bool from_stdin() const { return file_option->count() == 0 || file == "-"; }
};

// Text that a model goes on from: as people write it, so that every command makes the same tokens of the same flags. From a file or
// standard input without the newline at its end; -p with its escapes read, unless --no-escape.
struct PromptFlags {
  TextFlags text;
  bool escape = true;
  // escaped: the flags that -e is about, for --help.
  void Declare(CLI::App& app, const std::string& escaped);
  int Read(std::string* prompt) const;
};

// A whole file. Reports on stderr and gives the exit code.
int ReadTextFile(const std::string& file, std::string* text);

// Backslash and n, r, t, \, ', " or xHH become what they stand for; anything else stays as it is.
void ReadEscapes(std::string& text);

}  // namespace moonlit::cli
