// SPDX-License-Identifier: Apache-2.0
// What a model's name means: a path, or a bare name that is looked up in the folder of models.
#pragma once

#include <string>

#include "runtime/base/status.h"

namespace moonlit {

// The folder in which bare names are looked up, which need not exist: $MOONLIT_MODELS, else $XDG_DATA_HOME/moonlit/models, else
// $HOME/.local/share/moonlit/models; "" when the environment has none of them. (XDG Base Directory Specification 0.8: a relative
// XDG_DATA_HOME counts as none.) Reads the environment: don't change it in another thread meanwhile.
std::string ModelsFolder();

// The path that `name` stands for: itself when it has a '/' or there is a file or folder of this name, else NAME.gguf (or NAME, if it
// ends in .gguf) in ModelsFolder(). kNotFound says which places were looked at. "poet" is not known here: runtime/api/load.h.
Result<std::string> FindModel(const std::string& name);

}  // namespace moonlit
