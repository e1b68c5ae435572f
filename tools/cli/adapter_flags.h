// SPDX-License-Identifier: Apache-2.0
// --lora, for the commands that run a model.
#pragma once

#include <string>
#include <vector>

#include "runtime/api/moonlit.hpp"
#include "tools/cli/command.h"

namespace moonlit::cli {

// "FILE" or "FILE:SCALE"; a file whose name has a colon is taken whole where it exists.
struct ScaledFile {
  std::string path;
  float scale = 1;
};
ScaledFile ParseScaledFile(const std::string& text);

// What the flags name, loaded.
struct ScaledAdapters {
  std::vector<api::Adapter> adapters;
  std::vector<const moonlit_adapter*> handles;
  std::vector<float> scales;
};

class AdapterFlags {
 public:
  void Declare(CLI::App& app);
  // Reports failure; gives the exit code.
  int Load(const api::Model& model, ScaledAdapters* loaded) const;
  // Loads the adapters and gives them to the session, before it has read anything. Reports failure; gives the exit code.
  int Apply(const api::Model& model, api::Session& session) const;

 private:
  std::vector<std::string> files_;
};

}  // namespace moonlit::cli
