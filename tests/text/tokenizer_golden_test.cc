// SPDX-License-Identifier: Apache-2.0
// Vocabularies of our own against ids made elsewhere (tests/data/recipes/tokenizer_golden.py): one whose merges reach
// over every kind of character, under each pre-tokenizer name, so that a cut anywhere shows; the tiny SentencePiece and
// WordPiece ones of the model goldens; the embedded model's. The ids are llama.cpp's, or Hugging Face's where it
// differs and pretokenizers.inc follows it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "gguf_tokenizer.h"
#include "runtime/text/pretokenizer.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using Ids = std::vector<int32_t>;

const nlohmann::json& Golden() {
  static const nlohmann::json golden =
      nlohmann::json::parse(ReadWholeFile(std::string(MOONLIT_SOURCE_DIR) + "/tests/data/tokenizer_golden.json"));
  return golden;
}

// ids is a list by text; ids_special (left out where equal to ids), ids_hf and ids_special_hf are maps by number of the
// text.
Ids Expected(const nlohmann::json& one, bool special, size_t text) {
  const std::string number = std::to_string(text);
  const std::string key = special ? "ids_special" : "ids";
  const std::string hf = key + "_hf";
  if (one.contains(hf) && one[hf].contains(number)) return one[hf][number].get<Ids>();
  if (special && one[key].contains(number)) return one[key][number].get<Ids>();
  return one["ids"][text].get<Ids>();
}

TEST(TokenizerGolden, EveryVocabularyAndPreTokenizer) {
  const auto texts = Golden()["texts_hex"].get<std::vector<std::string>>();
  for (const auto& one : Golden()["golden"]) {
    const auto vocabulary = one["vocabulary"].get<std::string>();
    const auto pre = one["pre"].get<std::string>();
    SCOPED_TRACE(vocabulary + " " + pre);
    const auto tokenizer = Tokenizer::Create(FromJson(Golden()["vocabularies"][vocabulary], pre));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    for (size_t i = 0; i < texts.size(); ++i) {
      const std::string text = FromHex(texts[i]);
      SCOPED_TRACE("text " + std::to_string(i) + ": " + text);
      EXPECT_EQ(tokenizer.value()->Encode(text, {}).value(), Expected(one, false, i));
      EXPECT_EQ(tokenizer.value()->Encode(text, {.add_special = true, .parse_special = true}).value(),
                Expected(one, true, i));
    }
  }
}

// A name in the table without a golden must at least be there on purpose: the list of those that the llama.cpp used did
// not know or that stand for the same patterns as a tested one.
TEST(TokenizerGolden, EveryNameLoads) {
  std::set<std::string> tested;
  for (const auto& one : Golden()["golden"]) tested.insert(one["pre"].get<std::string>());
  EXPECT_GE(tested.size(), 45u);
  for (const std::string_view name : PreTokenizer::KnownNames()) {
    const auto tokenizer = Tokenizer::Create(FromJson(Golden()["vocabularies"]["pairs"], std::string(name)));
    EXPECT_TRUE(tokenizer.ok()) << name << ": " << tokenizer.status().ToString();
  }
}

TEST(TokenizerGolden, EmbeddedModel) {
  const std::string path = std::string(MOONLIT_SOURCE_DIR) + "/models/poet/poet-Q4_0.gguf";
  ASSERT_TRUE(Exists(path)) << "the embedded model is part of the source tree: " << path;
  const auto tokenizer = ReadTokenizer(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  for (const auto& one : Golden()["poet"]) {
    const std::string text = FromHex(one["text_hex"]);
    SCOPED_TRACE(text);
    EXPECT_EQ(tokenizer.value()->Encode(text, {}).value(), one["ids"].get<Ids>());
    EXPECT_EQ(tokenizer.value()->Encode(text, {.add_special = true, .parse_special = true}).value(),
              one["ids_special"].get<Ids>());
  }
}

}  // namespace
}  // namespace moonlit::test
