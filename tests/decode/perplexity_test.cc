// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/perplexity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "runtime/decode/logsumexp.h"
#include "tests/decode/fake_model.h"

namespace moonlit {
namespace {

using testing::HasSubstr;

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(LogSumExp, ClosedForms) {
  EXPECT_EQ(LogSumExp({}), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(LogSumExp(std::vector<float>{-kInf, -kInf}), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(LogSumExp(std::vector<float>{0, kInf}), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(LogSumExp(std::vector<float>{kInf, std::numeric_limits<float>::quiet_NaN()})));
  EXPECT_EQ(LogSumExp(std::vector<float>{-7.5f}), -7.5);
  EXPECT_EQ(LogSumExp(std::vector<float>{3e38f, -3e38f}), double{3e38f});
  for (size_t n : {2, 1000, 151936}) {
    EXPECT_NEAR(LogSumExp(std::vector<float>(n, 2.5f)), 2.5 + std::log(static_cast<double>(n)), 1e-12);
  }
}

std::vector<int32_t> Text(size_t n) {
  std::vector<int32_t> ids(n);
  uint32_t state = 77;
  for (int32_t& id : ids) {
    state = state * 1664525u + 1013904223u;
    id = static_cast<int32_t>((state >> 8) % kFakeVocab);
  }
  return ids;
}

// The definition, window by window, with no engine.
PerplexityResult Reference(const std::vector<int32_t>& ids, size_t window, bool add_bos) {
  double sum = 0, squares = 0;
  size_t count = 0;
  for (size_t start = 0; start + window <= ids.size(); start += window) {
    std::vector<int32_t> input(ids.begin() + static_cast<std::ptrdiff_t>(start),
                               ids.begin() + static_cast<std::ptrdiff_t>(start + window));
    if (add_bos) input[0] = kBeginToken;
    for (size_t i = window / 2; i + 1 < window; ++i) {
      const std::vector<float> logits = FakeLogits(std::span(input).first(i + 1));
      double total = 0;
      for (float x : logits) total += std::exp(double{x});
      const double surprise = std::log(total) - double{logits[static_cast<size_t>(input[i + 1])]};
      sum += surprise;
      squares += surprise * surprise;
      ++count;
    }
  }
  const double n = static_cast<double>(count);
  PerplexityResult result;
  result.perplexity = std::exp(sum / n);
  result.standard_error = result.perplexity * std::sqrt((squares / n - sum / n * sum / n) / (n - 1));
  result.counted_tokens = count;
  result.windows = ids.size() / window;
  return result;
}

TEST(Perplexity, FollowsTheDefinition) {
  const auto ids = Text(1000);
  for (bool add_bos : {true, false}) {
    for (size_t window : {4, 5, 64, 100, 255, 256}) {
      for (size_t chunk : {7, 512}) {
        const auto engine = MakeFakeEngine({.chunk_tokens = chunk}, nullptr, add_bos);
        auto session = engine->NewSession();
        size_t calls = 0;
        double last = 0;
        PerplexityOptions options;
        options.window = window;
        options.progress = [&](size_t done, size_t total, double perplexity) {
          EXPECT_EQ(done, ++calls);
          EXPECT_EQ(total, 1000 / window);
          last = perplexity;
          return true;
        };
        const auto result = MeasurePerplexity(*engine, **session, ids, options);
        ASSERT_TRUE(result.ok()) << result.status().ToString();
        const PerplexityResult expected = Reference(ids, window, add_bos);
        EXPECT_NEAR(result->perplexity, expected.perplexity, 1e-9 * expected.perplexity) << window;
        EXPECT_NEAR(result->standard_error, expected.standard_error, 1e-6 * expected.standard_error) << window;
        EXPECT_EQ(result->counted_tokens, expected.counted_tokens);
        EXPECT_EQ(result->windows, expected.windows);
        EXPECT_EQ(last, result->perplexity);
        EXPECT_EQ(calls, expected.windows);
        EXPECT_EQ((*session)->length(), 0);
      }
    }
  }
}

TEST(Perplexity, WrongArgumentsAreNamed) {
  const auto engine = MakeFakeEngine();
  auto session = engine->NewSession();
  const auto expect = [&](const std::vector<int32_t>& ids, size_t window, const char* message) {
    const auto result = MeasurePerplexity(*engine, **session, ids, {.window = window});
    ASSERT_FALSE(result.ok()) << message;
    EXPECT_EQ(result.status().code(), Code::kInvalidArgument);
    EXPECT_THAT(result.status().ToString(), HasSubstr(message));
  };
  expect(Text(1000), 3, "window is 3, expected at least 4");
  expect(Text(1000), 257, "window is 257, expected at most 256 (n_ctx)");
  expect(Text(127), 64, "127 tokens, expected at least 128");
  expect({}, 64, "0 tokens");
  auto wrong = Text(128);
  wrong[127] = static_cast<int32_t>(kFakeVocab);
  expect(wrong, 64, "token 127 is 271");
}

TEST(Perplexity, CancelsAndFailsWithAnEmptySession) {
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({}, &plan);
  auto session = engine->NewSession();
  size_t calls = 0;
  PerplexityOptions options;
  options.window = 64;
  options.progress = [&](size_t, size_t, double) { return ++calls < 3; };
  EXPECT_EQ(MeasurePerplexity(*engine, **session, Text(1000), options).status().code(), Code::kCancelled);
  EXPECT_EQ(calls, 3u);
  EXPECT_EQ((*session)->length(), 0);
  plan->on_run = [](std::span<const StepSpan>) { return Status(Code::kInternal, "broken"); };
  EXPECT_EQ(MeasurePerplexity(*engine, **session, Text(1000), options).status().code(), Code::kInternal);
  EXPECT_EQ((*session)->length(), 0);
}

}  // namespace
}  // namespace moonlit
