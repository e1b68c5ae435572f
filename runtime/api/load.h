// SPDX-License-Identifier: Apache-2.0
// From a path to what the engine needs: opens the file, builds the graph and the tokenizer. The C interface and the tools that look
// below it start here.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/decode/engine.h"
#include "runtime/text/tokenizer.h"

namespace moonlit {

// `path`: a GGUF file (any part of a split set), a name in the folder of models (find_model.h), or "poet" for the model that Moonlit
// carries. Weights are read later, by make_plan.
Result<LoadedModel> OpenModel(const std::string& path);

// The tokenizer alone; a file without tensors will do.
Result<std::unique_ptr<const Tokenizer>> OpenTokenizer(const std::string& path);

}  // namespace moonlit
