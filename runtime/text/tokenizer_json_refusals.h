// SPDX-License-Identifier: Apache-2.0
// Parts of a tokenizer.json that change ids and that a GGUF file has no key for (Hugging Face tokenizers 0.22, src/tokenizer/): a
// tokenizer without them would give other ids than the model was trained on, so such files are refused by the name of the part.
#pragma once

#include "runtime/base/status.h"
#include "runtime/json/json.h"

namespace moonlit::json_parts {

enum class JsonKind {
  kBytes,   // BPE over bytes
  kPieces,  // BPE over characters with byte fallback
  kWords    // WordPiece (bert)
};

// kUnsupported names the part: merges or pieces with another prefix or suffix than usual, dropout, a normalizer other than NFC (bytes),
// the meta space (pieces) or BERT's (words), a space put before the text (bytes), a pre-tokenizer (pieces; words: other than BERT's),
// added tokens that want whole words or normalized text, and what a post-processor puts in other places than one token before and
// after the text. kCorrupt: such a part of another kind.
Status RefuseForeignParts(const Json& tokenizer, JsonKind kind);

}  // namespace moonlit::json_parts
