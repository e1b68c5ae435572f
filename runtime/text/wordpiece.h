// SPDX-License-Identifier: Apache-2.0
// WordPiece, GGUF kind "bert" (Devlin et al. 2019): text is lower-cased and stripped of accents as the file says, cut
// at white space, punctuation and Chinese characters, and each word is covered from the left by the longest tokens; a
// word that can't be covered is one unknown token. Tokens that begin a word carry U+2581 in front (the converter turned
// "##" around).
#pragma once

#include <memory>

#include "runtime/text/tokenizer.h"

namespace moonlit {

// Takes what it needs out of *data.
Result<std::unique_ptr<Tokenizer>> CreateWordPieceTokenizer(TokenizerData* data);

}  // namespace moonlit
