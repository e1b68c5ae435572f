// SPDX-License-Identifier: Apache-2.0
// Embeddings through the C interface, against transformers in float32 (tests/data/golden/bert).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/api/moonlit.h"
#include "tests/support/altered_gguf.h"
#include "tests/support/temp_folder.h"

namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

const std::string kGolden = MOONLIT_SOURCE_DIR "/tests/data/golden/";

class Embed : public testing::Test {
 protected:
  void SetUp() override { Open("bert"); }
  void Open(const std::string& name) {
    path_ = kGolden + name + "/model.gguf";
    std::ifstream file(kGolden + name + "/golden.json");
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
    ASSERT_EQ(moonlit_model_load(path_.c_str(), &options, &model_, &error_), MOONLIT_OK) << error_.message;
  }

  std::vector<float> Vector(const std::vector<int32_t>& ids, moonlit_pooling pooling, bool raw) {
    moonlit_embed_options options;
    moonlit_embed_options_init(&options, sizeof options);
    options.pooling = pooling;
    options.raw = raw ? 1 : 0;
    std::vector<float> vector(golden_["inputs"][0]["embedding"].size());
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

  std::string path_;
  Json golden_;
  moonlit_model* model_ = nullptr;
  moonlit_error error_ = {};
};

// Values are around 1, and the fixtures' own float32 noise is below 2e-5 (their README); in a vector of length 1 an eighth of it.
TEST_F(Embed, AgreesWithTheReferenceImplementation) {
  for (const auto& [name, pooling] :
       {std::pair("bert", MOONLIT_POOLING_MEAN), std::pair("bert-cls", MOONLIT_POOLING_FIRST)}) {
    Open(name);
    ASSERT_EQ(golden_["inputs"].size(), 2u);
    for (const Json& input : golden_["inputs"]) {
      const std::vector<int32_t> ids = input["tokens"];
      ExpectNear(Vector(ids, MOONLIT_POOLING_DEFAULT, true), input["embedding"], 1e-4);
      ExpectNear(Vector(ids, pooling, false), input["embedding_normalized"], 2e-5);
      ExpectNear(Vector(ids, MOONLIT_POOLING_LAST, true), input["last_token"], 1e-4);
    }
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
  EXPECT_EQ(moonlit_embed(poet, ids.data(), ids.size(), nullptr, nullptr, 0, &width, &error_),
            MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("choose mean, first or last"));
  moonlit_model_free(poet);
}

// A file that says how its texts become vectors is an embedding model, whether it could make text or not.
TEST(EmbedText, TakesThePoolingThatTheFileNames) {
  const moonlit::TempFolder folder;
  const std::string llama = MOONLIT_SOURCE_DIR "/tests/data/golden/llama/model.gguf";
  const auto embed = [&](uint32_t type, moonlit_pooling pooling) {
    const std::string path = folder.path() + "/model.gguf";
    moonlit::test::WriteAltered(
        llama, {.write = [&](moonlit::GgufWriter& writer) { writer.SetU32("llama.pooling_type", type); }}, path);
    moonlit_model* model = nullptr;
    moonlit_error error = {};
    std::vector<float> vector;
    if (moonlit_model_load(path.c_str(), nullptr, &model, &error) == MOONLIT_OK) {
      const std::vector<int32_t> ids = {5, 100, 7};
      moonlit_embed_options options;
      moonlit_embed_options_init(&options, sizeof options);
      options.pooling = pooling;
      size_t width = 0;
      vector.resize(72);
      if (moonlit_embed(model, ids.data(), ids.size(), &options, vector.data(), 72, &width, &error) != MOONLIT_OK)
        vector.clear();
    }
    moonlit_model_free(model);
    return std::pair(error.code, vector);
  };
  constexpr moonlit_pooling kPoolings[] = {MOONLIT_POOLING_MEAN, MOONLIT_POOLING_FIRST, MOONLIT_POOLING_LAST};
  for (uint32_t type = 1; type <= 3; ++type) {
    const auto found = embed(type, MOONLIT_POOLING_DEFAULT);
    EXPECT_EQ(found.first, MOONLIT_OK) << type;
    EXPECT_EQ(found.second, embed(0, kPoolings[type - 1]).second) << type;
  }
  EXPECT_EQ(embed(0, MOONLIT_POOLING_DEFAULT).first, MOONLIT_INVALID_ARGUMENT);
  EXPECT_EQ(embed(4, MOONLIT_POOLING_DEFAULT).first, MOONLIT_UNSUPPORTED) << "pairs of texts are ranked";
  EXPECT_EQ(embed(5, MOONLIT_POOLING_DEFAULT).first, MOONLIT_CORRUPT);
}

// Of a model that reads a text in several steps, with one place for a session.
class EmbedLongText : public testing::Test {
 protected:
  void SetUp() override {
    moonlit_model_options options;
    moonlit_model_options_init(&options, sizeof options);
    options.chunk_tokens = 64;
    options.n_ctx = 256;
    options.threads = 2;
    options.parallel_user = this;
    options.parallel_for = [](void* user, size_t count, void (*task)(void* data, size_t index), void* data) {
      auto& self = *static_cast<EmbedLongText*>(user);
      ++self.stages_;
      if (self.stages_ == self.cancel_at_)
        std::thread([&self] { moonlit_session_cancel(self.session_); }).join();  // as any other thread could
      for (size_t i = 0; i < count; ++i) task(data, i);
    };
    ASSERT_EQ(moonlit_model_load("poet", &options, &model_, &error_), MOONLIT_OK) << error_.message;
    for (int32_t i = 0; i < 150; ++i) ids_.push_back(20 + i * 7 % 300);
    moonlit_embed_options_init(&options_, sizeof options_);
    options_.pooling = MOONLIT_POOLING_MEAN;
  }
  void TearDown() override {
    moonlit_session_free(session_);
    moonlit_model_free(model_);
  }
  moonlit_code Embed() {
    vector_.assign(1024, 0);
    size_t width = 0;
    const moonlit_code code =
        moonlit_embed(model_, ids_.data(), ids_.size(), &options_, vector_.data(), vector_.size(), &width, &error_);
    return code;
  }
  void NewSession() { ASSERT_EQ(moonlit_session_new(model_, &session_, &error_), MOONLIT_OK) << error_.message; }

  size_t stages_ = 0, cancel_at_ = SIZE_MAX;
  std::vector<int32_t> ids_;
  std::vector<float> vector_;
  moonlit_embed_options options_;
  moonlit_model* model_ = nullptr;
  moonlit_session* session_ = nullptr;
  moonlit_error error_ = {};
};

TEST_F(EmbedLongText, TellsItsProgressAndEndsWhereItIsTold) {
  struct Seen {
    std::vector<size_t> done;
    size_t end = SIZE_MAX;
  } seen;
  options_.user = &seen;
  options_.progress = [](void* user, size_t done, size_t total) {
    EXPECT_EQ(total, 150u);
    auto& to = *static_cast<Seen*>(user);
    to.done.push_back(done);
    return done == to.end ? 1 : 0;
  };
  ASSERT_EQ(Embed(), MOONLIT_OK) << error_.message;
  const std::vector<size_t> all = seen.done;
  EXPECT_THAT(all, testing::ElementsAre(0, 64, 128, 150));
  for (size_t i = 0; i < all.size(); ++i) {
    seen = {{}, all[i]};
    EXPECT_EQ(Embed(), MOONLIT_CANCELLED);
    EXPECT_EQ(seen.done.size(), i + 1);
  }
  options_.size = offsetof(moonlit_embed_options, progress);  // a caller that was compiled before there was one
  EXPECT_EQ(Embed(), MOONLIT_OK);
  EXPECT_EQ(seen.done.size(), all.size());
}

TEST_F(EmbedLongText, ASessionMayReadIt) {
  ASSERT_EQ(Embed(), MOONLIT_OK) << error_.message;
  const std::vector<float> expected = vector_;
  NewSession();
  EXPECT_EQ(Embed(), MOONLIT_EXHAUSTED) << "no place for a second one";
  options_.session = session_;
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(Embed(), MOONLIT_OK) << error_.message;
    EXPECT_EQ(vector_, expected);
    EXPECT_EQ(moonlit_session_length(session_), 0u);
  }
  ASSERT_EQ(moonlit_eval(session_, ids_.data(), 3, MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error_), MOONLIT_OK);
  EXPECT_EQ(Embed(), MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("holds 3 tokens"));
  EXPECT_EQ(moonlit_session_length(session_), 3u);
  options_.adapter_count = 1;
  EXPECT_EQ(Embed(), MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("set the adapters in the session"));
  moonlit_model* other = nullptr;
  ASSERT_EQ(moonlit_model_load("poet", nullptr, &other, &error_), MOONLIT_OK) << error_.message;
  size_t width = 0;
  EXPECT_EQ(moonlit_embed(other, ids_.data(), 3, &options_, nullptr, 0, &width, &error_), MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("of another model"));
  moonlit_model_free(other);
}

TEST_F(EmbedLongText, AnotherThreadEndsItByItsSession) {
  NewSession();
  options_.session = session_;
  stages_ = 0;
  ASSERT_EQ(Embed(), MOONLIT_OK) << error_.message;
  const size_t all = stages_;
  ASSERT_GT(all, 20u);
  for (const size_t at : {size_t{1}, all / 2, all}) {
    stages_ = 0;
    cancel_at_ = at;
    EXPECT_EQ(Embed(), MOONLIT_CANCELLED) << at << " of " << all;
    EXPECT_EQ(stages_, at) << "no other stage begins";
    EXPECT_EQ(moonlit_session_length(session_), 0u);
  }
  cancel_at_ = SIZE_MAX;
  EXPECT_EQ(Embed(), MOONLIT_OK) << error_.message;
}

// What a session with the adapter would give.
TEST(EmbedText, TakesAdapters) {
  const std::string data = MOONLIT_SOURCE_DIR "/tests/data/";
  moonlit_error error = {};
  moonlit_model* model = nullptr;
  ASSERT_EQ(moonlit_model_load((data + "golden/llama/model.gguf").c_str(), nullptr, &model, &error), MOONLIT_OK);
  moonlit_adapter* adapter = nullptr;
  ASSERT_EQ(moonlit_adapter_load(model, (data + "llama_adapter.gguf").c_str(), &adapter, &error), MOONLIT_OK);
  const std::vector<int32_t> ids = {5, 100, 7, 33};
  const auto embed = [&](size_t count, const float* scales) {
    moonlit_embed_options options;
    moonlit_embed_options_init(&options, sizeof options);
    options.pooling = MOONLIT_POOLING_LAST;
    options.raw = 1;
    const moonlit_adapter* const adapters[] = {adapter};
    options.adapters = adapters;
    options.adapter_scales = scales;
    options.adapter_count = count;
    std::vector<float> vector(72);
    size_t width = 0;
    EXPECT_EQ(moonlit_embed(model, ids.data(), ids.size(), &options, vector.data(), 72, &width, &error), MOONLIT_OK)
        << error.message;
    return vector;
  };
  const auto hidden = [&](float scale) {
    moonlit_session* session = nullptr;
    EXPECT_EQ(moonlit_session_new(model, &session, &error), MOONLIT_OK);
    EXPECT_EQ(moonlit_session_set_adapters(session, &adapter, &scale, 1, &error), MOONLIT_OK);
    std::vector<float> vector;
    moonlit_rows rows;
    moonlit_rows_init(&rows, sizeof rows);
    rows.ids = ids.data();
    rows.count = ids.size();
    rows.outputs = MOONLIT_OUTPUT_LAST;
    rows.hidden = 1;
    rows.user = &vector;
    rows.consume = [](void* user, size_t, const float* values, size_t width) {
      static_cast<std::vector<float>*>(user)->assign(values, values + width);
    };
    EXPECT_EQ(moonlit_eval_rows(session, &rows, &error), MOONLIT_OK) << error.message;
    moonlit_session_free(session);
    return vector;
  };
  const float half = 0.5f, none = 0;
  EXPECT_EQ(embed(1, nullptr), hidden(1));
  EXPECT_EQ(embed(1, &half), hidden(0.5f));
  EXPECT_EQ(embed(0, nullptr), hidden(0));
  EXPECT_EQ(embed(1, &none), hidden(0));
  EXPECT_NE(embed(1, nullptr), hidden(0));

  moonlit_model* other = nullptr;
  ASSERT_EQ(moonlit_model_load((data + "golden/llama/model.gguf").c_str(), nullptr, &other, &error), MOONLIT_OK);
  std::swap(model, other);
  moonlit_embed_options options;
  moonlit_embed_options_init(&options, sizeof options);
  options.pooling = MOONLIT_POOLING_LAST;
  options.adapters = &adapter;
  options.adapter_count = 1;
  size_t width = 0;
  EXPECT_EQ(moonlit_embed(model, ids.data(), ids.size(), &options, nullptr, 0, &width, &error),
            MOONLIT_INVALID_ARGUMENT);
  moonlit_adapter_free(adapter);
  moonlit_model_free(model);
  moonlit_model_free(other);
}

// A Hugging Face folder as sentence-transformers has it, against what transformers computes (recipes/make_hugging_face_golden.py).
TEST(EmbedText, ReadsFoldersOfSentenceTransformers) {
  const std::string folder = MOONLIT_SOURCE_DIR "/tests/data/hugging_face/bert";
  std::ifstream file(folder + "/golden.json");
  const Json golden = Json::parse(file);
  moonlit_error error = {};
  moonlit_model* model = nullptr;
  moonlit_model_options model_options;
  moonlit_model_options_init(&model_options, sizeof model_options);
  model_options.key_type = model_options.value_type = "f32";
  model_options.exact = 1;  // BF16 weights, float activations
  ASSERT_EQ(moonlit_model_load(folder.c_str(), &model_options, &model, &error), MOONLIT_OK) << error.message;
  for (const Json& text : golden["texts"]) {
    const std::string words = text["text"];
    std::vector<int32_t> ids(64);
    size_t count = 0, width = 0;
    ASSERT_EQ(moonlit_tokenize(model, words.data(), words.size(), MOONLIT_ADD_SPECIAL | MOONLIT_PARSE_SPECIAL,
                               ids.data(), ids.size(), &count, &error),
              MOONLIT_OK);
    ids.resize(count);
    EXPECT_EQ(ids, text["ids"].get<std::vector<int32_t>>()) << words;
    std::vector<float> vector(text["embedding"].size());
    ASSERT_EQ(moonlit_embed(model, ids.data(), ids.size(), nullptr, vector.data(), vector.size(), &width, &error),
              MOONLIT_OK)
        << error.message;
    ASSERT_EQ(width, vector.size());
    for (size_t i = 0; i < width; ++i) EXPECT_NEAR(vector[i], text["embedding"][i].get<double>(), 2e-5) << words;
  }
  moonlit_model_free(model);
}

// Of a model that makes text: what is pooled are the hidden states that moonlit_eval_rows gives.
TEST(EmbedText, PoolsHiddenStates) {
  moonlit_model_options model_options;
  moonlit_model_options_init(&model_options, sizeof model_options);
  model_options.n_ctx = 128;
  model_options.max_sessions = 2;
  model_options.chunk_tokens = 64;
  moonlit_error error = {};
  moonlit_model* model = nullptr;
  ASSERT_EQ(moonlit_model_load("poet", &model_options, &model, &error), MOONLIT_OK) << error.message;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 100; ++i) ids.push_back(20 + i * 7 % 300);

  moonlit_session* session = nullptr;
  ASSERT_EQ(moonlit_session_new(model, &session, &error), MOONLIT_OK) << error.message;
  std::vector<std::vector<float>> hidden;
  for (size_t first : {size_t{0}, size_t{64}}) {
    moonlit_rows rows;
    moonlit_rows_init(&rows, sizeof rows);
    rows.ids = ids.data() + first;
    rows.count = first == 0 ? 64 : 36;
    rows.outputs = MOONLIT_OUTPUT_ALL;
    rows.hidden = 1;
    rows.user = &hidden;
    rows.consume = [](void* user, size_t, const float* values, size_t width) {
      static_cast<std::vector<std::vector<float>>*>(user)->emplace_back(values, values + width);
    };
    ASSERT_EQ(moonlit_eval_rows(session, &rows, &error), MOONLIT_OK) << error.message;
  }
  ASSERT_EQ(hidden.size(), ids.size());
  moonlit_session_free(session);

  for (const moonlit_pooling pooling : {MOONLIT_POOLING_MEAN, MOONLIT_POOLING_FIRST, MOONLIT_POOLING_LAST}) {
    moonlit_embed_options options;
    moonlit_embed_options_init(&options, sizeof options);
    options.pooling = pooling;
    options.raw = 1;
    std::vector<float> found(hidden[0].size());
    size_t width = 0;
    ASSERT_EQ(moonlit_embed(model, ids.data(), ids.size(), &options, found.data(), found.size(), &width, &error),
              MOONLIT_OK)
        << error.message;
    ASSERT_EQ(width, found.size());
    for (size_t i = 0; i < width; ++i) {
      double sum = 0;
      for (const std::vector<float>& row : hidden) sum += double{row[i]};
      const double mean = sum / static_cast<double>(hidden.size());
      if (pooling == MOONLIT_POOLING_MEAN) {
        EXPECT_NEAR(found[i], mean, 1e-6 * (1 + std::fabs(mean)));
      } else {
        EXPECT_EQ(found[i], (pooling == MOONLIT_POOLING_FIRST ? hidden.front() : hidden.back())[i]);
      }
    }
  }
  moonlit_model_free(model);
}

}  // namespace
