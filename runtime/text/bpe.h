// SPDX-License-Identifier: Apache-2.0
// Byte pair encoding by a list of merges (Gage 1994; Sennrich et al. 2016), GGUF kinds "gpt2" (tokens spelt in GPT-2's
// alphabet of 256 printable characters, one a byte) and "gemma4" (plain UTF-8 with U+2581 for the space and byte
// tokens).
#pragma once

#include <memory>

#include "runtime/text/tokenizer.h"

namespace moonlit {

// Takes what it needs out of *data.
Result<std::unique_ptr<Tokenizer>> CreateBytePairTokenizer(TokenizerData* data);

}  // namespace moonlit
