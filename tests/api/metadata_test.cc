// SPDX-License-Identifier: Apache-2.0
// What a model's files say of it, as texts.
#include "runtime/api/metadata_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "runtime/api/moonlit.hpp"
#include "runtime/gguf/gguf_writer.h"

namespace moonlit {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Pair;

const std::string kWithNul("\"ä\nb\0c", 7);

TEST(MetadataTexts, OfEveryTypeThatAFileHas) {
  GgufWriter writer;
  writer.SetU8("u8", 255);
  writer.SetU64("u64", std::numeric_limits<uint64_t>::max());
  writer.SetI64("i64", std::numeric_limits<int64_t>::min());
  writer.SetF32("f32", 0.1f);
  writer.SetF32("whole", 10000.0f);
  writer.SetF64("f64", 1e-300);
  writer.SetF32("infinite", std::numeric_limits<float>::infinity());
  writer.SetBool("yes", true);
  writer.SetBool("no", false);
  writer.SetString("text", kWithNul);
  writer.SetString("empty", "");
  writer.SetStringArray("texts", {"en", "\"zh\"\n"});
  writer.SetStringArray("broken", {"\xff", "b"});
  writer.SetStringArray("none", {});
  writer.SetI32Array("integers", {-1, 2});
  writer.SetF32Array("numbers", {0.5f, 2});
  writer.SetBoolArray("flags", {true, false});
  writer.SetU32Array("most", std::vector<uint32_t>(64, 7));
  writer.SetU32Array("more", std::vector<uint32_t>(65, 7));
  writer.SetStringArray("tokens", std::vector<std::string>(300, "t"));
  const std::string header = writer.Header();
  const auto file = GgufFile::OpenMemory(header.data(), header.size(), "all.gguf");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  std::string most = "[7";
  for (size_t i = 1; i < 64; ++i) most += ",7";
  const MetadataTexts expected = {{"u8", "255"},
                                  {"u64", "18446744073709551615"},
                                  {"i64", "-9223372036854775808"},
                                  {"f32", "0.1"},
                                  {"whole", "10000"},
                                  {"f64", "1e-300"},
                                  {"infinite", "inf"},
                                  {"yes", "true"},
                                  {"no", "false"},
                                  {"text", kWithNul},
                                  {"empty", ""},
                                  {"texts", R"(["en","\"zh\"\n"])"},
                                  {"broken", "[... 2 in all]"},
                                  {"none", "[]"},
                                  {"integers", "[-1,2]"},
                                  {"numbers", "[0.5,2]"},
                                  {"flags", "[true,false]"},
                                  {"most", most + "]"},
                                  {"more", "[... 65 in all]"},
                                  {"tokens", "[... 300 in all]"}};
  EXPECT_EQ(TextsOf(*file), expected);
}

TEST(MetadataTexts, OfEveryTypeThatIsMade) {
  MetadataMap map;
  map.Set("integer", uint32_t{4000000000});
  map.Set("number", 0.1f);
  map.Set("flag", true);
  map.Set("text", std::string("llama"));
  map.Set("texts", std::vector<std::string>{"a", "b"});
  map.Set("integers", std::vector<int32_t>{-1});
  map.Set("numbers", std::vector<float>{0.25f});
  map.Set("flags", std::vector<bool>{false, true});
  map.Set("tokens", std::vector<std::string>(65, "t"));
  const MetadataTexts expected = {{"integer", "4000000000"}, {"number", "0.1"},         {"flag", "true"},
                                  {"text", "llama"},         {"texts", R"(["a","b"])"}, {"integers", "[-1]"},
                                  {"numbers", "[0.25]"},     {"flags", "[false,true]"}, {"tokens", "[... 65 in all]"}};
  EXPECT_EQ(TextsOf(map), expected);
}

std::vector<std::pair<std::string, std::string>> AllOf(const api::Model& model) {
  std::vector<std::pair<std::string, std::string>> all;
  for (const std::string& key : model.MetadataKeys()) {
    auto value = model.Metadata(key);
    EXPECT_TRUE(value) << value.error().message;
    all.emplace_back(key, *value);
  }
  return all;
}

api::Model Load(const std::string& path, bool vocab_only = false) {
  moonlit_model_options options = api::Model::Options();
  options.vocab_only = vocab_only ? 1 : 0;
  options.n_ctx = 64;
  auto model = api::Model::Load(path, options);
  EXPECT_TRUE(model) << model.error().message;
  return std::move(*model);
}

TEST(ModelMetadata, OfAFileOfItsVocabularyAloneAndOfAFolder) {
  const auto poet = AllOf(Load("poet"));
  EXPECT_THAT(poet, Contains(Pair("general.architecture", "llama")));
  EXPECT_THAT(poet, Contains(Pair("tokenizer.ggml.tokens", HasSubstr(" in all]"))));
  EXPECT_EQ(AllOf(Load("poet", /*vocab_only=*/true)), poet);
  const std::string folder = MOONLIT_SOURCE_DIR "/tests/data/hugging_face/llama";
  const auto llama = AllOf(Load(folder));
  EXPECT_THAT(llama, Contains(Pair("general.architecture", "llama")));
  EXPECT_THAT(llama, Contains(Pair("general.name", "llama")));
  EXPECT_THAT(llama, Contains(Pair("llama.block_count", "2")));
  EXPECT_THAT(llama, Contains(Pair("tokenizer.ggml.tokens", HasSubstr(" in all]"))));
  EXPECT_THAT(AllOf(Load(folder, /*vocab_only=*/true)), Contains(Pair("tokenizer.ggml.tokens", HasSubstr(" in all]"))));
}

TEST(ModelMetadata, IsCutToWhatThereIsRoomFor) {
  const api::Model model = Load("poet", /*vocab_only=*/true);
  moonlit_error error = {};
  size_t length = 0;
  ASSERT_EQ(moonlit_model_metadata(model.handle(), "general.architecture", nullptr, 0, &length, &error), MOONLIT_OK)
      << error.message;
  EXPECT_EQ(length, 5u);
  char text[8] = "xxxxxxx";
  ASSERT_EQ(moonlit_model_metadata(model.handle(), "general.architecture", text, 2, &length, &error), MOONLIT_OK);
  EXPECT_EQ(length, 5u);
  EXPECT_STREQ(text, "llxxxxx");
  EXPECT_EQ(moonlit_model_metadata(model.handle(), "general.no", text, 2, &length, &error), MOONLIT_NOT_FOUND);
  EXPECT_THAT(error.message, HasSubstr("general.no"));
  const size_t count = moonlit_model_metadata_count(model.handle());
  EXPECT_EQ(model.MetadataKeys().size(), count);
  EXPECT_EQ(moonlit_model_metadata_key(model.handle(), count), nullptr);
  EXPECT_EQ(moonlit_model_metadata_key(model.handle(), SIZE_MAX), nullptr);
}

}  // namespace
}  // namespace moonlit
