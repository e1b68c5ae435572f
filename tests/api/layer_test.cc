// SPDX-License-Identifier: Apache-2.0
// What moonlit.hpp adds to the functions it calls: values that are constant, errors that are asked, defaults.
#include "runtime/api/moonlit.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace {

using moonlit::api::Error;
using moonlit::api::Expected;
using moonlit::api::Model;
using moonlit::api::Session;
using ::testing::HasSubstr;

moonlit_model_options Small() {
  auto options = Model::Options();
  options.threads = 1;
  options.n_ctx = 64;
  return options;
}

TEST(Layer, GivesAConstantValueToo) {
  const auto model = Model::Load("poet", Small());
  ASSERT_TRUE(model) << model.error().message;
  const auto ids = model->Tokenize("床前");
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_EQ((*ids).size(), ids->size());
  EXPECT_EQ(ids->front(), model->BeginToken()) << "by default a text begins";
  static_assert(std::is_same_v<decltype(*std::declval<const Expected<int>&>()), const int&>);
  EXPECT_STREQ(moonlit::api::Version(), moonlit_version());
}

TEST(Layer, AnErrorIsTrueWhereThereIsOne) {
  auto model = Model::Load("poet", Small());
  ASSERT_TRUE(model) << model.error().message;
  auto session = model->NewSession();
  ASSERT_TRUE(session) << session.error().message;
  EXPECT_FALSE(session->Truncate(0));
  const Error error = session->Truncate(1);
  EXPECT_TRUE(error);
  EXPECT_THAT(error.message, HasSubstr("the session has only 0"));
  static_assert(!std::is_convertible_v<Error, bool>, "only where one asks");
}

TEST(Layer, OptionsThatAreLeftOutAreTheDefaults) {
  auto model = Model::Load("poet", Small());
  ASSERT_TRUE(model) << model.error().message;
  auto session = model->NewSession();
  ASSERT_TRUE(session) << session.error().message;
  const auto ids = model->Tokenize("床前");
  ASSERT_TRUE(ids);
  const auto text_with = [&](const auto&... options) {
    std::string text;
    EXPECT_FALSE(session->Truncate(0));
    const auto result =
        session->Generate(*ids, options..., [&](std::string_view piece) { return text += piece, true; });
    EXPECT_TRUE(result) << result.error().message;
    return text;
  };
  const std::string expected = text_with(Session::GenerateOptions());
  EXPECT_NE(expected, "");
  EXPECT_EQ(text_with(std::nullopt), expected);
  std::string text;
  ASSERT_FALSE(session->Truncate(0));
  const auto result = session->Generate(*ids, {}, [&](std::string_view piece) { return text += piece, true; });
  EXPECT_TRUE(result) << result.error().message;
  EXPECT_EQ(text, expected);

  ASSERT_FALSE(session->Truncate(0));
  moonlit_generate_options zeroed = {};
  zeroed.max_tokens = 3;
  EXPECT_EQ(session->Generate(*ids, zeroed).error().code, MOONLIT_INVALID_ARGUMENT) << "not the whole text";
  EXPECT_FALSE(session->Eval(*ids, MOONLIT_OUTPUT_NONE));
  EXPECT_EQ(session->length(), ids->size());
}

TEST(Layer, MeasuresBothWays) {
  auto model = Model::Load("poet", Small());
  ASSERT_TRUE(model) << model.error().message;
  auto session = model->NewSession();
  ASSERT_TRUE(session) << session.error().message;
  const auto ids = model->Tokenize("床前明月光，疑是地上霜。举头望明月，低头思故乡。");
  ASSERT_TRUE(ids);
  size_t windows = 0;
  const auto plain = session->Perplexity(*ids, 8, [&](size_t done, size_t, double) { return windows = done, true; });
  ASSERT_TRUE(plain) << plain.error().message;
  EXPECT_EQ(plain->windows, windows);
  auto options = Session::PerplexityOptions();
  options.window = 8;
  const auto with = session->Perplexity(*ids, options);
  ASSERT_TRUE(with) << with.error().message;
  EXPECT_EQ(with->perplexity, plain->perplexity);
  EXPECT_GT(with->perplexity, 1.0);
  EXPECT_EQ(session->Perplexity(*ids, 8, [](size_t, size_t, double) { return false; }).error().code, MOONLIT_CANCELLED);
}

TEST(Layer, WritesFiles) {
  const std::string folder = testing::TempDir(), converted = folder + "layer-f16.gguf",
                    small = folder + "layer-q8.gguf";
  auto options = moonlit::api::WriteOptions();
  options.type = "F16";
  options.threads = 1;
  const auto first = moonlit::api::Convert(MOONLIT_SOURCE_DIR "/tests/data/hugging_face/llama", converted, options);
  ASSERT_TRUE(first) << first.error().message;
  const std::vector<std::string> inputs = {converted};
  EXPECT_TRUE(moonlit::api::CheckOutput(converted, inputs));
  EXPECT_FALSE(moonlit::api::CheckOutput(small, inputs));
  options.type = "Q8_0";
  const auto second = moonlit::api::Quantize(converted, small, options);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_LT(second->bytes, first->bytes);
  EXPECT_EQ(moonlit::api::Quantize("there-is-none.gguf", small).error().code, MOONLIT_NOT_FOUND);
  moonlit::api::RemoveUnfinishedFiles();  // of which there are none
}

// What a call gives may have grown since it was asked how long it is.
TEST(Layer, ResultsThatGrowAreTakenWhole) {
  size_t calls = 0;
  const auto filled =
      moonlit::api::Filled<std::vector<int32_t>>(1, [&](int32_t* ids, size_t capacity, size_t* count, moonlit_error*) {
        *count = ++calls * 3;
        for (size_t i = 0; i < std::min(*count, capacity); ++i) ids[i] = 7;
        if (calls > 4) *count = 2;
        return MOONLIT_OK;
      });
  ASSERT_TRUE(filled);
  EXPECT_EQ(calls, 5u);
  EXPECT_EQ(*filled, std::vector<int32_t>(2, 7));
  const auto refused = moonlit::api::Filled<std::string>(1, [&](char*, size_t, size_t*, moonlit_error* error) {
    *error = {MOONLIT_BUSY, "not now"};
    return error->code;
  });
  EXPECT_EQ(refused.error().code, MOONLIT_BUSY);
}

TEST(Layer, EmptyFunctionsAreRefusedWhereOneIsNeeded) {
  auto model = Model::Load("poet", Small());
  ASSERT_TRUE(model) << model.error().message;
  auto session = model->NewSession();
  auto sampler = model->NewSampler(1);
  ASSERT_TRUE(session && sampler);
  EXPECT_EQ(session->Write({}).code, MOONLIT_INVALID_ARGUMENT);
  EXPECT_EQ(session->Read({}).code, MOONLIT_INVALID_ARGUMENT);
  EXPECT_EQ(sampler->AppendCustom({}).code, MOONLIT_INVALID_ARGUMENT);
}

// A function of an application's own whose copy can't be made.
struct Uncopied {
  explicit Uncopied(const bool* throws) : throws_(throws) {}
  Uncopied(const Uncopied& other) : throws_(other.throws_) {
    if (*throws_) throw std::runtime_error("no copy");
  }
  size_t operator()(std::span<moonlit_token_logit> tokens) const { return tokens.size(); }
  const bool* throws_;
};

TEST(Layer, ACustomStepThatCannotBeCopiedIsACode) {
  auto model = Model::Load("poet", Small());
  ASSERT_TRUE(model) << model.error().message;
  auto sampler = model->NewSampler(1);
  ASSERT_TRUE(sampler);
  bool throws = false;
  ASSERT_FALSE(sampler->AppendCustom(Uncopied(&throws)));
  EXPECT_TRUE(sampler->Clone());
  throws = true;
  EXPECT_EQ(sampler->Clone().error().code, MOONLIT_OUT_OF_MEMORY);
}

}  // namespace
