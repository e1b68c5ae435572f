// SPDX-License-Identifier: Apache-2.0
// Chats and grammars as an application sees them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/api/moonlit.hpp"

namespace moonlit::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ChatApi : public testing::Test {
 protected:
  void SetUp() override {
    moonlit_model_options options = Model::Options();
    options.n_ctx = 128;
    auto model = Model::Load("poet", options);
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(std::move(*model));
  }
  std::optional<Model> model_;
};

TEST_F(ChatApi, AModelWithoutATemplateSaysHowToGiveOne) {
  EXPECT_EQ(model_->chat_template(), nullptr);
  const ChatMessage messages[] = {{"user", "月"}};
  auto ids = model_->ChatTokenize(messages);
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code, MOONLIT_NOT_FOUND);
  EXPECT_THAT(ids.error().message, HasSubstr("chat_template"));
}

TEST_F(ChatApi, ATemplateMakesTextAndIds) {
  moonlit_chat_options options = Model::ChatOptions();
  options.chat_template =
      "{% for m in messages %}{{ m.content }}{{ eos_token }}{% endfor %}{% if add_generation_prompt %}月{% endif %}{{ "
      "x }}";
  options.variables_json = "{\"x\": \"光\"}";
  const ChatMessage messages[] = {{"user", "床前"}, {"assistant", "明"}};
  auto text = model_->ChatRender(messages, options);
  ASSERT_TRUE(text) << text.error().message;
  auto ids = model_->ChatTokenize(messages, options);
  ASSERT_TRUE(ids) << ids.error().message;
  auto again = model_->Tokenize(*text, MOONLIT_ADD_SPECIAL | MOONLIT_PARSE_SPECIAL);
  ASSERT_TRUE(again);
  ASSERT_FALSE(ids->empty());
  EXPECT_EQ((*ids)[0], moonlit_token_begin(model_->handle()));
  // Whatever ends the text in plain tokenizing does not end a chat.
  again->resize(ids->size());
  EXPECT_EQ(*ids, *again);
  EXPECT_THAT(*text, HasSubstr("月光"));
  options.add_generation_prompt = 0;
  EXPECT_THAT(*model_->ChatRender(messages, options), ::testing::Not(HasSubstr("月")));
  options.messages_json = "[{\"role\": \"user\", \"content\": \"x\"}";
  EXPECT_EQ(model_->ChatRender({}, options).error().code, MOONLIT_INVALID_ARGUMENT);
  options.messages_json = nullptr;
  options.chat_template = "{{ raise_exception('no ' + messages[0].role) }}";
  EXPECT_THAT(model_->ChatRender(messages, options).error().message, HasSubstr("no user"));
}

TEST_F(ChatApi, LongTextsComeWhole) {
  moonlit_chat_options options = Model::ChatOptions();
  options.chat_template = "{{ messages[0].content }}";
  std::string content;
  for (int i = 0; i < 3000; ++i) content += "月";
  const ChatMessage messages[] = {{"user", content}};
  EXPECT_EQ(*model_->ChatRender(messages, options), content);
  EXPECT_GT(model_->ChatTokenize(messages, options)->size(), 2000u);
}

class GrammarApi : public ChatApi {
 protected:
  std::string Generate(const Grammar& grammar, uint64_t seed, moonlit_finish finish, float temperature = 1.0f) {
    auto session = model_->NewSession();
    EXPECT_TRUE(session) << session.error().message;
    auto ids = model_->Tokenize("床前明月", MOONLIT_ADD_SPECIAL);
    moonlit_generate_options options;
    moonlit_generate_options_init(&options, sizeof options);
    options.grammar = grammar.handle();
    options.seed = seed;
    options.temperature = temperature;
    options.top_k = 0;
    options.max_tokens = 60;
    std::string text;
    auto result = session->Generate(*ids, options, [&](std::string_view piece) {
      text += piece;
      return true;
    });
    EXPECT_TRUE(result) << result.error().message;
    if (result) {
      EXPECT_EQ(result->finish, finish) << text;
    }
    return text;
  }
};

TEST_F(GrammarApi, TheTextIsOneOfTheGrammar) {
  auto grammar = model_->NewGrammar("root ::= [月光]{3} \"，\" (\"山\" | \"水\") \"。\"");
  ASSERT_TRUE(grammar) << grammar.error().message;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const std::string text = Generate(*grammar, seed, MOONLIT_FINISH_END);
    ASSERT_EQ(text.size(), 3u * 6) << text;
    EXPECT_EQ(text.find_first_not_of("月光"), 9u) << text;
    EXPECT_THAT(text, ::testing::AnyOf(HasSubstr("，山。"), HasSubstr("，水。")));
  }
}

TEST_F(GrammarApi, AGrammarThatAllowsWhatTheModelSaysChangesNothing) {
  auto grammar = model_->NewGrammar("root ::= [^a]*");
  ASSERT_TRUE(grammar);
  EXPECT_EQ(Generate(*grammar, 0, MOONLIT_FINISH_END, 0.0f), "光，疑是地上霜。\n举头望明月，低头思故乡。");
}

TEST_F(GrammarApi, FaultsAreCodesAndSentences) {
  auto none = model_->NewGrammar("root ::= \"a");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(none.error().message, HasSubstr("line 1"));
  auto refused = model_->NewJsonGrammar("{\"type\": \"integer\", \"multipleOf\": 2}");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, MOONLIT_UNSUPPORTED);
  EXPECT_THAT(refused.error().message, HasSubstr("#/multipleOf"));
  auto other = Model::Load("poet");
  ASSERT_TRUE(other);
  auto grammar = other->NewGrammar("root ::= .*");
  ASSERT_TRUE(grammar);
  auto session = model_->NewSession();
  moonlit_generate_options options;
  moonlit_generate_options_init(&options, sizeof options);
  options.grammar = grammar->handle();
  const int32_t prompt[] = {1};
  auto result = session->Generate(prompt, options, [](std::string_view) { return true; });
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, MOONLIT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace moonlit::api
