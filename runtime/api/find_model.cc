// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/find_model.h"

#include <sys/stat.h>

#include <cstdlib>

namespace moonlit {
namespace {

constexpr char kSuffix[] = ".gguf";
// The one that tools/models brings.
constexpr char kFetched[] = "smollm2";

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool Exists(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0;
}

}  // namespace

std::string ModelsFolder() {
  if (const std::string chosen = Variable("MOONLIT_MODELS"); !chosen.empty()) return chosen;
  if (const std::string data = Variable("XDG_DATA_HOME"); data.starts_with('/')) return data + "/moonlit/models";
  const std::string home = Variable("HOME");
  return home.empty() ? std::string() : home + "/.local/share/moonlit/models";
}

Result<std::string> FindModel(const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos || Exists(name)) return name;
  const std::string folder = ModelsFolder();
  if (folder.empty()) {
    return Errorf(
        Code::kNotFound,
        "model %s: there is no such file, and no folder to look for the name in: give a path to a GGUF file, or "
        "set MOONLIT_MODELS",
        name.c_str());
  }
  const std::string path = folder + "/" + name + (name.ends_with(kSuffix) ? "" : kSuffix);
  if (Exists(path)) return path;
  return Errorf(Code::kNotFound, "model %s: there is no such file, and no %s: %s (MOONLIT_MODELS names another folder)",
                name.c_str(), path.c_str(),
                name == kFetched ? "tools/models/fetch_smollm2.py brings it"
                                 : "give a path to a GGUF file, or put the file there");
}

}  // namespace moonlit
