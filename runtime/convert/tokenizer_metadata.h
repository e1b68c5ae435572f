// SPDX-License-Identifier: Apache-2.0
// From a file's metadata to what a tokenizer is made of. Here, because only this room sees both runtime/weights and runtime/text.
#pragma once

#include "runtime/base/status.h"
#include "runtime/text/tokenizer_data.h"
#include "runtime/weights/metadata.h"

namespace moonlit {

// kNotFound when the file has no tokenizer; kCorrupt (naming the key) when a key has another type than the format says.
Result<TokenizerData> ReadTokenizerData(const Metadata& metadata);

}  // namespace moonlit
