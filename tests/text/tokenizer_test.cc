// SPDX-License-Identifier: Apache-2.0
// Rules of the tokenizers on vocabularies small enough to see through; golden ids are in the *_golden_test files.
#include "runtime/text/tokenizer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/text/byte_alphabet.h"

namespace moonlit {
namespace {

using Ids = std::vector<int32_t>;

constexpr int32_t kFirstByte = 3;
constexpr int32_t kFirstPiece = kFirstByte + 256;

// <unk>, <s>, </s>, 256 byte tokens, then pieces; the later a piece the worse its score.
TokenizerData Sentence(const std::vector<std::string>& pieces) {
  TokenizerData data;
  data.model = "llama";
  data.tokens = {"<unk>", "<s>", "</s>"};
  data.token_types = {2, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    data.tokens.push_back(name);
    data.token_types.push_back(6);
  }
  for (const std::string& piece : pieces) {
    data.tokens.push_back(piece);
    data.token_types.push_back(1);
  }
  for (size_t i = 0; i < data.tokens.size(); ++i) data.scores.push_back(-static_cast<float>(i));
  return data;
}

// The 256 characters of the alphabet (ids are the bytes' places in its order of bytes), the merges' results, then
// control tokens.
TokenizerData Bytes(const std::string& pre, const std::vector<std::string>& merges,
                    const std::vector<std::string>& more = {}) {
  TokenizerData data;
  data.model = "gpt2";
  data.pre = pre;
  for (int byte = 0; byte < 256; ++byte)
    data.tokens.push_back(BytesToAlphabet(std::string(1, static_cast<char>(byte))));
  for (const std::string& merge : merges) {
    std::string joined = merge;
    joined.erase(joined.find(' '), 1);
    data.tokens.push_back(joined);
  }
  data.token_types.assign(data.tokens.size(), 1);
  for (const std::string& token : more) data.tokens.push_back(token);
  data.token_types.resize(data.tokens.size(), 3);
  data.merges = merges;
  return data;
}

// [UNK], [CLS], [SEP], then pieces.
TokenizerData Words(const std::vector<std::string>& pieces) {
  TokenizerData data;
  data.model = "bert";
  data.tokens = {"[UNK]", "[CLS]", "[SEP]"};
  data.token_types = {3, 3, 3};
  data.tokens.insert(data.tokens.end(), pieces.begin(), pieces.end());
  data.token_types.resize(data.tokens.size(), 1);
  data.unk_id = 0;
  data.cls_id = 1;
  data.sep_id = 2;
  return data;
}

std::unique_ptr<const Tokenizer> Make(TokenizerData data) {
  auto tokenizer = Tokenizer::Create(std::move(data));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return tokenizer.ok() ? std::move(tokenizer).value() : nullptr;
}

Status Refused(TokenizerData data) {
  auto tokenizer = Tokenizer::Create(std::move(data));
  EXPECT_FALSE(tokenizer.ok());
  return tokenizer.ok() ? Status() : tokenizer.status();
}

std::vector<std::string> Texts(const Tokenizer& tokenizer, const Ids& ids) {
  std::vector<std::string> texts;
  for (const int32_t id : ids) texts.emplace_back(tokenizer.TokenText(id));
  return texts;
}

TEST(TokenizerErrors, UnknownNamesAreErrorsThatSayWhatToDo) {
  const Status pre = Refused(Bytes("no-such-model", {"a b"}));
  EXPECT_EQ(pre.code(), Code::kUnsupported);
  EXPECT_NE(pre.message().find("no-such-model"), std::string_view::npos);
  EXPECT_NE(pre.message().find("--pre"), std::string_view::npos);
  TokenizerData data = Sentence({});
  data.model = "t5";
  EXPECT_EQ(Refused(data).code(), Code::kUnsupported);
  EXPECT_NE(Refused(data).message().find("t5"), std::string_view::npos);
}

TEST(TokenizerErrors, MissingPreTokenizerIsTheDefaultWithAWarning) {
  EXPECT_FALSE(Make(Bytes("", {"a b"}))->warning().empty());
  EXPECT_TRUE(Make(Bytes("default", {"a b"}))->warning().empty());
}

TEST(TokenizerErrors, BrokenLists) {
  TokenizerData data = Sentence({"a"});
  data.tokens.clear();
  EXPECT_EQ(Refused(data).code(), Code::kCorrupt);
  data = Sentence({"a"});
  data.scores.pop_back();
  EXPECT_EQ(Refused(data).code(), Code::kCorrupt);
  data = Sentence({"a"});
  data.scores.clear();
  EXPECT_EQ(Refused(data).code(), Code::kCorrupt);
  data = Sentence({"a"});
  data.token_types.push_back(1);
  EXPECT_EQ(Refused(data).code(), Code::kCorrupt);
  data = Sentence({"a"});
  data.scores[5] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(Refused(data).code(), Code::kCorrupt);
  for (const char* merge : {"", " ", "ab", "a ", " b"}) {
    data = Bytes("gpt-2", {"a b"});
    data.merges.push_back(merge);
    EXPECT_EQ(Refused(data).code(), Code::kCorrupt) << "'" << merge << "'";
  }
  data = Bytes("gpt-2", {"a b"});
  data.merges.clear();
  EXPECT_EQ(Refused(data).code(), Code::kCorrupt);
  data = Bytes("gpt-2", {"a b"});
  data.add_bos = true;
  EXPECT_EQ(Refused(data).code(), Code::kCorrupt);
}

TEST(TokenizerErrors, IdsOutsideTheVocabulary) {
  const auto tokenizer = Make(Sentence({"a"}));
  for (const int32_t id :
       {-1, tokenizer->vocab_size(), std::numeric_limits<int32_t>::max(), std::numeric_limits<int32_t>::min()}) {
    EXPECT_EQ(tokenizer->Decode(Ids{id}, {}).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(tokenizer->TokenBytes(id, true), "");
    EXPECT_EQ(tokenizer->TokenText(id), "");
    EXPECT_FALSE(tokenizer->IsEndOfGeneration(id));
    EXPECT_FALSE(tokenizer->IsControl(id));
  }
}

// A wrong end-of-text id that is passed over makes a model that never ends.
TEST(TokenizerErrors, SpecialIdsOutsideTheVocabularyAreNamed) {
  for (const TokenizerData& good : {Sentence({"a"}), Bytes("gpt-2", {"a b"}), Words({"▁a"})}) {
    const int64_t size = static_cast<int64_t>(good.tokens.size());
    for (const TokenIdKey& id : kTokenIdKeys) {
      for (const int64_t value : {size, size + 1, int64_t{1000000}, int64_t{INT32_MAX}, int64_t{UINT32_MAX},
                                  (int64_t{1} << 32) + 1, INT64_MAX, int64_t{-2}, INT64_MIN}) {
        TokenizerData data = good;
        data.*id.field = value;
        if (id.field == &TokenizerData::pad_id) {
          EXPECT_NE(Make(data), nullptr) << "padding is not used, and real files have such an id";
          continue;
        }
        const Status status = Refused(data);
        EXPECT_EQ(status.code(), Code::kCorrupt);
        const std::string expected = "tokenizer.ggml." + std::string(id.key) + " is " + std::to_string(value) +
                                     ": expected a token of the vocabulary, 0 to " + std::to_string(size - 1);
        EXPECT_EQ(status.message().substr(0, expected.size()), expected);
      }
      for (const int64_t value : {int64_t{0}, size - 1}) {
        TokenizerData data = good;
        data.*id.field = value;
        EXPECT_NE(Make(data), nullptr);
      }
    }
  }
  TokenizerData silent = Sentence({"a"});
  silent.eos_id = kNoToken;
  EXPECT_EQ(Make(silent)->special().eos, 2) << "the kind's own";
}

TEST(SentencePiece, BestScoreFirstThenLeftmost) {
  // "ab" before "bc": a|b|c becomes ab|c; in "aaa" both pairs score the same and the left one wins.
  const auto tokenizer = Make(Sentence({"ab", "bc", "aa", "a", "b", "c", "▁"}));
  TokenizerData data = Sentence({"ab", "bc", "aa", "a", "b", "c", "▁"});
  data.add_space_prefix = false;
  const auto plain = Make(data);
  EXPECT_EQ(Texts(*plain, plain->Encode("abc", {}).value()), (std::vector<std::string>{"ab", "c"}));
  EXPECT_EQ(Texts(*plain, plain->Encode("aaa", {}).value()), (std::vector<std::string>{"aa", "a"}));
  EXPECT_EQ(Texts(*tokenizer, tokenizer->Encode("abc", {}).value()), (std::vector<std::string>{"▁", "ab", "c"}));
  EXPECT_EQ(Texts(*plain, plain->Encode("\xC3\xA9", {}).value()), (std::vector<std::string>{"<0xC3>", "<0xA9>"}));
  EXPECT_TRUE(tokenizer->Encode("", {}).value().empty());
  EXPECT_EQ(tokenizer->Encode("", {.add_special = true}).value(), Ids{1});
}

// Words that spell a control, unknown or byte token stay words.
TEST(SentencePiece, ReservedTokensAreNotMergedInto) {
  TokenizerData data = Sentence({"<", "s", ">", "<s", "0", "x", "A", "<0", "<0x", "<0x0", "<0x0A"});
  data.add_space_prefix = false;
  const auto tokenizer = Make(data);
  EXPECT_EQ(Texts(*tokenizer, tokenizer->Encode("<s>", {}).value()), (std::vector<std::string>{"<s", ">"}));
  EXPECT_EQ(Texts(*tokenizer, tokenizer->Encode("<0x0A>", {}).value()), (std::vector<std::string>{"<0x0A", ">"}));
  EXPECT_EQ(tokenizer->Encode("<s>", {.parse_special = true}).value(), Ids{1});
}

TEST(SentencePiece, LeadingSpaceIsStrippedOnceAndOnlyAtTheStart) {
  const auto tokenizer = Make(Sentence({"▁", "▁leading", "▁x", "▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁"}));
  const int32_t space = kFirstPiece;
  const int32_t leading = kFirstPiece + 1;
  const int32_t x = kFirstPiece + 2;
  const int32_t sixteen = kFirstPiece + 3;
  EXPECT_TRUE(tokenizer->strips_leading_space());
  EXPECT_EQ(tokenizer->Decode(Ids{space, leading, x}, {}).value(), " leading x");
  EXPECT_EQ(tokenizer->Decode(Ids{leading, x}, {}).value(), "leading x");
  EXPECT_EQ(tokenizer->Decode(Ids{leading, x}, {.at_start = false}).value(), " leading x");
  EXPECT_EQ(tokenizer->Decode(Ids{1, leading}, {}).value(), "<s> leading");
  EXPECT_EQ(tokenizer->Decode(Ids{1, leading}, {.show_special = false}).value(), " leading");
  EXPECT_EQ(tokenizer->Decode(Ids{sixteen, x}, {}).value(), std::string(15, ' ') + " x");
  EXPECT_EQ(tokenizer->TokenBytes(sixteen, true), std::string(16, ' '));
  EXPECT_EQ(tokenizer->TokenBytes(1, false), "");
  EXPECT_EQ(tokenizer->TokenBytes(1, true), "<s>");
  EXPECT_EQ(tokenizer->TokenBytes(kFirstByte + 10, false), "\n");
  EXPECT_EQ(tokenizer->Decode(Ids{}, {}).value(), "");
}

TEST(BytePairs, LowestRankFirstThenLeftmost) {
  const auto tokenizer = Make(Bytes("gpt-2", {"b c", "a b", "a a"}));
  EXPECT_EQ(Texts(*tokenizer, tokenizer->Encode("abc", {}).value()), (std::vector<std::string>{"a", "bc"}));
  EXPECT_EQ(Texts(*tokenizer, tokenizer->Encode("aaa", {}).value()), (std::vector<std::string>{"aa", "a"}));
}

// Known from Llama 3: " Việt" is one token although its merges lead elsewhere.
TEST(BytePairs, AWordThatIsATokenWinsOverTheMerges) {
  TokenizerData data = Bytes("llama-bpe", {"a b", "c d"});
  data.tokens.push_back("abcd");
  data.token_types.push_back(1);
  data.add_bos = false;
  const auto llama = Make(data);
  EXPECT_EQ(Texts(*llama, llama->Encode("abcd", {}).value()), std::vector<std::string>{"abcd"});
  data.pre = "qwen2";
  const auto qwen = Make(data);
  EXPECT_EQ(Texts(*qwen, qwen->Encode("abcd", {}).value()), (std::vector<std::string>{"ab", "cd"}));
}

// 歪 is E6 AD AA; the first two bytes are a token of their own and must come back as that token.
TEST(BytePairs, CutCharacters) {
  const auto tokenizer = Make(Bytes("llama-bpe", {BytesToAlphabet("\xE6") + " " + BytesToAlphabet("\xAD")}));
  const std::string cut = "\xE6\xAD";
  const Ids ids = tokenizer->Encode(cut, {.invalid_utf8 = InvalidUtf8::kKeepBytes}).value();
  EXPECT_EQ(ids, Ids{256});
  EXPECT_EQ(tokenizer->Decode(ids, {}).value(), cut);
  EXPECT_EQ(tokenizer->Decode(tokenizer->Encode(cut, {}).value(), {}).value(), "\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(BytePairs, QwenNormalizesToNfc) {
  const auto tokenizer = Make(Bytes("qwen2", {"a b"}));
  EXPECT_EQ(tokenizer->Encode("e\xCC\x81", {}).value(), tokenizer->Encode("\xC3\xA9", {}).value());
  const auto gpt2 = Make(Bytes("gpt-2", {"a b"}));
  EXPECT_NE(gpt2->Encode("e\xCC\x81", {}).value(), gpt2->Encode("\xC3\xA9", {}).value());
}

// Gemma 4: plain UTF-8 tokens, U+2581 for the space, byte tokens, newline runs whole, BOS whatever the file says.
TEST(BytePairs, PlainUtf8Tokens) {
  TokenizerData data = Sentence({"▁", "a", "b", "▁a", "\n", "\n\n", "\n\n\n"});
  data.model = "gemma4";
  data.scores.clear();
  data.merges = {"▁ a", "\n \n"};
  data.bos_id = 1;
  data.add_bos = false;
  const auto tokenizer = Make(data);
  const Ids ids = tokenizer->Encode(" ab\n\n\n\xC3\xA9", {.add_special = true}).value();
  EXPECT_EQ(Texts(*tokenizer, ids), (std::vector<std::string>{"<s>", "▁a", "b", "\n\n\n", "<0xC3>", "<0xA9>"}));
  EXPECT_EQ(tokenizer->Decode(ids, {.show_special = false}).value(), " ab\n\n\n\xC3\xA9");
}

TEST(SpecialTokens, ControlTokensOnlyWhereParsed) {
  const auto tokenizer = Make(Bytes("gpt-2", {"a b"}, {"<|im_start|>", "<|im_end|>"}));
  const int32_t start = tokenizer->TokenToId("<|im_start|>");
  const int32_t end = tokenizer->TokenToId("<|im_end|>");
  ASSERT_NE(start, kNoToken);
  EXPECT_EQ(tokenizer->Encode("<|im_start|>ab<|im_end|>", {.parse_special = true}).value(), (Ids{start, 256, end}));
  const Ids words = tokenizer->Encode("<|im_start|>ab<|im_end|>", {}).value();
  for (const int32_t id : words) EXPECT_FALSE(tokenizer->IsControl(id));
  EXPECT_EQ(tokenizer->Decode(words, {}).value(), "<|im_start|>ab<|im_end|>");

  // What a user types never becomes a control token, nor does a token that begins in one span and ends in the other.
  const TextSpan spans[] = {
      {"<|im_start|>", true}, {"a<|im_end|>b<|im_", false}, {"end|>", true}, {"<|im_end|>", true}};
  const Ids ids = tokenizer->EncodeSpans(spans, {}).value();
  EXPECT_EQ(std::count(ids.begin(), ids.end(), start), 1);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), end), 1);
  EXPECT_EQ(ids.back(), end);
  EXPECT_EQ(tokenizer->Decode(ids, {}).value(), "<|im_start|>a<|im_end|>b<|im_end|><|im_end|>");
}

// Spans that parse nothing are one text: a merge goes over their border.
TEST(SpecialTokens, SpansAreOneText) {
  const auto tokenizer = Make(Bytes("gpt-2", {"a b"}));
  const TextSpan spans[] = {{"a", true}, {"", false}, {"b", false}};
  EXPECT_EQ(tokenizer->EncodeSpans(spans, {}).value(), Ids{256});
  EXPECT_TRUE(tokenizer->EncodeSpans({}, {}).value().empty());
}

TEST(SpecialTokens, LongestFirstAndUserDefinedEverywhere) {
  TokenizerData data = Bytes("gpt-2", {"a b"}, {"<a>", "<a><b>"});
  data.tokens.push_back("::");
  data.token_types.push_back(4);
  const auto tokenizer = Make(data);
  EXPECT_EQ(Texts(*tokenizer, tokenizer->Encode("<a><b><a>", {.parse_special = true}).value()),
            (std::vector<std::string>{"<a><b>", "<a>"}));
  EXPECT_EQ(Texts(*tokenizer, tokenizer->Encode("a:::", {}).value()), (std::vector<std::string>{"a", "::", ":"}));
}

TEST(SpecialTokens, StripRightAsPhi3) {
  TokenizerData data = Sentence({"▁", "h", "i"});
  data.general_name = "Phi-3 mini";
  data.tokens.push_back("<|user|>");
  data.token_types.push_back(3);
  data.scores.push_back(0);
  data.add_space_prefix = false;
  const auto tokenizer = Make(data);
  EXPECT_EQ(Texts(*tokenizer, tokenizer->Encode("<|user|> \n hi", {.parse_special = true}).value()),
            (std::vector<std::string>{"<|user|>", "h", "i"}));
}

TEST(SpecialTokens, BosOnce) {
  for (const std::optional<bool> add_bos :
       {std::optional<bool>(), std::optional<bool>(true), std::optional<bool>(false)}) {
    TokenizerData data = Sentence({"▁", "h"});
    data.add_bos = add_bos;
    const auto tokenizer = Make(data);
    const bool adds = add_bos.value_or(true);
    EXPECT_EQ(tokenizer->add_bos(), adds);
    const EncodeOptions once{.add_special = true, .parse_special = true, .avoid_double_bos = true};
    const auto bos_count = [&](std::string_view text, const EncodeOptions& options) {
      const Ids ids = tokenizer->Encode(text, options).value();
      return std::count(ids.begin(), ids.end(), 1);
    };
    EXPECT_EQ(bos_count("<s>h", once), 1);
    EXPECT_EQ(bos_count("h", once), adds ? 1 : 0);
    EXPECT_EQ(bos_count("", once), adds ? 1 : 0);
    EXPECT_EQ(bos_count("<s>h", {.add_special = true, .parse_special = true}), adds ? 2 : 1);
    EXPECT_EQ(bos_count("<s>h", {.parse_special = true}), 1);
  }
}

TEST(SpecialTokens, EosAfterTheText) {
  TokenizerData data = Sentence({"▁", "h"});
  data.add_eos = true;
  const Ids ids = Make(data)->Encode("h", {.add_special = true}).value();
  EXPECT_EQ(ids.front(), 1);
  EXPECT_EQ(ids.back(), 2);
}

TEST(EndOfGeneration, ByTheFileAndByTheUsualTexts) {
  TokenizerData data = Bytes("gpt-2", {"a b"}, {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<custom>"});
  data.eos_id = static_cast<int32_t>(data.tokens.size()) - 1;
  const auto tokenizer = Make(data);
  for (const char* text : {"<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<custom>"}) {
    EXPECT_TRUE(tokenizer->IsEndOfGeneration(tokenizer->TokenToId(text))) << text;
  }
  EXPECT_FALSE(tokenizer->IsEndOfGeneration('a'));
  EXPECT_EQ(tokenizer->TokenText(tokenizer->special().eot), "<|eot_id|>");
}

// In the Harmony format a message ends with <|end|> and the turn with <|return|> or <|call|>.
TEST(EndOfGeneration, HarmonyEndGoesOn) {
  const auto harmony = Make(Bytes("gpt-4o", {"a b"}, {"<|end|>", "<|return|>", "<|call|>"}));
  EXPECT_FALSE(harmony->IsEndOfGeneration(harmony->TokenToId("<|end|>")));
  EXPECT_TRUE(harmony->IsEndOfGeneration(harmony->TokenToId("<|return|>")));
  const auto phi = Make(Bytes("gpt-4o", {"a b"}, {"<|end|>"}));
  EXPECT_TRUE(phi->IsEndOfGeneration(phi->TokenToId("<|end|>")));
}

TEST(WordPiece, UnknownWordsAndAccents) {
  TokenizerData data;
  data.model = "bert";
  data.tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "▁kan", "to", "▁to", "▁,", "▁kant"};
  data.token_types = {3, 3, 3, 3, 1, 1, 1, 1, 1};
  data.unk_id = 1;
  data.cls_id = 2;
  data.sep_id = 3;
  const auto tokenizer = Make(data);
  EXPECT_EQ(tokenizer->Encode("Kant\xC5\x8D, zz to", {.add_special = true}).value(),
            (Ids{2, 1, 7, 1, 6, 3}));  // greedy: "kant" + "o"
  data.tokens.pop_back();
  data.token_types.pop_back();
  EXPECT_EQ(Make(data)->Encode("Kant\xC5\x8D, zz to", {.add_special = true}).value(), (Ids{2, 4, 5, 7, 1, 6, 3}));
  data.normalizer_lowercase = false;
  EXPECT_EQ(Make(data)->Encode("Kanto", {}).value(), Ids{1});
}

}  // namespace
}  // namespace moonlit
