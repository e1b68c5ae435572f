// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/stop_matcher.h"

#include <gtest/gtest.h>

#include <random>

namespace moonlit {
namespace {

StopMatcher Make(const std::vector<std::string>& stops) {
  auto matcher = StopMatcher::Create(stops);
  EXPECT_TRUE(matcher.ok()) << matcher.status().ToString();
  return std::move(matcher).value();
}

struct Outcome {
  std::string text;
  int stop = -1;
};

Outcome Feed(const std::vector<std::string>& stops, const std::vector<std::string>& tokens) {
  StopMatcher matcher = Make(stops);
  Outcome run;
  for (const std::string& token : tokens) {
    const auto output = matcher.Add(token);
    run.text += output.text;
    if (output.stop_index >= 0) run.stop = output.stop_index;
  }
  run.text += matcher.Finish();
  return run;
}

TEST(StopMatcher, SpreadOverTokens) {
  const Outcome run = Feed({"DEFGHIJ"}, {"DEF", "G", "HI", "J"});
  EXPECT_EQ(run.text, "");
  EXPECT_EQ(run.stop, 0);
}

TEST(StopMatcher, SplitAtEveryPosition) {
  const std::string text = "abcSTOPdef";
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    const Outcome run = Feed({"STOP"}, {text.substr(0, cut), text.substr(cut)});
    EXPECT_EQ(run.text, "abc") << cut;
    EXPECT_EQ(run.stop, 0) << cut;
  }
}

TEST(StopMatcher, NearMissIsReleasedInFull) {
  StopMatcher matcher = Make({"DEFGHIJ"});
  EXPECT_EQ(matcher.Add("DEFG").text, "");
  EXPECT_EQ(matcher.held_bytes(), 4u);
  EXPECT_EQ(matcher.Add("X").text, "DEFGX");
  EXPECT_EQ(matcher.held_bytes(), 0u);
}

// Only as much as could still become a stop is kept: not the length of the longest stop.
TEST(StopMatcher, HoldsNoMoreThanNeeded) {
  StopMatcher matcher = Make({"a very long stop string", "\n\n"});
  EXPECT_EQ(matcher.Add("hello").text, "hello");
  EXPECT_EQ(matcher.Add(" a").text, " ");
  EXPECT_EQ(matcher.Add("b\n").text, "ab");
  EXPECT_EQ(matcher.held_bytes(), 1u);
  EXPECT_EQ(matcher.Add("c").text, "\nc");
}

TEST(StopMatcher, OverlappingStops) {
  EXPECT_EQ(Feed({"ab", "abc"}, {"xa", "b", "c"}).text, "x");
  EXPECT_EQ(Feed({"ab", "abc"}, {"xa", "b", "c"}).stop, 0);
  const Outcome inner = Feed({"abcd", "bc"}, {"xab", "cd"});  // "bc" ends first
  EXPECT_EQ(inner.text, "xa");
  EXPECT_EQ(inner.stop, 1);
  const Outcome together = Feed({"bc", "abc"}, {"xabc"});  // both end there: the longer one is cut out
  EXPECT_EQ(together.text, "x");
  EXPECT_EQ(together.stop, 1);
  EXPECT_EQ(Feed({"aab"}, {"a", "a", "a", "b"}).text, "a");
}

TEST(StopMatcher, InsideATokenWithTrailingText) { EXPECT_EQ(Feed({"END"}, {"one END two", " three"}).text, "one "); }

TEST(StopMatcher, HalfACharacter) {
  const Outcome run = Feed({"\xF0\x9F"}, {"x\xF0", "\x9F\x98\xB8"});
  EXPECT_EQ(run.text, "x");
  EXPECT_EQ(run.stop, 0);
}

TEST(StopMatcher, EndByLengthFlushesWhatIsHeld) {
  StopMatcher matcher = Make({"STOP"});
  EXPECT_EQ(matcher.Add("it is STO").text, "it is ");
  EXPECT_EQ(matcher.Finish(), "STO");
  EXPECT_FALSE(matcher.stopped());
}

TEST(StopMatcher, NothingAfterAStop) {
  StopMatcher matcher = Make({"."});
  EXPECT_EQ(matcher.Add("a.b").text, "a");
  EXPECT_TRUE(matcher.stopped());
  EXPECT_EQ(matcher.Add("c").text, "");
  EXPECT_EQ(matcher.Finish(), "");
  matcher.Reset();
  EXPECT_EQ(matcher.Add("c").text, "c");
}

TEST(StopMatcher, NoStops) { EXPECT_EQ(Feed({}, {"a", "b"}).text, "ab"); }

TEST(StopMatcher, RefusesEmptyAndHugeStops) {
  EXPECT_EQ(StopMatcher::Create({""}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(StopMatcher::Create({std::string(65537, 'a')}).status().code(), Code::kInvalidArgument);
  EXPECT_TRUE(StopMatcher::Create({std::string(4096, 'a')}).ok());
}

// Against the plain definition, on two letters, where overlaps abound.
TEST(StopMatcher, EqualsTheDefinition) {
  std::mt19937 random(11);
  const auto word = [&](size_t length) {
    std::string out;
    for (size_t i = 0; i < length; ++i) out.push_back(random() % 2 ? 'a' : 'b');
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    const std::vector<std::string> stops = {word(1 + random() % 5), word(3 + random() % 4)};
    const std::string text = word(20);
    StopMatcher matcher = Make(stops);
    std::string shown;
    for (size_t i = 0; i < text.size() && !matcher.stopped(); ++i) {
      shown += matcher.Add(text.substr(i, 1)).text;
      const std::string so_far = text.substr(0, i + 1);
      size_t stop = 0;
      size_t hold = 0;
      for (const std::string& one : stops) {
        if (so_far.ends_with(one)) stop = std::max(stop, one.size());
        for (size_t length = 1; length < one.size(); ++length) {
          if (so_far.ends_with(one.substr(0, length))) hold = std::max(hold, length);
        }
      }
      ASSERT_EQ(matcher.stopped(), stop != 0) << text << " " << i;
      ASSERT_EQ(shown, so_far.substr(0, so_far.size() - (stop != 0 ? stop : hold))) << text << " " << i;
    }
  }
}

}  // namespace
}  // namespace moonlit
