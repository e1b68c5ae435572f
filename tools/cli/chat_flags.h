// SPDX-License-Identifier: Apache-2.0
// A conversation that a user gives: the flags of its template, and its tokens.
#pragma once

#include <string>
#include <vector>

#include "runtime/api/moonlit.hpp"
#include "tools/cli/command.h"

namespace moonlit::cli {

struct ChatFlags {
  bool chat = false;
  std::string system;
  std::string template_file;
  std::string variables;

  // `always`: the command does nothing but chat; otherwise --chat asks for it.
  void Declare(CLI::App& app, bool always);
  // Reads --chat-template. Reports on stderr and gives the exit code.
  int Prepare();
  // --system, if it was given.
  std::vector<api::ChatMessage> Beginning() const;
  // Tokens of the messages and what begins an answer. Reports on stderr and gives the exit code.
  int Tokenize(const api::Model& model, const std::vector<api::ChatMessage>& messages, std::vector<int32_t>* ids) const;

 private:
  std::string template_;  // of the file; empty: the model's own
};

}  // namespace moonlit::cli
