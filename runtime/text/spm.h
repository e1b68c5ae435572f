// SPDX-License-Identifier: Apache-2.0
// SentencePiece BPE, GGUF kind "llama": characters are merged pairwise, the pair whose merged token has the best score
// first, the leftmost of equals; what is no token falls back to one token a byte. (Kudo & Richardson 2018; merge order
// as in llama.cpp.)
#pragma once

#include <memory>

#include "runtime/text/tokenizer.h"

namespace moonlit {

// Takes what it needs out of *data.
Result<std::unique_ptr<Tokenizer>> CreateSentencePieceTokenizer(TokenizerData* data);

}  // namespace moonlit
