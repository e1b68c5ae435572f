// SPDX-License-Identifier: Apache-2.0
// Fields of tokenizer.json that may be absent or of another kind, and what its pre_tokenizer is called in GGUF.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "nlohmann/json.hpp"
#include "runtime/base/status.h"

namespace moonlit::json_parts {

// Null when there is no such field, or no object.
const nlohmann::json& Field(const nlohmann::json& object, const char* name);
// Empty when there is no such text.
std::string Text(const nlohmann::json& object, const char* name);
bool Flag(const nlohmann::json& object, const char* name, bool otherwise);
// A step, or each of those of a "Sequence", which has them under `list`. Sequences inside of sequences are walked too, to a depth
// of four.
void ForEachStep(const nlohmann::json& step, const char* list, const std::function<void(const nlohmann::json&)>& visit);

struct PreTokenizerName {
  std::string name;                    // of pretokenizers.inc
  std::optional<bool> normalizer_nfc;  // where the normalizer is not the one that the name implies
};
// kUnsupported: the patterns are none of those that are known, or ignore_merges is another than theirs.
Result<PreTokenizerName> FindPreTokenizer(const nlohmann::json& tokenizer, std::string_view architecture);

}  // namespace moonlit::json_parts
