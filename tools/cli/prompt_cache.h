// SPDX-License-Identifier: Apache-2.0
// llama.cpp's --prompt-cache: a file that keeps what the model has read, so that the next run with the same beginning reads
// only the rest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/api/moonlit.hpp"
#include "tools/cli/command.h"

namespace moonlit::cli {

class PromptCache {
 public:
  void Declare(CLI::App& app);
  // The file that will be written; empty: none.
  std::string output() const { return read_only_ ? std::string() : path_; }
  bool used() const { return !path_.empty(); }
  // Puts what the file has of the prompt into the new session: *known tokens, fewer than all. No file: none. Reports on stderr
  // and gives the exit code, kOk when all is well.
  int Load(api::Session& session, std::span<const int32_t> prompt, size_t* known) const;
  // Writes the session back, without what came after the prompt unless --prompt-cache-all.
  int Save(api::Session& session, size_t prompt_tokens) const;

 private:
  std::string path_;
  bool all_ = false;
  bool read_only_ = false;
};

}  // namespace moonlit::cli
