// SPDX-License-Identifier: Apache-2.0
// While a call uses a session and a sampler, every other one that would use them is MOONLIT_BUSY and changes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/api/moonlit.h"
#include "tests/api/api_headers.h"
#include "tests/api/loaded_poet.h"

namespace moonlit {
namespace {

using ::testing::HasSubstr;

class BusyTest : public LoadedPoet {
 protected:
  struct Call {
    const char* function;
    std::function<moonlit_code(moonlit_error*)> call;
  };
  using E = moonlit_error*;

  void SetUp() override {
    LoadedPoet::SetUp();
    moonlit_sampler_step draw;
    moonlit_sampler_step_init(&draw, sizeof draw);
    draw.kind = MOONLIT_SAMPLER_GREEDY;
    moonlit_error error = {};
    ASSERT_EQ(moonlit_sampler_append(sampler, &draw, &error), MOONLIT_OK) << error.message;
    moonlit_rows_init(&rows_, sizeof rows_);
    rows_.ids = ids_.data();
    rows_.count = ids_.size();
    moonlit_embed_options_init(&embed_, sizeof embed_);
    embed_.pooling = MOONLIT_POOLING_MEAN;
    embed_.session = session;
    moonlit_taps_init(&taps_, sizeof taps_);
    taps_.residual = [](void*, const moonlit_tapped*) {};
    moonlit_generate_options_init(&with_sampler_, sizeof with_sampler_);
    with_sampler_.sampler = sampler;
    result_.size = sizeof result_;
    logits_.resize(1);
  }

  std::vector<Call> OfSessions();
  std::vector<Call> OfSamplers();
  std::vector<Call> All() {
    std::vector<Call> all = OfSessions();
    for (Call& call : OfSamplers()) all.push_back(std::move(call));
    return all;
  }

  std::vector<int32_t> ids_ = {21, 22, 23};
  std::vector<float> logits_;
  moonlit_rows rows_ = {};
  moonlit_embed_options embed_ = {};
  moonlit_taps taps_ = {};
  moonlit_generate_options with_sampler_ = {};
  moonlit_perplexity_result result_ = {};
  moonlit_session* other_ = nullptr;
  moonlit_sampler* clone_ = nullptr;
};

std::vector<BusyTest::Call> BusyTest::OfSessions() {
  return {
      {"moonlit_session_truncate", [this](E e) { return moonlit_session_truncate(session, 0, e); }},
      {"moonlit_session_drop", [this](E e) { return moonlit_session_drop(session, 0, 0, e); }},
      {"moonlit_session_fork", [this](E e) { return moonlit_session_fork(session, &other_, e); }},
      {"moonlit_session_save", [this](E e) { return moonlit_session_save(session, "file", e); }},
      {"moonlit_session_load", [this](E e) { return moonlit_session_load(session, "file", 0, e); }},
      {"moonlit_session_saved_bytes",
       [this](E e) {
         uint64_t bytes = 0;
         return moonlit_session_saved_bytes(session, &bytes, e);
       }},
      {"moonlit_session_write",
       [this](E e) {
         return moonlit_session_write(
             session, [](void*, const void*, size_t) { return 0; }, nullptr, e);
       }},
      {"moonlit_session_read",
       [this](E e) {
         return moonlit_session_read(
             session, [](void*, void*, size_t) { return 0; }, nullptr, 0, e);
       }},
      {"moonlit_session_set_adapters",
       [this](E e) { return moonlit_session_set_adapters(session, nullptr, nullptr, 0, e); }},
      {"moonlit_session_set_taps", [this](E e) { return moonlit_session_set_taps(session, &taps_, e); }},
      {"moonlit_eval",
       [this](E e) { return moonlit_eval(session, ids_.data(), 3, MOONLIT_OUTPUT_NONE, nullptr, nullptr, e); }},
      {"moonlit_eval_rows", [this](E e) { return moonlit_eval_rows(session, &rows_, e); }},
      {"moonlit_step",
       [this](E e) {
         const moonlit_rows* rows = &rows_;
         return moonlit_step(&session, &rows, 1, e);
       }},
      {"moonlit_generate", [this](E e) { return moonlit_generate(session, ids_.data(), 3, nullptr, nullptr, e); }},
      {"moonlit_perplexity",
       [this](E e) { return moonlit_perplexity(session, ids_.data(), 3, 4, nullptr, nullptr, &result_, e); }},
      {"moonlit_perplexity_with",
       [this](E e) { return moonlit_perplexity_with(session, ids_.data(), 3, nullptr, &result_, e); }},
      // Named in its options.
      {"moonlit_embed",
       [this](E e) {
         size_t width = 0;
         return moonlit_embed(model, ids_.data(), 3, &embed_, nullptr, 0, &width, e);
       }},
  };
}

std::vector<BusyTest::Call> BusyTest::OfSamplers() {
  return {
      {"moonlit_sampler_append",
       [this](E e) {
         moonlit_sampler_step step;
         moonlit_sampler_step_init(&step, sizeof step);
         step.kind = MOONLIT_SAMPLER_TOP_K;
         return moonlit_sampler_append(sampler, &step, e);
       }},
      {"moonlit_sampler_apply",
       [this](E e) {
         int32_t id = 0;
         return moonlit_sampler_apply(sampler, logits_.data(), logits_.size(), &id, e);
       }},
      {"moonlit_sampler_accept", [this](E e) { return moonlit_sampler_accept(sampler, 1, e); }},
      {"moonlit_sampler_accept_prompt",
       [this](E e) { return moonlit_sampler_accept_prompt(sampler, ids_.data(), 3, e); }},
      {"moonlit_sampler_reset", [this](E e) { return moonlit_sampler_reset(sampler, 1, e); }},
      {"moonlit_sampler_clone", [this](E e) { return moonlit_sampler_clone(sampler, &clone_, e); }},
  };
}

TEST_F(BusyTest, EveryOtherCallIsRefused) {
  const std::vector<Call> calls = All();
  size_t refused = 0;
  std::function<void()> try_all = [&] {
    for (const Call& one : calls) {
      moonlit_error error = {};
      EXPECT_EQ(one.call(&error), MOONLIT_BUSY) << one.function << ": " << error.message;
      EXPECT_THAT(error.message, HasSubstr("in use by another call")) << one.function;
      ++refused;
    }
  };
  moonlit_generate_options options = with_sampler_;
  options.max_tokens = 4;
  options.ignore_end = 1;
  options.user = &try_all;
  options.token = [](void* user, int32_t) {
    auto& from_callback = *static_cast<std::function<void()>*>(user);
    from_callback();
    std::thread(from_callback).join();
    return 0;
  };
  moonlit_error error = {};
  ASSERT_EQ(moonlit_generate(session, ids_.data(), 3, &options, nullptr, &error), MOONLIT_OK) << error.message;
  EXPECT_EQ(refused, 2 * 4 * calls.size());
  EXPECT_EQ(moonlit_session_length(session), 3u + 4 - 1);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(moonlit_sampler_accept(sampler, 1, &error), MOONLIT_OK) << "free again";
}

// A sampler that is in use by itself, as the session's chooser.
TEST_F(BusyTest, ASamplerInUseIsRefusedToAGeneration) {
  moonlit_sampler_step custom;
  moonlit_sampler_step_init(&custom, sizeof custom);
  moonlit_sampler* busy = nullptr;
  moonlit_error error = {};
  ASSERT_EQ(moonlit_sampler_new(model, 1, &busy, &error), MOONLIT_OK);
  const std::function<moonlit_code()> generate = [&] {
    moonlit_generate_options options = with_sampler_;
    options.sampler = busy;
    moonlit_error inside = {};
    return moonlit_generate(session, ids_.data(), 3, &options, nullptr, &inside);
  };
  struct Inner {
    const std::function<moonlit_code()>* generate;
    moonlit_code code;
  } inner = {&generate, MOONLIT_OK};
  custom.kind = MOONLIT_SAMPLER_CUSTOM;
  custom.user = &inner;
  custom.apply = [](void* user, moonlit_token_logit*, size_t count) {
    auto& in = *static_cast<Inner*>(user);
    in.code = (*in.generate)();
    return count;
  };
  ASSERT_EQ(moonlit_sampler_append(busy, &custom, &error), MOONLIT_OK) << error.message;
  custom.kind = MOONLIT_SAMPLER_GREEDY;
  ASSERT_EQ(moonlit_sampler_append(busy, &custom, &error), MOONLIT_OK) << error.message;
  moonlit_model_info info = {};
  info.size = sizeof info;
  moonlit_model_get_info(model, &info);
  const std::vector<float> logits(info.n_vocab, 0.0f);
  int32_t id = -1;
  EXPECT_EQ(moonlit_sampler_apply(busy, logits.data(), logits.size(), &id, &error), MOONLIT_OK) << error.message;
  EXPECT_EQ(inner.code, MOONLIT_BUSY);
  EXPECT_EQ(moonlit_session_length(session), 0u);
  moonlit_sampler_free(busy);
}

// A function that is new comes here too.
TEST_F(BusyTest, EveryFunctionThatUsesOneIsHere) {
  std::set<std::string> tested, expected;
  for (const Call& one : All()) tested.insert(one.function);
  tested.erase("moonlit_embed");
  const std::regex function(R"(MOONLIT_API moonlit_code (\w+)\(([^;]*)\);)");
  const std::regex used(
      R"(\b(moonlit_session\* session|moonlit_session\* const\* sessions|moonlit_sampler\* sampler)\b)");
  const std::string source = moonlit::ApiHeaders();
  for (std::sregex_iterator found(source.begin(), source.end(), function), end; found != end; ++found) {
    const std::string parameters = (*found)[2];
    if (std::regex_search(parameters, used)) expected.insert((*found)[1]);
  }
  EXPECT_EQ(tested, expected);
}

}  // namespace
}  // namespace moonlit
