// SPDX-License-Identifier: Apache-2.0
// From a file's keys to a tokenizer: what "none" looks like, and that every other id and every other type is refused by name.
#include "runtime/convert/tokenizer_metadata.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

#include "runtime/api/load.h"
#include "runtime/gguf/gguf_writer.h"
#include "runtime/weights/gguf_source.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using testing::HasSubstr;
using Write = std::function<void(GgufWriter&)>;

// A vocabulary of four tokens and one more key.
std::string Header(const Write& write, const std::string& without = "") {
  GgufWriter writer;
  if (without != "tokenizer.ggml.model") writer.SetString("tokenizer.ggml.model", "llama");
  writer.SetStringArray("tokenizer.ggml.tokens", {"<unk>", "<s>", "</s>", "a"});
  writer.SetF32Array("tokenizer.ggml.scores", {0, 0, 0, -1});
  writer.SetI32Array("tokenizer.ggml.token_type", {2, 3, 3, 1});
  write(writer);
  return writer.Header();
}

Result<TokenizerData> ReadData(const std::string& header) {
  const Result<GgufFile> file = GgufFile::OpenMemory(header.data(), header.size(), "odd.gguf");
  if (!file.ok()) return file.status();
  return ReadTokenizerData(GgufMetadata(&file.value()));
}

TEST(TokenizerMetadata, IdsOfEveryKeyAndTheTwoSpellingsOfNone) {
  for (const TokenIdKey& id : kTokenIdKeys) {
    const std::string key = std::string("tokenizer.ggml.") + id.key;
    const auto read = [&](const Write& write) {
      const Result<TokenizerData> data = ReadData(Header(write));
      EXPECT_TRUE(data.ok()) << data.status().ToString();
      return data.ok() ? data.value().*id.field : -99;
    };
    EXPECT_EQ(read([](GgufWriter&) {}), kNoToken);
    EXPECT_EQ(read([&](GgufWriter& writer) { writer.SetU32(key, 3); }), 3);
    EXPECT_EQ(read([&](GgufWriter& writer) { writer.SetU32(key, UINT32_MAX); }), kNoToken);
    EXPECT_EQ(read([&](GgufWriter& writer) { writer.SetI32(key, -1); }), kNoToken);
    // Kept for Tokenizer::Create, which knows the vocabulary; cut to 32 bits this one would be token 3.
    EXPECT_EQ(read([&](GgufWriter& writer) { writer.SetU64(key, (uint64_t{1} << 32) + 3); }), (int64_t{1} << 32) + 3);
  }
}

TEST(TokenizerMetadata, AnIdOutsideTheVocabularyNamesFileKeyValueAndSize) {
  TempFolder folder;
  for (const TokenIdKey& id : kTokenIdKeys) {
    if (id.field == &TokenizerData::pad_id) continue;  // a warning
    const std::string key = std::string("tokenizer.ggml.") + id.key;
    const std::string path = folder.Write("odd.gguf", Header([&](GgufWriter& writer) { writer.SetU32(key, 4); }));
    const auto tokenizer = OpenTokenizer(path);
    ASSERT_FALSE(tokenizer.ok()) << key;
    EXPECT_EQ(tokenizer.status().code(), Code::kCorrupt);
    EXPECT_THAT(std::string(tokenizer.status().message()), HasSubstr(path));
    EXPECT_THAT(std::string(tokenizer.status().message()),
                HasSubstr(key + " is 4: expected a token of the vocabulary, 0 to 3"));
  }
  const std::string none = folder.Write(
      "none.gguf", Header([](GgufWriter& writer) { writer.SetU32("tokenizer.ggml.padding_token_id", UINT32_MAX); }));
  const auto tokenizer = OpenTokenizer(none);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  EXPECT_EQ((*tokenizer)->special().pad, kNoToken);
}

TEST(TokenizerMetadata, AnArrayIsNoScalar) {
  std::set<std::string> keys = {"tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.chat_template", "general.name",
                                "general.architecture"};
  const std::set<std::string> strings = keys;
  for (const char* flag : {"add_bos_token", "add_eos_token", "add_sep_token", "add_space_prefix",
                           "remove_extra_whitespaces", "normalizer.lowercase", "normalizer.strip_accents"}) {
    keys.insert(std::string("tokenizer.ggml.") + flag);
  }
  for (const TokenIdKey& id : kTokenIdKeys) keys.insert(std::string("tokenizer.ggml.") + id.key);
  for (const std::string& key : keys) {
    const bool is_string = strings.contains(key);
    const Result<TokenizerData> data = ReadData(Header(
        [&](GgufWriter& writer) { is_string ? writer.SetStringArray(key, {"llama"}) : writer.SetU32Array(key, {1}); },
        key));
    ASSERT_FALSE(data.ok()) << key;
    EXPECT_EQ(data.status().code(), Code::kCorrupt);
    EXPECT_THAT(std::string(data.status().message()), testing::StartsWith("odd.gguf: key \"" + key + "\": expected a"));
    EXPECT_THAT(std::string(data.status().message()),
                testing::EndsWith(is_string ? ", found an array of string" : ", found an array of uint32"));
  }
}

}  // namespace
}  // namespace moonlit
