// SPDX-License-Identifier: Apache-2.0
// Memory that ends while JSON is read is a Status, and what was read can be dropped without any.
#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <optional>
#include <string>

#include "runtime/json/json.h"
#include "tests/support/failing_new.h"

namespace moonlit {
namespace {

std::string Deep() {
  std::string text, end;
  for (size_t i = 0; i < kMostJsonDepth / 2; ++i) {
    text += "[1,{\"a member with a long name\":\"and a text that is longer than what lies in place\",\"a\":";
    end += "}]";
  }
  return text + "null" + end;
}

std::string Wide() {
  std::string text = "{\"b\":[";
  for (int i = 0; i < 3000; ++i) text += "{\"x\":[],\"x\":{}},[\"ten bytes.\",-1,1.5],";
  text += "null]";
  for (int i = 0; i < 3000; ++i) text += ",\"member " + std::to_string(i % 2000) + "\":[{}]";
  return text + "}";
}

const std::string kTexts[] = {Deep(), Wide(), "[1,2", "{\"a\":1e999}", "\"\\ud83d\"", "null"};

TEST(JsonMemory, DroppingAndCopyingTakesNone) {
  for (const std::string& text : {Deep(), Wide()}) {
    std::optional<Result<Json>> json = ParseJson(text);
    ASSERT_TRUE((*json).ok());
    ArmNew(1, Failing::kForGood);
    size_t size = 0;
    {
      const Json copy = **json;
      json.reset();
      for (const Json inner : copy) size += inner.size() + inner.Get("a").size();
      size += copy.Get("b").size();
    }
    EXPECT_FALSE(DisarmNew());
    EXPECT_GT(size, 0u);
  }
}

TEST(JsonMemory, ThatEndsOnceIsAStatus) {
  for (const std::string& text : kTexts) {
    const Code code = ParseJson(text).status().code();
    bool failed = true;
    for (size_t n = 1; failed; ++n) {
      const int64_t before = LiveBlocks();
      ArmNew(n, Failing::kOnce);
      {
        const Result<Json> json = ParseJson(text);
        failed = DisarmNew();
        ASSERT_EQ(json.status().code(), failed ? Code::kOutOfMemory : code) << n << " of " << text.substr(0, 40);
      }
      ASSERT_EQ(LiveBlocks(), before) << n;
    }
  }
}

// Nor is there any for the Status then.
TEST(JsonMemory, ThatEndsForGoodIsAnException) {
  for (const std::string& text : kTexts) {
    bool failed = true;
    for (size_t n = 1; failed; ++n) {
      const int64_t before = LiveBlocks();
      bool thrown = false;
      ArmNew(n, Failing::kForGood);
      try {
        const Result<Json> json = ParseJson(text);
      } catch (const std::bad_alloc&) {
        thrown = true;
      }
      failed = DisarmNew();
      ASSERT_EQ(thrown, failed) << n << " of " << text.substr(0, 40);
      ASSERT_EQ(LiveBlocks(), before) << n;
    }
  }
}

}  // namespace
}  // namespace moonlit
