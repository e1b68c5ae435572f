// SPDX-License-Identifier: Apache-2.0
// Real vocabularies against the ids that llama.cpp gives (and its own expected ids): equal, all of them. The
// vocabularies are other people's data: they are read where they lie, and where they are absent the tests say so and
// are skipped.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "gguf_tokenizer.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

class VocabularyGolden : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = GetParam();
    gguf_ = VocabularyFolder() + "/ggml-vocab-" + name + ".gguf";
    cases_ = VocabularyFolder() + "/" + name + ".tokens.json";
    if (!Exists(gguf_)) GTEST_SKIP() << "no third-party vocabulary at " << gguf_;
    auto tokenizer = ReadTokenizer(gguf_);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
    tokenizer_ = std::move(tokenizer).value();
  }

  std::vector<int32_t> Ids(std::string_view text, const EncodeOptions& options) const {
    auto ids = tokenizer_->Encode(text, options);
    EXPECT_TRUE(ids.ok()) << ids.status().ToString();
    return ids.ok() ? ids.value() : std::vector<int32_t>();
  }

  std::string gguf_;
  std::string cases_;
  std::unique_ptr<const Tokenizer> tokenizer_;
};

TEST_P(VocabularyGolden, AwkwardInputs) {
  const nlohmann::json golden = nlohmann::json::parse(ReadWholeFile(cases_));
  ASSERT_EQ(golden["cases"].size(), 40u);
  for (const auto& one : golden["cases"]) {
    SCOPED_TRACE(one["name"].get<std::string>());
    const std::string text = FromHex(one["bytes_hex"]);
    const auto ids = one["ids"].get<std::vector<int32_t>>();
    const auto ids_special = one["ids_special"].get<std::vector<int32_t>>();
    EXPECT_EQ(Ids(text, {}), ids);
    EXPECT_EQ(Ids(text, {.add_special = true, .parse_special = true}), ids_special);
    const DecodeOptions as_upstream{.clean_up_spaces = tokenizer_->cleans_up_spaces()};
    EXPECT_EQ(tokenizer_->Decode(ids, as_upstream).value(), FromHex(one["detok_plain_hex"]));
    EXPECT_EQ(tokenizer_->Decode(ids_special, as_upstream).value(), FromHex(one["detok_hex"]));
  }
}

TEST_P(VocabularyGolden, UpstreamInputs) {
  constexpr std::string_view kSeparator = "\n__ggml_vocab_test__\n";
  const std::string inputs = ReadWholeFile(gguf_ + ".inp");
  std::istringstream expected(ReadWholeFile(gguf_ + ".out"));
  size_t begin = 0;
  size_t count = 0;
  for (; begin <= inputs.size(); ++count) {
    const size_t found = inputs.find(kSeparator, begin);
    const size_t end = found == std::string::npos ? inputs.size() : found;
    std::string line;
    if (!std::getline(expected, line)) break;
    std::istringstream numbers(line);
    std::vector<int32_t> ids;
    for (int32_t id; numbers >> id;) ids.push_back(id);
    EXPECT_EQ(Ids(inputs.substr(begin, end - begin), {}), ids) << "input " << count;
    if (found == std::string::npos) break;
    begin = found + kSeparator.size();
  }
  EXPECT_GE(count, 45u);
}

INSTANTIATE_TEST_SUITE_P(All, VocabularyGolden,
                         testing::Values("bert-bge", "deepseek-coder", "falcon", "gpt-2", "llama-spm", "mpt", "phi-3",
                                         "starcoder"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace moonlit::test
