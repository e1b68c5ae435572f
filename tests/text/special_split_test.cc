// SPDX-License-Identifier: Apache-2.0
// The splitter and WordPiece against the plainest writing of their rules, on small alphabets where tokens overlap and contain each
// other in every way; and on tokens of half a million characters, where a path that is quadratic in the token's length needs more
// than 10^11 steps and fails by the test's time limit.
#include "runtime/text/special_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "runtime/text/tokenizer.h"

namespace moonlit {
namespace {

constexpr int32_t kControl = 3;
constexpr int32_t kUserDefined = 4;

std::unique_ptr<const Vocabulary> MakeVocabulary(std::vector<std::string> tokens, std::vector<int32_t> types,
                                                 const std::string& name = "") {
  TokenizerData data;
  data.tokens = std::move(tokens);
  data.token_types = std::move(types);
  data.general_name = name;
  auto vocabulary = Vocabulary::Create(&data, SpecialTokens{});
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.status().ToString();
  return std::move(vocabulary).value();
}

using Part = std::tuple<int32_t, size_t, size_t>;
std::vector<Part> Tuples(const std::vector<TextPart>& parts) {
  std::vector<Part> tuples;
  for (const TextPart& part : parts) tuples.emplace_back(part.token, part.begin, part.end);
  return tuples;
}

// The rule as it is written in the header, place by place.
std::vector<Part> PlainSplit(const Vocabulary& vocabulary, std::string_view text,
                             const std::vector<ParsedRange>& ranges) {
  std::vector<Part> parts = {{kNoToken, 0, text.size()}};
  std::vector<int32_t> ids(static_cast<size_t>(vocabulary.size()));
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return vocabulary.Text(a).size() > vocabulary.Text(b).size(); });
  for (const int32_t id : ids) {
    if (!vocabulary.IsControl(id) && !vocabulary.IsUserDefined(id)) continue;
    const std::string_view token = vocabulary.Text(id);
    std::vector<Part> cut;
    for (const auto& [kind, begin, end] : parts) {
      size_t rest = begin;
      for (size_t at = begin; kind == kNoToken && at + token.size() <= end;) {
        const size_t after = at + token.size();
        const bool parsed =
            vocabulary.IsUserDefined(id) ||
            std::any_of(ranges.begin(), ranges.end(), [&](ParsedRange r) { return r.begin <= at && after <= r.end; });
        if (!parsed || text.substr(at, token.size()) != token) {
          ++at;
          continue;
        }
        if (at > rest) cut.emplace_back(kNoToken, rest, at);
        cut.emplace_back(id, size_t{0}, size_t{0});
        rest = after;
        while (vocabulary.StripsRight(id) && rest < end && text[rest] == ' ') ++rest;
        at = rest;
      }
      if (kind != kNoToken) cut.emplace_back(kind, begin, end);
      if (kind == kNoToken && rest < end) cut.emplace_back(kNoToken, rest, end);
    }
    parts = std::move(cut);
  }
  return parts;
}

std::string RandomText(std::mt19937& random, size_t most, std::string_view alphabet) {
  std::string text(1 + random() % most, ' ');
  for (char& c : text) c = alphabet[random() % alphabet.size()];
  return text;
}

TEST(SpecialSplit, AgreesWithTheRuleWrittenPlainly) {
  std::mt19937 random(1);
  size_t tokens_found = 0;
  for (int round = 0; round < 4000; ++round) {
    const std::string_view alphabet = round % 2 == 0 ? "ab" : "ab ";
    std::vector<std::string> tokens;
    std::vector<int32_t> types;
    while (tokens.size() < 1 + static_cast<size_t>(round) % 6) {
      std::string token = RandomText(random, 5, alphabet);
      if (std::find(tokens.begin(), tokens.end(), token) != tokens.end()) token += std::to_string(tokens.size());
      tokens.push_back(std::move(token));
      types.push_back(random() % 2 == 0 ? kControl : kUserDefined);
    }
    // Phi-3's special tokens take the white space to their right.
    const auto vocabulary = MakeVocabulary(tokens, types, round % 3 == 0 ? "phi-3" : "");
    const SpecialSplitter splitter(*vocabulary);
    const std::string text = RandomText(random, 40, alphabet);
    std::vector<ParsedRange> ranges;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.size(), at + 1 + random() % 12);
      if (random() % 2 == 0) ranges.push_back({at, end});
      at = end;
    }
    const std::vector<Part> parts = Tuples(splitter.Split(text, ranges));
    ASSERT_EQ(parts, PlainSplit(*vocabulary, text, ranges)) << "round " << round << ": " << text;
    tokens_found += static_cast<size_t>(
        std::count_if(parts.begin(), parts.end(), [](const Part& part) { return std::get<0>(part) != kNoToken; }));
  }
  EXPECT_GT(tokens_found, 4000u);
}

TEST(SpecialSplit, TokensOfHalfAMillionCharacters) {
  const std::string run(size_t{1} << 19, 'a');
  const auto vocabulary = MakeVocabulary({"x", run + "b", "b" + run, run + "c" + run, "aab"},
                                         {1, kUserDefined, kControl, kUserDefined, kUserDefined});
  const SpecialSplitter splitter(*vocabulary);
  const std::string nearly = run + run;
  const ParsedRange all{0, 8 * run.size()};
  EXPECT_EQ(Tuples(splitter.Split(nearly, {all})), (std::vector<Part>{{kNoToken, 0, nearly.size()}}));
  EXPECT_EQ(
      Tuples(splitter.Split(nearly + "b" + run, {all})),
      (std::vector<Part>{{kNoToken, 0, run.size()}, {1, 0, 0}, {kNoToken, 2 * run.size() + 1, 3 * run.size() + 1}}));
  EXPECT_EQ(
      Tuples(splitter.Split(nearly + "c" + nearly, {})),
      (std::vector<Part>{{kNoToken, 0, run.size()}, {3, 0, 0}, {kNoToken, 3 * run.size() + 1, 4 * run.size() + 1}}));
}

TokenizerData WordPieces(const std::vector<std::string>& pieces) {
  TokenizerData data;
  data.model = "bert";
  data.tokens = {"[UNK]", "[CLS]", "[SEP]"};
  data.token_types = {kControl, kControl, kControl};
  data.unk_id = 0;
  data.cls_id = 1;
  data.sep_id = 2;
  data.tokens.insert(data.tokens.end(), pieces.begin(), pieces.end());
  data.token_types.resize(data.tokens.size(), 1);
  return data;
}

TEST(WordPieceLongest, AgreesWithTryingEveryLength) {
  std::mt19937 random(2);
  size_t known = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<std::string> pieces = {
        "\xE2\x96\x81"
        "a",
        "\xE2\x96\x81"
        "b",
        "a"};
    // The last are halves of a character, which no word may be cut at.
    for (int i = 0; i < 5; ++i) pieces.push_back(RandomText(random, 4, "ab"));
    pieces.push_back("a\xC3");
    pieces.push_back("\xA6");
    auto tokenizer = Tokenizer::Create(WordPieces(pieces));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    std::string word = RandomText(random, 20, "ab");
    if (round % 10 == 0) word += "\xC3\xA6";
    const std::string text = "\xE2\x96\x81" + word;
    std::vector<int32_t> expected;
    for (size_t at = 0; at < text.size();) {
      int32_t id = kNoToken;
      size_t length = text.size() - at;
      for (; length > 0; --length) {
        const bool whole = at + length == text.size() || (text[at + length] & 0xC0) != 0x80;
        if (whole) id = (*tokenizer)->TokenToId(text.substr(at, length));
        if (id != kNoToken) break;
      }
      if (id == kNoToken) {
        expected = {0};
        break;
      }
      expected.push_back(id);
      at += length;
    }
    const auto ids = (*tokenizer)->Encode(word, {.add_special = false});
    ASSERT_TRUE(ids.ok());
    ASSERT_EQ(*ids, expected) << word;
    known += expected[0] != 0;
  }
  EXPECT_GT(known, 200u);
}

TEST(WordPieceLongest, PiecesOfAHundredThousandCharacters) {
  const std::string run(size_t{1} << 17, 'a');
  auto tokenizer =
      Tokenizer::Create(WordPieces({"\xE2\x96\x81"
                                    "a",
                                    "a", run + "b"}));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  const auto ids = (*tokenizer)->Encode(run + run, {.add_special = false});
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ids->size(), 2 * run.size());
  const auto tail = (*tokenizer)->Encode(run + "aab", {.add_special = false});
  ASSERT_TRUE(tail.ok());
  EXPECT_EQ(*tail, (std::vector<int32_t>{3, 4, 5}));
}

}  // namespace
}  // namespace moonlit
