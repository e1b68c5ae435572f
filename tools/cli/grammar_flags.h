// SPDX-License-Identifier: Apache-2.0
// A grammar or a JSON schema that the generated text has to follow.
#pragma once

#include <optional>
#include <string>

#include "runtime/api/moonlit.hpp"
#include "tools/cli/command.h"

namespace moonlit::cli {

struct GrammarFlags {
  void Declare(CLI::App& app);
  // Empty where none was given. Reports on stderr and gives the exit code.
  int Make(const api::Model& model, std::optional<api::Grammar>* grammar) const;

 private:
  std::string text_, file_, schema_, schema_file_;
};

}  // namespace moonlit::cli
