// SPDX-License-Identifier: Apache-2.0
// Taps as an application sees them: what is shown, in which order, of whom; and that no bit changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "runtime/api/moonlit.hpp"

namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Golden(const char* name) {
  return std::string(MOONLIT_SOURCE_DIR) + "/tests/data/golden/" + name + "/model.gguf";
}

struct Shown {
  bool attention;
  uint32_t layer, head;
  size_t position, rows, width;
  std::vector<float> values;
  std::vector<size_t> from, to;
};

struct Record {
  std::vector<Shown> shown;
  std::vector<std::thread::id> threads;
  static void Add(void* user, const moonlit_tapped* t, bool attention) {
    auto* record = static_cast<Record*>(user);
    Shown one{attention, t->layer, t->head, t->position, t->rows, t->width, {}, {}, {}};
    one.values.assign(t->values, t->values + t->rows * t->width);
    if (attention) one.from.assign(t->seen_from, t->seen_from + t->rows);
    if (attention) one.to.assign(t->seen_to, t->seen_to + t->rows);
    record->shown.push_back(std::move(one));
    record->threads.push_back(std::this_thread::get_id());
  }
  static void Residual(void* user, const moonlit_tapped* tapped) { Add(user, tapped, false); }
  static void Attention(void* user, const moonlit_tapped* tapped) { Add(user, tapped, true); }
};

// A session of a golden model, with room for a second one.
class Taps : public testing::Test {
 protected:
  void SetUp() override { Open("llama"); }
  void TearDown() override { Close(); }
  void Close() {
    moonlit_session_free(session_);
    moonlit_model_free(model_);
  }
  void Open(const char* name, uint32_t chunk = 512, uint32_t pages = 0, uint32_t n_ctx = 256) {
    if (model_ != nullptr) Close();
    moonlit_model_options options;
    moonlit_model_options_init(&options, sizeof options);
    options.n_ctx = n_ctx, options.max_sessions = 2, options.chunk_tokens = chunk, options.attention_pages = pages;
    options.threads = 2;
    ASSERT_EQ(moonlit_model_load(Golden(name).c_str(), &options, &model_, &error_), MOONLIT_OK) << error_.message;
    ASSERT_EQ(moonlit_session_new(model_, &session_, &error_), MOONLIT_OK) << error_.message;
    info_.size = sizeof info_;
    moonlit_model_get_info(model_, &info_);
  }

  moonlit_taps Defaults(Record* record) {
    moonlit_taps taps;
    moonlit_taps_init(&taps, sizeof taps);
    taps.residual = &Record::Residual;
    taps.attention = &Record::Attention;
    taps.user = record;
    return taps;
  }
  void Set(const moonlit_taps& taps) {
    ASSERT_EQ(moonlit_session_set_taps(session_, &taps, &error_), MOONLIT_OK) << error_.message;
  }
  moonlit_code Fail(const moonlit_taps& taps) { return moonlit_session_set_taps(session_, &taps, &error_); }

  static std::vector<int32_t> Text(size_t count) {
    std::vector<int32_t> ids;
    for (size_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>((131 + i * 71) % 320));
    return ids;
  }
  std::vector<float> Eval(moonlit_session* session, const std::vector<int32_t>& ids,
                          moonlit_outputs outputs = MOONLIT_OUTPUT_ALL) {
    std::vector<float> all;
    const auto keep = [](void* user, size_t, const float* logits, size_t n) {
      auto* to = static_cast<std::vector<float>*>(user);
      to->insert(to->end(), logits, logits + n);
    };
    EXPECT_EQ(moonlit_eval(session, ids.data(), ids.size(), outputs, keep, &all, &error_), MOONLIT_OK)
        << error_.message;
    return all;
  }

  moonlit_model* model_ = nullptr;
  moonlit_session* session_ = nullptr;
  moonlit_model_info info_ = {};
  moonlit_error error_ = {};
};

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

TEST_F(Taps, LogitsKeepEveryBit) {
  for (const char* name : {"llama", "gemma2", "falcon", "mixtral"}) {
    Open(name, 8);
    const std::vector<int32_t> ids = Text(21);
    const std::vector<float> plain = Eval(session_, ids);
    ASSERT_EQ(moonlit_session_truncate(session_, 0, &error_), MOONLIT_OK);
    Record record;
    Set(Defaults(&record));
    EXPECT_TRUE(SameBits(Eval(session_, ids), plain)) << name;
    EXPECT_FALSE(record.shown.empty());
    const size_t shown = record.shown.size();
    ASSERT_EQ(moonlit_session_set_taps(session_, nullptr, &error_), MOONLIT_OK);
    ASSERT_EQ(moonlit_session_truncate(session_, 0, &error_), MOONLIT_OK);
    EXPECT_TRUE(SameBits(Eval(session_, ids), plain)) << name;
    EXPECT_EQ(record.shown.size(), shown) << "ended";
  }
}

TEST_F(Taps, RowsSumToOneAndNothingUnseenHasAWeight) {
  for (const char* name : {"llama", "mistral", "gemma2", "gemma4", "falcon", "bloom"}) {
    Open(name, 16);
    Record record;
    Set(Defaults(&record));
    Eval(session_, Text(40), MOONLIT_OUTPUT_NONE);
    size_t rows = 0;
    for (const Shown& shown : record.shown) {
      for (size_t r = 0; r < shown.rows && shown.attention; ++r, ++rows) {
        EXPECT_EQ(shown.to[r], shown.position + r + 1) << "causal";
        EXPECT_EQ(shown.width, shown.position + shown.rows);
        double sum = 0;
        for (size_t j = 0; j < shown.width; ++j) {
          const float weight = shown.values[r * shown.width + j];
          sum += double{weight};
          if (j < shown.from[r] || j >= shown.to[r]) {
            ASSERT_EQ(weight, 0.0f) << name << " layer " << shown.layer << " row " << shown.position + r << " key "
                                    << j;
          }
        }
        ASSERT_NEAR(sum, 1, 1e-6) << name;
      }
    }
    EXPECT_GT(rows, 0u);
  }
}

TEST_F(Taps, AnEncoderSeesBothWays) {
  Open("bert", 512, 0, 128);
  Record record;
  moonlit_taps taps = Defaults(&record);
  Set(taps);
  moonlit_rows rows;
  moonlit_rows_init(&rows, sizeof rows);
  const std::vector<int32_t> ids = Text(7);
  rows.count = ids.size(), rows.ids = ids.data(), rows.hidden = 1;
  ASSERT_EQ(moonlit_eval_rows(session_, &rows, &error_), MOONLIT_OK) << error_.message;
  for (const Shown& shown : record.shown) {
    if (!shown.attention) continue;
    EXPECT_EQ(shown.width, 7u);
    EXPECT_THAT(shown.to, ElementsAre(7, 7, 7, 7, 7, 7, 7));
    EXPECT_GT(shown.values[6], 0.0f) << "the first token sees the last";
  }
}

// Hidden states are the last layer's stream behind the final norm, an RMS norm times a weight: each element of one row over that of
// another one is what it is in the stream, but for one factor.
TEST_F(Taps, TheLastStreamIsWhatTheFinalNormReads) {
  Record record;
  moonlit_taps taps = Defaults(&record);
  taps.attention = nullptr;
  const uint32_t last = info_.n_layers - 1;
  taps.layers = &last, taps.layer_count = 1;
  Set(taps);
  std::vector<float> hidden;
  moonlit_rows rows;
  moonlit_rows_init(&rows, sizeof rows);
  const std::vector<int32_t> ids = Text(2);
  rows.count = 2, rows.ids = ids.data(), rows.hidden = 1, rows.outputs = MOONLIT_OUTPUT_ALL;
  rows.user = &hidden;
  rows.consume = [](void* user, size_t, const float* values, size_t width) {
    auto* to = static_cast<std::vector<float>*>(user);
    to->insert(to->end(), values, values + width);
  };
  ASSERT_EQ(moonlit_eval_rows(session_, &rows, &error_), MOONLIT_OK) << error_.message;
  ASSERT_EQ(record.shown.size(), 1u);
  const Shown& stream = record.shown[0];
  ASSERT_EQ(stream.rows, 2u);
  ASSERT_EQ(stream.width, info_.n_embd);
  const size_t n = stream.width;
  double products = 0, squares = 0;
  const auto left = [&](size_t i) { return double{stream.values[i]} * double{hidden[n + i]}; };
  const auto right = [&](size_t i) { return double{stream.values[n + i]} * double{hidden[i]}; };
  for (size_t i = 0; i < n; ++i) products += left(i) * right(i), squares += right(i) * right(i);
  const double factor = products / squares;
  EXPECT_GT(factor, 0);
  for (size_t i = 0; i < n; ++i) {
    EXPECT_NEAR(left(i), factor * right(i), 4 * 0x1p-24 * (std::abs(left(i)) + std::abs(factor * right(i)))) << i;
  }
}

TEST_F(Taps, ComeInOrderFromTheCallersThread) {
  Open("llama", 4);
  Record record;
  moonlit_taps taps = Defaults(&record);
  const uint32_t heads[] = {2, 0};
  taps.heads = heads, taps.head_count = 2;
  Set(taps);
  Eval(session_, Text(6), MOONLIT_OUTPUT_LAST);
  std::vector<std::string> order;
  for (const Shown& shown : record.shown) {
    order.push_back(std::to_string(shown.position) + (shown.attention ? " a" : " r") + std::to_string(shown.layer) +
                    (shown.attention ? "." + std::to_string(shown.head) : ""));
  }
  std::vector<std::string> expected;
  for (const char* step : {"0", "4"}) {
    for (uint32_t layer = 0; layer < info_.n_layers; ++layer) {
      for (const char* what : {".0", ".2"}) expected.push_back(std::string(step) + " a" + std::to_string(layer) + what);
      expected.push_back(std::string(step) + " r" + std::to_string(layer));
    }
  }
  EXPECT_EQ(order, expected);
  for (const std::thread::id id : record.threads) EXPECT_EQ(id, std::this_thread::get_id());
}

// Whoever else evaluates at the same time.
TEST_F(Taps, EachThreadSeesItsOwn) {
  moonlit_session* sessions[2] = {session_, nullptr};
  ASSERT_EQ(moonlit_session_new(model_, &sessions[1], &error_), MOONLIT_OK) << error_.message;
  Record records[2];
  bool well[2] = {false, false};
  std::vector<std::thread> threads;
  for (size_t s = 0; s < 2; ++s) {
    moonlit_taps taps = Defaults(&records[s]);
    taps.attention = nullptr;
    ASSERT_EQ(moonlit_session_set_taps(sessions[s], &taps, &error_), MOONLIT_OK);
    threads.emplace_back([&, s] {
      moonlit_error error = {};
      well[s] = true;
      for (int32_t id = 0; id < 30; ++id) {
        well[s] &= moonlit_eval(sessions[s], &id, 1, MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error) == MOONLIT_OK;
      }
      for (const std::thread::id seen : records[s].threads) well[s] &= seen == std::this_thread::get_id();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t s = 0; s < 2; ++s) {
    EXPECT_TRUE(well[s]);
    EXPECT_EQ(records[s].shown.size(), 30 * info_.n_layers);
    for (const Shown& shown : records[s].shown) EXPECT_EQ(shown.rows, 1u);
  }
  moonlit_session_free(sessions[1]);
}

TEST_F(Taps, AskedTokensAlone) {
  Open("llama", 8);
  Record all, some;
  Set(Defaults(&all));
  Eval(session_, Text(20), MOONLIT_OUTPUT_NONE);
  ASSERT_EQ(moonlit_session_truncate(session_, 0, &error_), MOONLIT_OK);
  moonlit_taps taps = Defaults(&some);
  const uint32_t layer = 1, head = 3;
  taps.layers = &layer, taps.layer_count = 1, taps.heads = &head, taps.head_count = 1;
  taps.first = 6, taps.last = 10;
  Set(taps);
  Eval(session_, Text(20), MOONLIT_OUTPUT_NONE);
  ASSERT_EQ(some.shown.size(), 4u) << "two steps have some of them";
  for (const Shown& shown : some.shown) {
    EXPECT_EQ(shown.layer, 1u);
    EXPECT_THAT(shown.position, testing::AnyOf(6u, 8u));
    EXPECT_EQ(shown.rows, 2u);
    for (const Shown& whole : all.shown) {
      if (whole.attention != shown.attention || whole.layer != 1 || whole.head != shown.head) continue;
      if (whole.position > shown.position || whole.position + whole.rows <= shown.position) continue;
      const size_t skip = shown.position - whole.position, width = std::min(shown.width, whole.width);
      for (size_t r = 0; r < 2; ++r) {
        EXPECT_EQ(
            std::memcmp(&shown.values[r * shown.width], &whole.values[(skip + r) * whole.width], width * sizeof(float)),
            0);
      }
    }
  }
}

// A second session with the same beginning would take it from the cache: with taps it computes it, since somebody wants to see it.
TEST_F(Taps, ASharedBeginningIsSeen) {
  const std::vector<int32_t> ids = Text(150);
  const std::vector<float> logits = Eval(session_, ids, MOONLIT_OUTPUT_LAST);
  moonlit_session* other = nullptr;
  ASSERT_EQ(moonlit_session_new(model_, &other, &error_), MOONLIT_OK) << error_.message;
  Record record;
  moonlit_taps taps = Defaults(&record);
  taps.attention = nullptr;
  ASSERT_EQ(moonlit_session_set_taps(other, &taps, &error_), MOONLIT_OK);
  EXPECT_TRUE(SameBits(Eval(other, ids, MOONLIT_OUTPUT_LAST), logits));
  moonlit_session_free(other);
  ASSERT_FALSE(record.shown.empty());
  EXPECT_EQ(record.shown[0].position, 0u);
  EXPECT_EQ(record.shown[0].rows, 150u);
}

TEST_F(Taps, GeneratedTokensAreSeenAndForksAreNot) {
  Record record;
  moonlit_taps taps = Defaults(&record);
  taps.attention = nullptr;
  const uint32_t layer = 0;
  taps.layers = &layer, taps.layer_count = 1;
  Set(taps);
  const std::vector<int32_t> ids = Text(5);
  moonlit_generate_options options;
  moonlit_generate_options_init(&options, sizeof options);
  options.temperature = 0, options.max_tokens = 4, options.ignore_end = 1;
  ASSERT_EQ(moonlit_generate(session_, ids.data(), ids.size(), &options, nullptr, &error_), MOONLIT_OK)
      << error_.message;
  size_t next = 0;
  for (const Shown& shown : record.shown) {
    EXPECT_EQ(shown.position, next);
    next += shown.rows;
  }
  EXPECT_EQ(next, moonlit_session_length(session_));
  const size_t before = record.shown.size();
  moonlit_session* fork = nullptr;
  ASSERT_EQ(moonlit_session_fork(session_, &fork, &error_), MOONLIT_OK);
  Eval(fork, Text(2));
  moonlit_session_free(fork);
  EXPECT_EQ(record.shown.size(), before);
}

TEST_F(Taps, ACallbackMayCancel) {
  Record record;
  moonlit_taps taps = Defaults(&record);
  taps.attention = nullptr;
  taps.user = session_;
  taps.residual = [](void* user, const moonlit_tapped*) {
    moonlit_session_cancel(static_cast<moonlit_session*>(user));
  };
  Set(taps);
  const std::vector<int32_t> ids = Text(5);
  EXPECT_EQ(moonlit_eval(session_, ids.data(), 5, MOONLIT_OUTPUT_NONE, nullptr, nullptr, &error_), MOONLIT_CANCELLED);
  EXPECT_EQ(moonlit_session_length(session_), 0u);
}

TEST_F(Taps, WrongRequestsSaySo) {
  Record record;
  const uint32_t layer = 99, head = 77;
  moonlit_taps taps = Defaults(&record);
  taps.residual = taps.attention = nullptr;
  EXPECT_EQ(Fail(taps), MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("neither"));
  taps = Defaults(&record);
  taps.layers = &layer, taps.layer_count = 1;
  EXPECT_EQ(Fail(taps), MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("layer 99"));
  taps = Defaults(&record);
  taps.heads = &head, taps.head_count = 1;
  EXPECT_EQ(Fail(taps), MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("head 77"));
  taps = Defaults(&record);
  taps.first = 5, taps.last = 5;
  EXPECT_EQ(Fail(taps), MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("5 to 5"));
  taps = Defaults(&record);
  taps.head_count = 3;
  EXPECT_EQ(Fail(taps), MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, HasSubstr("heads is NULL"));
  taps = Defaults(&record);
  taps.layers = &layer, taps.layer_count = SIZE_MAX;
  EXPECT_EQ(Fail(taps), MOONLIT_INVALID_ARGUMENT);
  Open("llama", 512, 2);
  EXPECT_EQ(Fail(Defaults(&record)), MOONLIT_UNSUPPORTED);
  EXPECT_THAT(error_.message, HasSubstr("attention_pages"));
  EXPECT_TRUE(record.shown.empty());
}

TEST(TapsOfTheCppLayer, KeepTheirFunctions) {
  auto model = moonlit::api::Model::Load(Golden("llama"));
  ASSERT_TRUE(model) << model.error().message;
  auto session = model->NewSession();
  ASSERT_TRUE(session);
  size_t residual = 0, attention = 0;
  const auto set = [&](moonlit::api::Session& to) {
    return to.SetTaps(
        moonlit::api::Session::Taps(), [&residual](const moonlit_tapped& tapped) { residual += tapped.rows; },
        [&attention](const moonlit_tapped&) { ++attention; });
  };
  ASSERT_EQ(set(*session).code, MOONLIT_OK);
  moonlit::api::Session moved = std::move(*session);
  const std::vector<int32_t> ids = {1, 2, 3};
  ASSERT_EQ(moved.Eval(ids, MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
  EXPECT_EQ(residual, 3u * model->info().n_layers);
  EXPECT_GT(attention, 0u);
  ASSERT_EQ(moved.ClearTaps().code, MOONLIT_OK);
  ASSERT_EQ(moved.Eval(ids, MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
  EXPECT_EQ(residual, 3u * model->info().n_layers);
}

}  // namespace
