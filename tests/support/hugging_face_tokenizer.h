// SPDX-License-Identifier: Apache-2.0
// The tokenizer of a golden GGUF model as tokenizer.json and tokenizer_config.json, a part of hugging_face_folder.h.
#pragma once

#include <string>

#include "runtime/gguf/gguf.h"

namespace moonlit {

// Fails the program when something can't be read or written.
void WriteHuggingFaceTokenizer(const GgufFile& file, const std::string& folder);

}  // namespace moonlit
