// SPDX-License-Identifier: Apache-2.0
// From a path to what the engine needs: opens the file, builds the graph and the tokenizer. The C interface and the tools that look
// below it start here.
#pragma once

#include <memory>
#include <string>

#include "runtime/api/metadata_texts.h"
#include "runtime/base/status.h"
#include "runtime/decode/engine.h"
#include "runtime/text/tokenizer.h"

namespace moonlit {

struct LoadOptions {
  std::string
      quantize;  // a type of runtime/convert/file_type.h that float weights get while they are packed; empty: none
  std::string pre_tokenizer;  // overrides what the file names; empty: no override
};

// `path`: a GGUF file (any part of a split set), a Hugging Face folder, a name in the folder of models (find_model.h), or "poet" for
// the model that Moonlit carries. Weights are read later, by make_plan. *metadata (may be null) becomes what the file, or the first of a
// set, says, or what a folder's files are taken to say.
Result<LoadedModel> OpenModel(const std::string& path, const LoadOptions& options = {},
                              MetadataTexts* metadata = nullptr);

// The same for Engine::Measure: without a tokenizer, and without reading a weight, so without an identity.
Result<LoadedModel> OpenLayout(const std::string& path, const LoadOptions& options = {});

// The tokenizer alone; a file without tensors will do. *metadata as above; of a folder, what its tokenizer is made of.
Result<std::unique_ptr<const Tokenizer>> OpenTokenizer(const std::string& path, const LoadOptions& options = {},
                                                       MetadataTexts* metadata = nullptr);

}  // namespace moonlit
