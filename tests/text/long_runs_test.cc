// SPDX-License-Identifier: Apache-2.0
// Tokenizing long runs of one kind of character must neither overflow a small stack nor take quadratic time (llama.cpp
// issues 27783, 21919, 26965, 14655: engines that recurse once a character). 1 MiB on a thread with a 128 KiB stack for
// the common lists of patterns, 128 KiB for the others; a quadratic path would need 10^10 steps and fail by the test's
// time limit or by the pattern's own step limit. Where all is slowed down the stack alone is tested, with runs of 64 KiB: a frame
// for each character would take megabytes.
#include <gtest/gtest.h>
#include <pthread.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "gguf_tokenizer.h"
#include "runtime/text/pretokenizer.h"
#include "tests/support/slowed.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr size_t kStackBytes = 1024 * 1024;  // the instrumentation's frames are several times as large
#else
constexpr size_t kStackBytes = 128 * 1024;
#endif

void OnSmallStack(const std::function<void()>& work) {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_attr_init(&attributes), 0);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStackBytes), 0);
  pthread_t thread;
  const auto body = [](void* argument) -> void* {
    (*static_cast<const std::function<void()>*>(argument))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, body, const_cast<std::function<void()>*>(&work)), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

std::vector<std::pair<std::string, std::string>> Runs(size_t run_bytes) {
  const auto repeat = [run_bytes](std::string_view unit, std::string_view tail = "") {
    std::string out;
    while (out.size() < run_bytes) out += unit;
    return out.append(tail);
  };
  return {
      {"letters", repeat("a")},
      {"spaces", repeat(" ")},
      {"newlines", repeat("\n")},
      {"dots", repeat(".")},
      {"Chinese", repeat("\xE4\xB8\xAD")},
      {"combining", repeat("e\xCC\x81")},
      {"marks alone", repeat("\xCC\x81\xCC\xA3")},  // two classes: the worst case for canonical ordering
      {"digits", repeat("7")},
      {"digits before a letter", repeat("7", "a")},
      {"capitals", repeat("A")},
      {"spaces before Chinese", repeat(" ", "\xE4\xB8\xAD")},
      {"spaces before a letter", repeat(" ", "x")},
      {"tabs and newlines", repeat("\t\n")},
      {"letters with spaces", repeat("a ")},
      {"apostrophes", repeat("'")},
      {"emoji", repeat("\xF0\x9F\x98\x80")},
      {"invalid", repeat("\xE4\xB8")},
      {"NUL", repeat(std::string_view("\0", 1))},
  };
}

const nlohmann::json& Golden() {
  static const nlohmann::json golden =
      nlohmann::json::parse(ReadWholeFile(std::string(MOONLIT_SOURCE_DIR) + "/tests/data/tokenizer_golden.json"));
  return golden;
}

struct Case {
  const char* vocabulary;
  const char* pre;
  size_t run_bytes;
};

class LongRuns : public testing::TestWithParam<Case> {};

TEST_P(LongRuns, NeitherStackNorQuadraticTime) {
  const auto& [vocabulary, pre, run_bytes] = GetParam();
  TokenizerData data = FromJson(Golden()["vocabularies"][vocabulary], pre);
  for (int byte = 0; byte < 256; ++byte) {  // what tokens in plain UTF-8 ("sarvam-moe") fall back to
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    if (std::find(data.tokens.begin(), data.tokens.end(), name) != data.tokens.end()) continue;
    data.tokens.push_back(name);
    data.token_types.push_back(6);
    if (!data.scores.empty()) data.scores.push_back(0);
  }
  const auto tokenizer = Tokenizer::Create(std::move(data));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  for (const auto& [name, text] : Runs(kSlowed ? size_t{1} << 16 : run_bytes)) {
    SCOPED_TRACE(name);
    OnSmallStack([&, name = name] {
      const auto ids = tokenizer.value()->Encode(text, {.add_special = true, .parse_special = true});
      EXPECT_TRUE(ids.ok()) << name << ": " << ids.status().ToString();
      EXPECT_TRUE(!ids.ok() || !ids.value().empty()) << name;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(All, LongRuns,
                         testing::Values(Case{"tiny-spm", "", 1 << 20}, Case{"tiny-bert", "", 1 << 20},
                                         Case{"pairs", "default", 1 << 20}, Case{"pairs", "gpt-2", 1 << 20},
                                         Case{"pairs", "llama-bpe", 1 << 20}, Case{"pairs", "qwen2", 1 << 20},
                                         Case{"pairs", "deepseek-llm", 1 << 20}, Case{"pairs", "qwen35", 1 << 17},
                                         Case{"pairs", "starcoder", 1 << 17}, Case{"pairs", "falcon", 1 << 17},
                                         Case{"pairs", "bloom", 1 << 17}, Case{"pairs", "viking", 1 << 17},
                                         Case{"pairs", "tekken", 1 << 17}, Case{"pairs", "gpt-4o", 1 << 17},
                                         Case{"pairs", "tiny_aya", 1 << 17}, Case{"pairs", "youtu", 1 << 17},
                                         Case{"pairs", "deepseek-coder", 1 << 17},
                                         Case{"pairs", "deepseek-v3", 1 << 17}, Case{"pairs", "afmoe", 1 << 17},
                                         Case{"pairs", "superbpe", 1 << 17}, Case{"pairs", "bailingmoe", 1 << 17},
                                         Case{"pairs", "seed-coder", 1 << 17}, Case{"pairs", "minicpm5", 1 << 17},
                                         Case{"pairs", "exaone-moe", 1 << 17}, Case{"pairs", "jais-2", 1 << 17},
                                         Case{"pairs", "chameleon", 1 << 17}, Case{"pairs", "laguna", 1 << 17},
                                         Case{"pairs", "sarvam-moe", 1 << 17}),
                         [](const auto& info) {
                           std::string name = std::string(info.param.vocabulary) + "_" + info.param.pre;
                           for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

}  // namespace
}  // namespace moonlit::test
