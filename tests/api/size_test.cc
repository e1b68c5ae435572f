// SPDX-License-Identifier: Apache-2.0
// Every struct that carries its size, with one that nobody has set: refused by name, and not taken for a struct without fields.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "runtime/api/moonlit.h"
#include "tests/api/api_headers.h"
#include "tests/api/loaded_poet.h"

namespace {

using ::testing::HasSubstr;

class Size : public moonlit::LoadedPoet {
 protected:
  // A call with a struct of that name, all of it 0 but for its size.
  struct Call {
    const char* name;
    const char* remedy;  // what the message tells the caller to do
    std::function<moonlit_code(size_t size, moonlit_error*)> call;
  };
  template <typename Sized>
  static Sized OfSize(size_t size) {
    Sized sized;
    std::memset(&sized, 0, sizeof sized);
    sized.size = size;
    return sized;
  }

  std::vector<Call> Options();
  std::vector<Call> Results();

  int32_t ids[8] = {1, 2, 3};
  char text[64] = {};
  float vector[8] = {};
  size_t count = 0;
};

std::vector<Size::Call> Size::Options() {
  using E = moonlit_error*;
  return {
      {"moonlit_model_options", "moonlit_model_options_init",
       [](size_t size, E e) {
         const auto options = OfSize<moonlit_model_options>(size);
         moonlit_model* made = nullptr;
         return moonlit_model_load("poet", &options, &made, e);
       }},
      {"moonlit_model_options", "moonlit_model_options_init",
       [](size_t size, E e) {
         const auto options = OfSize<moonlit_model_options>(size);
         auto memory = OfSize<moonlit_memory>(sizeof(moonlit_memory));
         return moonlit_plan_memory("poet", &options, &memory, e);
       }},
      {"moonlit_model_options", "moonlit_model_options_init",
       [](size_t size, E e) {
         const auto options = OfSize<moonlit_model_options>(size);
         uint32_t n_ctx = 0;
         return moonlit_plan_context("poet", &options, 1, &n_ctx, e);
       }},
      {"moonlit_chat_options", "moonlit_chat_options_init",
       [this](size_t size, E e) {
         const auto options = OfSize<moonlit_chat_options>(size);
         return moonlit_chat_tokenize(model, nullptr, 0, &options, ids, 8, &count, e);
       }},
      {"moonlit_chat_options", "moonlit_chat_options_init",
       [this](size_t size, E e) {
         const auto options = OfSize<moonlit_chat_options>(size);
         return moonlit_chat_render(model, nullptr, 0, &options, text, sizeof text, &count, e);
       }},
      {"moonlit_embed_options", "moonlit_embed_options_init",
       [this](size_t size, E e) {
         const auto options = OfSize<moonlit_embed_options>(size);
         return moonlit_embed(model, ids, 3, &options, vector, 8, &count, e);
       }},
      {"moonlit_generate_options", "moonlit_generate_options_init",
       [this](size_t size, E e) {
         const auto options = OfSize<moonlit_generate_options>(size);
         return moonlit_generate(session, ids, 3, &options, nullptr, e);
       }},
      {"moonlit_perplexity_options", "moonlit_perplexity_options_init",
       [this](size_t size, E e) {
         const auto options = OfSize<moonlit_perplexity_options>(size);
         auto result = OfSize<moonlit_perplexity_result>(sizeof(moonlit_perplexity_result));
         return moonlit_perplexity_with(session, ids, 3, &options, &result, e);
       }},
      {"moonlit_write_options", "moonlit_write_options_init",
       [](size_t size, E e) {
         const auto options = OfSize<moonlit_write_options>(size);
         return moonlit_quantize("there-is-none.gguf", "out.gguf", &options, nullptr, e);
       }},
      {"moonlit_write_options", "moonlit_write_options_init",
       [](size_t size, E e) {
         const auto options = OfSize<moonlit_write_options>(size);
         return moonlit_convert("there-is-none", "out.gguf", &options, nullptr, e);
       }},
      {"moonlit_rows", "moonlit_rows_init",
       [this](size_t size, E e) {
         const auto rows = OfSize<moonlit_rows>(size);
         return moonlit_eval_rows(session, &rows, e);
       }},
      {"moonlit_rows", "moonlit_rows_init",
       [this](size_t size, E e) {
         const auto rows = OfSize<moonlit_rows>(size);
         const moonlit_rows* const list[] = {&rows};
         return moonlit_step(&session, list, 1, e);
       }},
      {"moonlit_taps", "moonlit_taps_init",
       [this](size_t size, E e) {
         const auto taps = OfSize<moonlit_taps>(size);
         return moonlit_session_set_taps(session, &taps, e);
       }},
      {"moonlit_sampler_step", "moonlit_sampler_step_init",
       [this](size_t size, E e) {
         const auto step = OfSize<moonlit_sampler_step>(size);
         return moonlit_sampler_append(sampler, &step, e);
       }},
  };
}

std::vector<Size::Call> Size::Results() {
  using E = moonlit_error*;
  return {
      {"moonlit_memory", "sizeof",
       [](size_t size, E e) {
         auto memory = OfSize<moonlit_memory>(size);
         return moonlit_plan_memory("poet", nullptr, &memory, e);
       }},
      {"moonlit_generate_result", "sizeof",
       [this](size_t size, E e) {
         auto result = OfSize<moonlit_generate_result>(size);
         return moonlit_generate(session, ids, 3, nullptr, &result, e);
       }},
      {"moonlit_perplexity_result", "sizeof",
       [this](size_t size, E e) {
         auto result = OfSize<moonlit_perplexity_result>(size);
         return moonlit_perplexity(session, ids, 3, 2, nullptr, nullptr, &result, e);
       }},
      {"moonlit_perplexity_result", "sizeof",
       [this](size_t size, E e) {
         auto result = OfSize<moonlit_perplexity_result>(size);
         return moonlit_perplexity_with(session, ids, 3, nullptr, &result, e);
       }},
      {"moonlit_write_result", "sizeof",
       [](size_t size, E e) {
         auto result = OfSize<moonlit_write_result>(size);
         return moonlit_quantize("there-is-none.gguf", "out.gguf", nullptr, &result, e);
       }},
      {"moonlit_write_result", "sizeof",
       [](size_t size, E e) {
         auto result = OfSize<moonlit_write_result>(size);
         return moonlit_convert("there-is-none", "out.gguf", nullptr, &result, e);
       }},
  };
}

TEST_F(Size, ThatNobodySetIsRefusedByTheStructsName) {
  std::vector<Call> all = Options();
  for (const Call& one : Results()) all.push_back(one);
  for (size_t i = 0; i < all.size(); ++i) {
    for (const size_t size : {size_t{0}, sizeof(size_t) - 1}) {
      moonlit_error error = {};
      EXPECT_EQ(all[i].call(size, &error), MOONLIT_INVALID_ARGUMENT) << all[i].name << ", case " << i;
      EXPECT_THAT(error.message, HasSubstr(std::string(all[i].name) + ": its size is " + std::to_string(size)))
          << "case " << i;
      EXPECT_THAT(error.message, HasSubstr(all[i].remedy)) << "case " << i;
    }
  }
  EXPECT_EQ(moonlit_session_length(session), 0u) << "and nothing has happened";
}

// The least that an older header can have: the size alone. All fields are the defaults then, and nothing is refused.
TEST_F(Size, OfAStructWithoutOtherFieldsIsTaken) {
  moonlit_error error = {};
  const auto options = OfSize<moonlit_generate_options>(sizeof(size_t));
  auto result = OfSize<moonlit_generate_result>(sizeof(size_t));
  EXPECT_EQ(moonlit_generate(session, ids, 3, &options, &result, &error), MOONLIT_OK) << error.message;
  EXPECT_EQ(result.generated_tokens, 0u) << "there is no room for it";
  EXPECT_GT(moonlit_session_length(session), 3u);
}

TEST_F(Size, ThatNobodySetIsNothingForFunctionsWithoutACode) {
  for (const size_t size : {size_t{0}, sizeof(size_t) - 1}) {
    auto info = OfSize<moonlit_model_info>(size);
    moonlit_model_get_info(model, &info);
    EXPECT_EQ(info.size, size);
    EXPECT_EQ(info.n_vocab, 0u);
    auto memory = OfSize<moonlit_memory>(size);
    moonlit_model_memory(model, &memory);
    EXPECT_EQ(memory.size, size);
    EXPECT_EQ(memory.total, 0u);
    auto options = OfSize<moonlit_generate_options>(1000);
    moonlit_generate_options_init(&options, size);
    EXPECT_EQ(options.size, 1000u);
  }
}

// A struct that is new comes here too.
TEST_F(Size, EveryStructThatTheCallerSizesIsHere) {
  // Without a code: moonlit_model_get_info and moonlit_adapter_get_info.
  std::set<std::string> tested = {"moonlit_model_info", "moonlit_adapter_info"};
  for (const Call& one : Options()) tested.insert(one.name);
  for (const Call& one : Results()) tested.insert(one.name);
  std::set<std::string> sized;
  const std::regex begin(R"(typedef struct (\w+) \{\s*size_t size; +/\* set by)");
  const std::string source = moonlit::ApiHeaders();
  for (std::sregex_iterator found(source.begin(), source.end(), begin), end; found != end; ++found) {
    sized.insert((*found)[1]);
  }
  EXPECT_EQ(sized, tested);
}

}  // namespace
