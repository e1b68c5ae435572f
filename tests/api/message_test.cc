// SPDX-License-Identifier: Apache-2.0
// Messages and lines of the log are well-formed UTF-8, wherever they are cut to fit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <string>

#include "runtime/api/moonlit.h"
#include "runtime/text/utf8.h"
#include "tests/api/loaded_poet.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using ::testing::HasSubstr;

class MessageTest : public LoadedPoet {
 protected:
  // What a chat with this template says, which must be refused.
  std::string Refused(const std::string& chat_template, int64_t now = 0) {
    moonlit_chat_options options;
    moonlit_chat_options_init(&options, sizeof options);
    options.chat_template = chat_template.c_str();
    options.now = now;
    const moonlit_chat_message message = {"user", "A lake?", 7};
    size_t length = 0;
    moonlit_error error = {};
    EXPECT_NE(moonlit_chat_render(model, &message, 1, &options, nullptr, 0, &length, &error), MOONLIT_OK)
        << chat_template;
    return error.message;
  }
};

std::string Repeat(const std::string& text, size_t times) {
  std::string all;
  for (size_t i = 0; i < times; ++i) all += text;
  return all;
}

// Four shifts put every byte of a character at the cut.
std::string Shifted(size_t shift, size_t times) { return std::string(shift, 'a') + Repeat("月é", times); }

TEST_F(MessageTest, OfAnErrorAreCutBetweenCharacters) {
  for (size_t shift = 0; shift < 5; ++shift) {
    moonlit_model* loaded = nullptr;
    moonlit_error error = {};
    ASSERT_EQ(moonlit_model_load(Shifted(shift, 500).c_str(), nullptr, &loaded, &error), MOONLIT_NOT_FOUND);
    EXPECT_GE(std::strlen(error.message), sizeof error.message - 4) << "long enough to be cut";
    EXPECT_TRUE(Utf8IsValid(error.message)) << error.message;
  }
}

TEST_F(MessageTest, OfTemplatesAreCutBetweenCharacters) {
  const char* const templates[] = {
      "{{ raise_exception('@') }}", "{{ @() }}", "{{ @.a }}",         "{{ 'a' | @ }}", "{{ 'a' is @ }}",
      "{{ range(@=1) }}",           "{% @ %}",   "{% set @.a = 1 %}", "{{ 'a' @ }}",   "{{ a.@() }}",
      "{{ @(@=1, @=2) }}"};
  for (const std::string pattern : templates) {
    for (size_t shift = 0; shift < 5; ++shift) {
      std::string text = pattern;
      while (text.find('@') != std::string::npos) text.replace(text.find('@'), 1, Shifted(shift, 300));
      const std::string message = Refused(text);
      EXPECT_TRUE(Utf8IsValid(message)) << pattern << ": " << message;
    }
  }
}

TEST_F(MessageTest, OfATimeWithoutADateTellsTheTime) {
  EXPECT_THAT(Refused("{{ strftime_now('%Y') }}", INT64_MAX), HasSubstr("9223372036854775807 seconds"));
}

TEST_F(MessageTest, OfQuantizingTheCarriedModelTellsThatItIsQuantized) {
  moonlit_write_options options;
  moonlit_write_options_init(&options, sizeof options);
  options.type = "Q8_0";
  moonlit_error error = {};
  EXPECT_EQ(moonlit_quantize("poet", "out.gguf", &options, nullptr, &error), MOONLIT_UNSUPPORTED);
  EXPECT_THAT(error.message, HasSubstr("quantized already"));
}

TEST_F(MessageTest, OfSchemasAreCutBetweenCharacters) {
  for (size_t shift = 0; shift < 5; ++shift) {
    const std::string schema = R"({"type": "object", "properties": {")" + Shifted(shift, 300) + R"(": {"type": 7}}})";
    moonlit_grammar* grammar = nullptr;
    moonlit_error error = {};
    ASSERT_NE(moonlit_grammar_new_json(model, schema.data(), schema.size(), &grammar, &error), MOONLIT_OK);
    EXPECT_THAT(error.message, HasSubstr("properties"));
    EXPECT_TRUE(Utf8IsValid(error.message)) << error.message;
  }
}

TEST(LogTest, LinesAreCutBetweenCharacters) {
  const std::string bytes =
      ReadWholeFile(MOONLIT_SOURCE_DIR "/tests/data/golden/llama/model.gguf") + std::string(5000, 'x');
  for (size_t shift = 0; shift < 5; ++shift) {
    const TempFolder folder;
    std::string name = Shifted(shift, 40);
    for (int depth = 0; depth < 4; ++depth) {
      ASSERT_EQ(mkdir((folder.path() + "/" + name).c_str(), 0700), 0);
      name += "/" + Shifted(0, 40);
    }
    std::string line;
    moonlit_model_options options;
    moonlit_model_options_init(&options, sizeof options);
    options.threads = 1;
    options.log = [](void* user, moonlit_log_level, const char* text) { *static_cast<std::string*>(user) = text; };
    options.log_user = &line;
    moonlit_model* model = nullptr;
    moonlit_error error = {};
    ASSERT_EQ(moonlit_model_load(folder.Write(name + ".gguf", bytes).c_str(), &options, &model, &error), MOONLIT_OK)
        << error.message;
    moonlit_model_free(model);
    EXPECT_GE(line.size(), 1000u) << "long enough to be cut";
    EXPECT_TRUE(Utf8IsValid(line)) << line;
  }
}

}  // namespace
}  // namespace moonlit
