// SPDX-License-Identifier: Apache-2.0
// Tokens one by one, of a vocabulary that puts a space before a text (tests/data/golden/llama-legacy) and of one that does not (poet).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "runtime/api/moonlit.hpp"

namespace moonlit::api {
namespace {

using ::testing::HasSubstr;

Model Open(const std::string& path) {
  auto options = Model::Options();
  options.vocab_only = 1;
  auto model = Model::Load(path, options);
  EXPECT_TRUE(model) << model.error().message;
  return std::move(*model);
}
Model OpenSentencePiece() { return Open(MOONLIT_SOURCE_DIR "/tests/data/golden/llama-legacy/model.gguf"); }

// The second half of a text, as a loop sees it that begins behind a prompt.
TEST(TokenBytes, AddUpToTheTextWithItsSpaces) {
  for (const char* path : {MOONLIT_SOURCE_DIR "/tests/data/golden/llama-legacy/model.gguf", "poet"}) {
    const Model model = Open(path);
    const std::string text = "the moon over the lake, \xE6\x98\x8E\xE6\x9C\x88  !";
    auto ids = model.Tokenize(text, 0);
    ASSERT_TRUE(ids) << ids.error().message;
    std::string sum;
    for (const int32_t id : *ids) {
      auto bytes = model.TokenBytes(id);
      ASSERT_TRUE(bytes) << bytes.error().message;
      sum += *bytes;
    }
    const bool prefix = std::string_view(path) != "poet";
    EXPECT_EQ(sum, (prefix ? " " : "") + text) << path;
    auto whole = model.Detokenize(*ids);
    ASSERT_TRUE(whole);
    EXPECT_EQ(*whole, text) << path;
  }
}

TEST(TokenBytes, KeepTheSpaceThatDetokenizingOneTokenLoses) {
  const Model model = OpenSentencePiece();
  auto ids = model.Tokenize("moon moon", 0);
  ASSERT_TRUE(ids);
  const int32_t first = ids->front();
  auto bytes = model.TokenBytes(first), alone = model.Detokenize({&first, 1});
  ASSERT_TRUE(bytes && alone);
  EXPECT_EQ(*bytes, " " + *alone);
}

TEST(TokenBytes, OfControlTokensAreShownIfAskedFor) {
  const Model model = OpenSentencePiece();
  const int32_t begin = moonlit_token_begin(model.handle());
  ASSERT_GE(begin, 0);
  auto hidden = model.TokenBytes(begin), shown = model.TokenBytes(begin, true);
  ASSERT_TRUE(hidden && shown);
  EXPECT_EQ(*hidden, "");
  EXPECT_EQ(*shown, "<s>");
}

TEST(TokenBytes, WritesNoMoreThanThereIsRoomFor) {
  const Model model = OpenSentencePiece();
  char bytes[4] = {'a', 'b', 'c', 'd'};
  size_t length = 0;
  moonlit_error error = {};
  ASSERT_EQ(moonlit_token_bytes(model.handle(), moonlit_token_begin(model.handle()), 1, bytes, 2, &length, &error),
            MOONLIT_OK);
  EXPECT_EQ(length, 3u);
  EXPECT_EQ(std::string_view(bytes, 4), "<scd");
  EXPECT_EQ(moonlit_token_bytes(model.handle(), 5, 0, nullptr, 0, &length, nullptr), MOONLIT_OK);
}

TEST(TokenBytes, OutsideTheVocabularyAreRefused) {
  const Model model = OpenSentencePiece();
  const auto tokens = static_cast<int32_t>(model.info().n_vocab);
  for (const int32_t id : {-1, tokens, tokens + 5}) {
    auto bytes = model.TokenBytes(id);
    ASSERT_FALSE(bytes) << id;
    EXPECT_EQ(bytes.error().code, MOONLIT_INVALID_ARGUMENT);
    EXPECT_THAT(bytes.error().message, HasSubstr("expected 0 to " + std::to_string(tokens - 1)));
  }
  EXPECT_TRUE(model.TokenBytes(tokens - 1));
}

TEST(TokenText, IsTheVocabularysOwn) {
  const Model model = OpenSentencePiece();
  auto ids = model.Tokenize("moon", 0);
  ASSERT_TRUE(ids);
  auto text = model.TokenText(ids->front());
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_THAT(*text, testing::StartsWith("\xE2\x96\x81")) << "where the bytes have a space";
  char two[2] = {};
  size_t length = 0;
  ASSERT_EQ(moonlit_token_text(model.handle(), model.SpecialToken(MOONLIT_SPECIAL_BOS), two, 2, &length, nullptr),
            MOONLIT_OK);
  EXPECT_EQ(std::string_view(two, 2), "<s");
  EXPECT_EQ(length, 3u);
  auto outside = model.TokenText(-1);
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().code, MOONLIT_INVALID_ARGUMENT);
}

TEST(TokenSpecial, IsNamedByItsKind) {
  const Model model = OpenSentencePiece(), bert = Open(MOONLIT_SOURCE_DIR "/tests/data/golden/bert/model.gguf");
  const auto text = [](const Model& of, moonlit_special kind) {
    auto found = of.TokenText(of.SpecialToken(kind));
    return found ? *found : "none";
  };
  EXPECT_EQ(text(model, MOONLIT_SPECIAL_BOS), "<s>");
  EXPECT_EQ(text(model, MOONLIT_SPECIAL_EOS), "</s>");
  EXPECT_EQ(text(model, MOONLIT_SPECIAL_UNK), "<unk>");
  EXPECT_EQ(text(model, MOONLIT_SPECIAL_FIM_SEP), "none");
  EXPECT_EQ(text(bert, MOONLIT_SPECIAL_SEP), "[SEP]");
  EXPECT_EQ(text(bert, MOONLIT_SPECIAL_MASK), "[MASK]");
  EXPECT_EQ(text(bert, MOONLIT_SPECIAL_PAD), "[PAD]");
  EXPECT_NE(moonlit_token_is_end(model.handle(), model.SpecialToken(MOONLIT_SPECIAL_EOS)), 0);
  for (const int kind : {14, 15}) EXPECT_EQ(model.SpecialToken(static_cast<moonlit_special>(kind)), -1) << kind;
}

}  // namespace
}  // namespace moonlit::api
