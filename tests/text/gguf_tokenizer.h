// SPDX-License-Identifier: Apache-2.0
// Tokenizers out of GGUF and JSON files, for tests.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/base/status.h"
#include "runtime/text/tokenizer.h"

namespace moonlit::test {

Result<TokenizerData> ReadTokenizerData(const std::string& path);
// A vocabulary written as JSON, keys as in GGUF without "tokenizer.ggml."; pre, if not empty, names the pre-tokenizer.
TokenizerData FromJson(const nlohmann::json& json, const std::string& pre);
Result<std::unique_ptr<const Tokenizer>> ReadTokenizer(const std::string& path);

// <source>/../shared/fixtures/tokenizers: third-party vocabularies that are read in place where they exist and never
// copied.
std::string VocabularyFolder();
bool Exists(const std::string& path);
std::string FromHex(const std::string& hex);

}  // namespace moonlit::test
