// SPDX-License-Identifier: Apache-2.0
// The mask of tokens against every token tried by itself.
#include "runtime/text/grammar_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "runtime/text/byte_alphabet.h"
#include "runtime/text/grammar.h"
#include "runtime/text/grammar_matcher.h"
#include "tests/support/slowed.h"
#include "tests/text/random_grammar.h"

namespace moonlit {
namespace {

using ::testing::HasSubstr;

// Bytes, pieces that cut characters, a control token and two that end a text.
std::unique_ptr<const Tokenizer> Vocabulary() {
  TokenizerData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte)
    data.tokens.push_back(BytesToAlphabet(std::string(1, static_cast<char>(byte))));
  data.tokens.push_back("ab");
  data.merges = {"a b"};
  std::mt19937 random(7);
  for (int i = 0; i < 400; ++i) {
    std::string piece;
    const std::string letters = "ab\xC3\xA9\xE5\xA5\xBD";
    for (size_t n = 2 + random() % 5; n > 0; --n) piece += letters[random() % letters.size()];
    const std::string token = BytesToAlphabet(piece);
    if (std::find(data.tokens.begin(), data.tokens.end(), token) == data.tokens.end()) data.tokens.push_back(token);
  }
  data.token_types.assign(data.tokens.size(), 1);
  for (const char* name : {"<ctrl>", "<|endoftext|>", "<|im_end|>"}) data.tokens.push_back(name);
  data.token_types.resize(data.tokens.size(), 3);
  data.eos_id = static_cast<int64_t>(data.tokens.size()) - 2;
  data.eot_id = static_cast<int64_t>(data.tokens.size()) - 1;
  auto made = Tokenizer::Create(std::move(data));
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return std::move(made).value();
}

// The mask's answer for every token is that of the bytes by themselves.
void ExpectTokenByToken(const Grammar& grammar, const Tokenizer& tokenizer, GrammarMask& mask,
                        const std::string& so_far, size_t* compared) {
  auto matcher = GrammarMatcher::Create(grammar);
  ASSERT_TRUE(matcher.ok() && matcher->Take(so_far).ok());
  matcher->Allow(uint64_t{1} << 20);
  std::vector<bool> expected;
  bool any = false;
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    bool allowed = false;
    if (tokenizer.IsEndOfGeneration(id)) {
      allowed = matcher->MayEnd(matcher->state());
    } else if (const std::string_view bytes = tokenizer.TokenBytes(id, false); !bytes.empty()) {
      GrammarMatcher::State state = matcher->state();
      for (const char byte : bytes) {
        auto next = matcher->Next(state, static_cast<uint8_t>(byte));
        if (!next.ok()) return;  // so ambiguous that it is refused
        state = *next;
      }
      allowed = state != GrammarMatcher::kDead;
    }
    expected.push_back(allowed);
    any = any || allowed;
  }
  const auto next = mask.Next();
  if (next.status().code() == Code::kExhausted) return;  // so ambiguous that it is refused
  ++*compared;
  ASSERT_EQ(next.ok(), any) << next.status().ToString();
  for (size_t id = 0; any && id < expected.size() + 100; ++id) {
    const bool allowed = id < expected.size() && expected[id];
    EXPECT_EQ((*next)->Has(static_cast<int32_t>(id)), allowed)
        << "token " << id << " \"" << tokenizer.TokenText(static_cast<int32_t>(id)) << "\" behind \"" << so_far << "\"";
  }
}

TEST(GrammarMask, IsWhatEveryTokenByItselfSays) {
  const auto tokenizer = Vocabulary();
  const auto order = std::make_shared<const TokenOrder>(*tokenizer);
  const uint32_t count = kSlowed ? 4 : 24;
  size_t steps = 0;
  for (uint32_t seed = 0; seed < count; ++seed) {
    RandomGrammar random(seed);
    auto parsed = Grammar::Parse(random.Print());
    if (!parsed.ok()) continue;
    const auto grammar = std::make_shared<const Grammar>(std::move(parsed).value());
    auto mask = GrammarMask::Create(grammar, order);
    ASSERT_TRUE(mask.ok());
    std::mt19937 choose(seed);
    std::string text;
    for (int step = 0; step < 6; ++step) {
      ASSERT_NO_FATAL_FAILURE(ExpectTokenByToken(*grammar, *tokenizer, *mask, text, &steps)) << random.Print();
      if (HasFailure()) FAIL() << random.Print();
      const auto next = mask->Next();
      if (!next.ok()) break;
      std::vector<int32_t> allowed;
      for (int32_t id = 0; id < tokenizer->vocab_size(); ++id) {
        if ((*next)->Has(id) && !tokenizer->IsEndOfGeneration(id)) allowed.push_back(id);
      }
      if (allowed.empty()) break;
      const int32_t id = allowed[choose() % allowed.size()];
      ASSERT_TRUE(mask->Accept(id).ok());
      text += tokenizer->TokenBytes(id, false);
    }
  }
  EXPECT_GT(steps, count);
}

// Thousands of words to choose from are no ambiguity: they are told apart by their first bytes.
TEST(GrammarMask, LongListsAreFollowed) {
  const auto tokenizer = Vocabulary();
  const auto order = std::make_shared<const TokenOrder>(*tokenizer);
  constexpr int kWords = 20000;
  std::mt19937 random(3);
  std::vector<std::string> words;
  std::string schema = R"({"enum": [)";
  for (int i = 0; i < kWords; ++i) {
    std::string word;
    for (size_t n = 3 + random() % 8; n > 0; --n) word += static_cast<char>('a' + random() % 26);
    schema += (i == 0 ? "\"" : ", \"") + word + "\"";
    words.push_back("\"" + word + "\"");
  }
  auto parsed = Grammar::FromJsonSchema(schema + "]}");
  ASSERT_TRUE(parsed.ok()) << parsed.status().ToString();
  const auto grammar = std::make_shared<const Grammar>(std::move(parsed).value());
  for (int i = 0; i < kWords; i += kWords / 20) {
    auto mask = GrammarMask::Create(grammar, order);
    ASSERT_TRUE(mask.ok()) << mask.status().ToString();
    for (const char c : words[static_cast<size_t>(i)]) {
      const auto next = mask->Next();
      ASSERT_TRUE(next.ok()) << next.status().ToString();
      const int32_t id = static_cast<unsigned char>(c);  // the vocabulary begins with the bytes
      EXPECT_TRUE((*next)->Has(id));
      ASSERT_TRUE(mask->Accept(id).ok());
    }
    const auto end = mask->Next();
    ASSERT_TRUE(end.ok());
    EXPECT_TRUE(mask->must_end());
  }
}

TEST(GrammarMask, TokensOutsideTheGrammarAreNotAccepted) {
  const auto tokenizer = Vocabulary();
  const auto order = std::make_shared<const TokenOrder>(*tokenizer);
  auto grammar = std::make_shared<const Grammar>(Grammar::Parse("root ::= \"ab\"").value());
  auto mask = GrammarMask::Create(grammar, order);
  ASSERT_TRUE(mask.ok());
  const int32_t control = tokenizer->TokenToId("<ctrl>"), end = tokenizer->TokenToId("<|im_end|>");
  EXPECT_FALSE(mask->Accept('b').ok());
  EXPECT_FALSE(mask->Accept(control).ok());
  EXPECT_FALSE(mask->Accept(end).ok());
  EXPECT_FALSE(mask->may_end());
  EXPECT_TRUE(mask->Accept('a').ok());
  EXPECT_TRUE(mask->Accept('b').ok());
  EXPECT_TRUE(mask->may_end());
  EXPECT_TRUE(mask->must_end());
  EXPECT_TRUE(mask->Accept(end).ok());
}

TEST(GrammarMask, ADeadEndIsAFault) {
  TokenizerData data;
  data.model = "bert";
  data.tokens = {"[UNK]", "[CLS]", "[SEP]", "a"};
  data.token_types = {3, 3, 3, 1};
  data.unk_id = 0;
  data.cls_id = 1;
  data.sep_id = 2;
  auto tokenizer = Tokenizer::Create(std::move(data));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const auto order = std::make_shared<const TokenOrder>(**tokenizer);
  auto mask = GrammarMask::Create(std::make_shared<const Grammar>(Grammar::Parse("root ::= \"好\"").value()), order);
  ASSERT_TRUE(mask.ok());
  EXPECT_EQ(mask->Next().status().code(), Code::kUnsupported);
}

TEST(GrammarMask, IsCancelledAndThenAskedAgain) {
  const auto tokenizer = Vocabulary();
  const auto order = std::make_shared<const TokenOrder>(*tokenizer);
  auto mask = GrammarMask::Create(std::make_shared<const Grammar>(Grammar::Parse("root ::= \"ab\"").value()), order);
  ASSERT_TRUE(mask.ok());
  std::atomic<bool> cancel = true;
  EXPECT_EQ(mask->Next(&cancel).status().code(), Code::kCancelled);
  EXPECT_FALSE(mask->may_end());
  cancel = false;
  const auto next = mask->Next(&cancel);
  ASSERT_TRUE(next.ok()) << next.status().ToString();
  EXPECT_TRUE((*next)->Has('a'));
  EXPECT_FALSE((*next)->Has('b'));
  cancel = true;
  EXPECT_TRUE(mask->Next(&cancel).ok()) << "what is known takes no time";
}

TEST(GrammarMask, ACopyGoesItsOwnWay) {
  const auto tokenizer = Vocabulary();
  const auto order = std::make_shared<const TokenOrder>(*tokenizer);
  auto grammar = std::make_shared<const Grammar>(Grammar::Parse("root ::= \"a\" (\"b\" | \"c\" root)").value());
  auto mask = GrammarMask::Create(grammar, order);
  ASSERT_TRUE(mask.ok());
  ASSERT_TRUE(mask->Accept('a').ok());
  ASSERT_TRUE(mask->Next().ok());  // what is known goes along
  GrammarMask copy = *mask;
  ASSERT_TRUE(mask->Accept('b').ok());
  EXPECT_TRUE(mask->must_end());
  EXPECT_FALSE(copy.may_end());
  ASSERT_TRUE(copy.Accept('c').ok());
  ASSERT_TRUE(copy.Next().ok());
  EXPECT_TRUE((*copy.Next())->Has('a'));
  EXPECT_FALSE((*copy.Next())->Has('b'));
  EXPECT_TRUE(mask->must_end());
}

}  // namespace
}  // namespace moonlit
