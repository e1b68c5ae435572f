// SPDX-License-Identifier: Apache-2.0
// What must hold for any input: streams equal decodes, every token's bytes can be tokenized, bytes survive a round
// trip.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "gguf_tokenizer.h"
#include "runtime/text/byte_alphabet.h"
#include "runtime/text/utf8.h"
#include "runtime/text/utf8_stream.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using Ids = std::vector<int32_t>;

// Our own vocabularies always, the embedded model's and other people's where they lie.
std::vector<std::pair<std::string, std::unique_ptr<const Tokenizer>>> Tokenizers() {
  std::vector<std::pair<std::string, std::unique_ptr<const Tokenizer>>> out;
  const auto add = [&](const std::string& name, Result<std::unique_ptr<const Tokenizer>> tokenizer) {
    EXPECT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.status().ToString();
    if (tokenizer.ok()) out.emplace_back(name, std::move(tokenizer).value());
  };
  const auto golden =
      nlohmann::json::parse(ReadWholeFile(std::string(MOONLIT_SOURCE_DIR) + "/tests/data/tokenizer_golden.json"));
  for (const char* pre : {"default", "llama-bpe", "gpt-4o", "deepseek-llm", "gpt-2"}) {
    add(pre, Tokenizer::Create(FromJson(golden["vocabularies"]["pairs"], pre)));
  }
  add("tiny-spm", Tokenizer::Create(FromJson(golden["vocabularies"]["tiny-spm"], "")));
  add("tiny-bert", Tokenizer::Create(FromJson(golden["vocabularies"]["tiny-bert"], "")));
  for (const char* name : {"deepseek-coder", "falcon", "gpt-2", "llama-spm", "mpt", "phi-3", "starcoder", "bert-bge"}) {
    const std::string path = VocabularyFolder() + "/ggml-vocab-" + name + ".gguf";
    if (Exists(path)) add(path, ReadTokenizer(path));
  }
  const std::string poet = std::string(MOONLIT_SOURCE_DIR) + "/models/poet/poet-Q4_0.gguf";
  if (Exists(poet)) add(poet, ReadTokenizer(poet));
  return out;
}

std::string MadeValid(std::string_view bytes) {
  Utf8Stream stream;
  std::string out = stream.Add(bytes);
  return out + stream.Finish();
}

TEST(TokenizerProperties, StreamIsTheWholeDecode) {
  for (const auto& [name, tokenizer] : Tokenizers()) {
    SCOPED_TRACE(name);
    std::mt19937 random(3);
    for (int round = 0; round < 300; ++round) {
      Ids ids(1 + random() % 12);
      for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint32_t>(tokenizer->vocab_size()));
      for (const bool show_special : {false, true}) {
        for (const bool at_start : {false, true}) {
          TokenStream stream(*tokenizer, show_special, at_start);
          std::string text;
          for (const int32_t id : ids) {
            const std::string piece = stream.Add(id);
            ASSERT_TRUE(Utf8IsValid(piece));
            text += piece;
          }
          text += stream.Finish();
          const std::string whole =
              tokenizer->Decode(ids, {.show_special = show_special, .at_start = at_start}).value();
          ASSERT_EQ(text, MadeValid(whole));
        }
      }
    }
  }
}

TEST(TokenizerProperties, EveryTokensBytesCanBeTokenized) {
  for (const auto& [name, tokenizer] : Tokenizers()) {
    SCOPED_TRACE(name);
    for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
      const std::string bytes(tokenizer->TokenBytes(id, true));
      for (const InvalidUtf8 invalid : {InvalidUtf8::kCompatible, InvalidUtf8::kKeepBytes}) {
        const auto ids = tokenizer->Encode(bytes, {.parse_special = id % 2 == 0, .invalid_utf8 = invalid});
        ASSERT_TRUE(ids.ok()) << id << ": " << ids.status().ToString();
        if (invalid != InvalidUtf8::kKeepBytes || tokenizer->kind() != TokenizerKind::kBytePairEncoding) continue;
        ASSERT_EQ(tokenizer->Decode(ids.value(), {}).value(), bytes) << id;
      }
    }
  }
}

// Some vocabularies (deepseek-coder) use the characters that spell bytes which no valid text has, such as FB, for added
// tokens.
bool CanSpell(const Tokenizer& tokenizer, char byte) {
  if (tokenizer.kind() != TokenizerKind::kBytePairEncoding) return true;
  const std::string_view one(&byte, 1);
  return tokenizer.TokenBytes(tokenizer.TokenToId(BytesToAlphabet(one)), true) == one;
}

TEST(TokenizerProperties, RandomBytesRoundTrip) {
  for (const auto& [name, tokenizer] : Tokenizers()) {
    if (tokenizer->kind() == TokenizerKind::kWordPiece) continue;  // it drops what is no word
    SCOPED_TRACE(name);
    std::mt19937 random(5);
    for (int round = 0; round < 300; ++round) {
      std::string bytes;
      for (size_t length = random() % 64; bytes.size() < length;) {
        switch (random() % 4) {
          case 0:
            bytes.push_back(static_cast<char>(random() % 256));
            break;
          case 1:
            bytes.push_back(" \n\ta1.'"[random() % 7]);
            break;
          case 2:
            Utf8Append(0x4E00 + random() % 512, &bytes);
            break;
          default:
            Utf8Append(0x20 + random() % 0x500, &bytes);
            break;
        }
      }
      for (char& byte : bytes) byte = CanSpell(*tokenizer, byte) ? byte : 'x';
      const Ids ids = tokenizer->Encode(bytes, {.invalid_utf8 = InvalidUtf8::kKeepBytes}).value();
      // A written-out U+2581 is SentencePiece's space and none of these characters.
      ASSERT_EQ(tokenizer->Decode(ids, {}).value(), bytes);
      EXPECT_TRUE(tokenizer->Encode(bytes, {.add_special = true, .parse_special = true}).ok());
    }
  }
}

// Valid text gives the same ids whatever is said about invalid text.
TEST(TokenizerProperties, InvalidUtf8OptionTouchesOnlyInvalidText) {
  for (const auto& [name, tokenizer] : Tokenizers()) {
    SCOPED_TRACE(name);
    const std::string text = "I'm 12345 \xE5\xBA\x8A\xE5\x89\x8D \xF0\x9F\x98\xB8\n\n  x\xCC\x81 \xED\x95\x9C!";
    EXPECT_EQ(tokenizer->Encode(text, {}).value(),
              tokenizer->Encode(text, {.invalid_utf8 = InvalidUtf8::kKeepBytes}).value());
  }
}

}  // namespace
}  // namespace moonlit::test
