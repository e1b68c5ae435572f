// SPDX-License-Identifier: Apache-2.0
// Parts of a tokenizer.json that change ids and that a GGUF file has no key for (Hugging Face tokenizers 0.22, src/tokenizer/): a
// tokenizer without them would give other ids than the model was trained on, so such files are refused by the name of the part.
#pragma once

#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace moonlit::json_parts {

// `pieces`: BPE over characters with byte fallback, else over bytes. kUnsupported names the part: merges with a prefix or a suffix,
// dropout, a normalizer other than NFC (bytes) or the meta space (pieces), a space put before the text (bytes), a pre-tokenizer
// (pieces), added tokens that want whole words or normalized text, and what a post-processor puts in other places than one token
// before and after the text. kCorrupt: such a part of another kind.
Status RefuseForeignParts(const nlohmann::json& tokenizer, bool pieces);

}  // namespace moonlit::json_parts
