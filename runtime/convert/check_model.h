// SPDX-License-Identifier: Apache-2.0
// What loading asks of a model before any weight is read. Conversion asks the same before it writes, so that no file is written
// which loading would refuse.
#pragma once

#include <memory>
#include <string>

#include "models/registry.h"
#include "runtime/base/status.h"
#include "runtime/text/tokenizer.h"
#include "runtime/weights/metadata.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

struct CheckedModel {
  LoadedGraph loaded;
  std::unique_ptr<const Tokenizer> tokenizer;
};

// `pre`: a pre-tokenizer's name that overrides what the metadata say; empty: none. Logs a warning for tensors that nothing uses and
// for what the tokenizer leaves open. Errors: of LoadGraph, ReadTokenizerData and Tokenizer::Create; kCorrupt for more tokens than
// the embedding has rows.
Result<CheckedModel> CheckModel(const Metadata& metadata, const WeightSource& source, const std::string& pre);

// The tokenizer alone. `file` names the model in messages.
Result<std::unique_ptr<const Tokenizer>> CheckTokenizer(const Metadata& metadata, const std::string& file,
                                                        const std::string& pre);

}  // namespace moonlit
