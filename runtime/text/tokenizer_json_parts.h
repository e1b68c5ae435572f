// SPDX-License-Identifier: Apache-2.0
// Fields of tokenizer.json that may be absent or of another kind, and what its pre_tokenizer is called in GGUF.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/json/json.h"

namespace moonlit::json_parts {

// Empty when there is no such text.
std::string Text(const Json& object, const char* name);
bool Flag(const Json& object, const char* name, bool otherwise);
// A step, or each of those of a "Sequence", which has them under `list`. Sequences inside of sequences are walked too, to a depth
// of four.
void ForEachStep(const Json& step, const char* list, const std::function<void(const Json&)>& visit);

struct PreTokenizerName {
  std::string name;                    // of pretokenizers.inc
  std::optional<bool> normalizer_nfc;  // where the normalizer is not the one that the name implies
};
// kUnsupported: the patterns are none of those that are known, or ignore_merges is another than theirs.
Result<PreTokenizerName> FindPreTokenizer(const Json& tokenizer, std::string_view architecture);

}  // namespace moonlit::json_parts
