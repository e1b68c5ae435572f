// SPDX-License-Identifier: Apache-2.0
// Embeddings through the C interface, against transformers in float32 (tests/data/golden/bert).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/api/moonlit.h"

namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

const std::string kFolder = MOONLIT_SOURCE_DIR "/tests/data/golden/bert/";

class Embed : public testing::Test {
 protected:
  void SetUp() override {
    std::ifstream file(kFolder + "golden.json");
    golden_ = Json::parse(file);
    Load(1);
  }
  void TearDown() override { moonlit_model_free(model_); }

  void Load(uint32_t threads) {
    moonlit_model_free(model_);
    moonlit_model_options options;
    moonlit_model_options_init(&options, sizeof options);
    options.key_type = options.value_type = "f32";  // judge the model, not the cache
    options.threads = threads;
    ASSERT_EQ(moonlit_model_load((kFolder + "model.gguf").c_str(), &options, &model_, &error_), MOONLIT_OK)
        << error_.message;
  }

  std::vector<float> Vector(const std::vector<int32_t>& ids, moonlit_pooling pooling, bool raw) {
    moonlit_embed_options options;
    moonlit_embed_options_init(&options, sizeof options);
    options.pooling = pooling;
    options.raw = raw ? 1 : 0;
    std::vector<float> vector(72);
    size_t width = 0;
    EXPECT_EQ(moonlit_embed(model_, ids.data(), ids.size(), &options, vector.data(), vector.size(), &width, &error_),
              MOONLIT_OK)
        << error_.message;
    EXPECT_EQ(width, vector.size());
    return vector;
  }

  static void ExpectNear(const std::vector<float>& found, const Json& expected, double tolerance) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], double{expected[i]}, tolerance) << i;
  }

  Json golden_;
  moonlit_model* model_ = nullptr;
  moonlit_error error_ = {};
};

// Values are around 1, and the fixtures' own float32 noise is below 2e-5 (their README); in a vector of length 1 an eighth of it.
TEST_F(Embed, AgreesWithTheReferenceImplementation) {
  ASSERT_EQ(golden_["inputs"].size(), 2u);
  for (const Json& input : golden_["inputs"]) {
    const std::vector<int32_t> ids = input["tokens"];
    ExpectNear(Vector(ids, MOONLIT_POOLING_DEFAULT, true), input["embedding"], 1e-4);
    ExpectNear(Vector(ids, MOONLIT_POOLING_MEAN, false), input["embedding_normalized"], 2e-5);
    ExpectNear(Vector(ids, MOONLIT_POOLING_LAST, true), input["last_token"], 1e-4);
  }
}

// A text of one token is its own first, last and mean; the first of a longer one is none of the others.
TEST_F(Embed, PoolsTheTokensAskedFor) {
  const std::vector<int32_t> one = {2}, three = {2, 74, 3};
  const std::vector<float> mean = Vector(one, MOONLIT_POOLING_MEAN, true);
  EXPECT_EQ(mean, Vector(one, MOONLIT_POOLING_FIRST, true));
  EXPECT_EQ(mean, Vector(one, MOONLIT_POOLING_LAST, true));
  const std::vector<float> first = Vector(three, MOONLIT_POOLING_FIRST, true);
  EXPECT_NE(first, mean) << "the first token sees those after it";
  EXPECT_NE(first, Vector(three, MOONLIT_POOLING_LAST, true));
  double squares = 0;
  for (float x : Vector(three, MOONLIT_POOLING_FIRST, false)) squares += double{x} * double{x};
  EXPECT_NEAR(squares, 1.0, 1e-6);
}

TEST_F(Embed, BitsDoNotDependOnThreads) {
  const std::vector<int32_t> ids = golden_["inputs"][0]["tokens"];
  const std::vector<float> one = Vector(ids, MOONLIT_POOLING_DEFAULT, false);
  EXPECT_EQ(one, Vector(ids, MOONLIT_POOLING_DEFAULT, false)) << "the first left something behind";
  Load(2);
  EXPECT_EQ(one, Vector(ids, MOONLIT_POOLING_DEFAULT, false));
}

TEST_F(Embed, TextsGetTheModelsSpecialTokens) {
  for (const Json& check : golden_["tokenizer_checks"]) {
    const std::string text = check["text"];
    std::vector<int32_t> ids(64), expected = {2};
    size_t count = 0;
    ASSERT_EQ(moonlit_tokenize(model_, text.data(), text.size(), MOONLIT_ADD_SPECIAL, ids.data(), ids.size(), &count,
                               &error_),
              MOONLIT_OK);
    ids.resize(count);
    for (int32_t id : check["ids"]) expected.push_back(id);
    expected.push_back(3);
    EXPECT_EQ(ids, expected) << text;
  }
}

TEST_F(Embed, RefusesWhatItCannotDo) {
  const std::vector<int32_t> ids = {2, 74, 3};
  size_t width = 0;
  EXPECT_EQ(moonlit_embed(model_, ids.data(), 0, nullptr, nullptr, 0, &width, &error_), MOONLIT_INVALID_ARGUMENT);
  const std::vector<int32_t> much(129, 74);
  EXPECT_EQ(moonlit_embed(model_, much.data(), much.size(), nullptr, nullptr, 0, &width, &error_), MOONLIT_EXHAUSTED);
  EXPECT_THAT(error_.message, HasSubstr("129 tokens"));
  const std::vector<int32_t> unknown = {352};
  EXPECT_EQ(moonlit_embed(model_, unknown.data(), 1, nullptr, nullptr, 0, &width, &error_), MOONLIT_INVALID_ARGUMENT);
  EXPECT_EQ(moonlit_embed(model_, ids.data(), ids.size(), nullptr, nullptr, 0, &width, &error_), MOONLIT_OK);
  EXPECT_EQ(width, 72u);

  moonlit_session* session = nullptr;
  ASSERT_EQ(moonlit_session_new(model_, &session, &error_), MOONLIT_OK);
  EXPECT_EQ(moonlit_embed(model_, ids.data(), ids.size(), nullptr, nullptr, 0, &width, &error_), MOONLIT_EXHAUSTED);
  EXPECT_EQ(moonlit_eval(session, ids.data(), ids.size(), MOONLIT_OUTPUT_LAST, nullptr, nullptr, &error_),
            MOONLIT_UNSUPPORTED);
  EXPECT_THAT(error_.message, HasSubstr("embeddings of texts"));
  moonlit_generate_options options;
  moonlit_generate_options_init(&options, sizeof options);
  EXPECT_EQ(moonlit_generate(session, ids.data(), ids.size(), &options, nullptr, &error_), MOONLIT_UNSUPPORTED);
  moonlit_session_free(session);

  moonlit_model* poet = nullptr;
  ASSERT_EQ(moonlit_model_load("poet", nullptr, &poet, &error_), MOONLIT_OK) << error_.message;
  EXPECT_EQ(moonlit_embed(poet, ids.data(), ids.size(), nullptr, nullptr, 0, &width, &error_), MOONLIT_UNSUPPORTED);
  EXPECT_THAT(error_.message, HasSubstr("probabilities of tokens"));
  moonlit_model_free(poet);
}

}  // namespace
