// SPDX-License-Identifier: Apache-2.0
// llama.cpp's flags that have no meaning here: scripts which were made for it go on working.
#pragma once

#include <string>

#include "tools/cli/command.h"

namespace moonlit::cli {

struct LlamaFlags {
  // The flags of llama-cli, taken and ignored; gives the note for --help that names them.
  std::string DeclareCli(CLI::App& app);
  // The same for llama-bench, whose -b and -fa are the command's own.
  std::string DeclareBench(CLI::App& app);

 private:
  void AddValues(CLI::App& app, const std::string& names);

  std::string value_;
  bool flag_ = false;
};

// An option whose value may be left out, llama.cpp's -fa: what follows is its value only if it is one, so no other flag is swallowed.
CLI::Option* AddFlashAttention(CLI::App& app, std::string* value);

}  // namespace moonlit::cli
