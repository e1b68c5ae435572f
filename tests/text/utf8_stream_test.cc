// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/utf8_stream.h"

#include <gtest/gtest.h>

#include <random>

#include "runtime/text/utf8.h"

namespace moonlit {
namespace {

const std::string kReplacement(kReplacementCharacter);

std::string OneByOne(std::string_view bytes) {
  Utf8Stream stream;
  std::string out;
  for (const char byte : bytes) {
    const std::string piece = stream.Add(std::string_view(&byte, 1));
    EXPECT_TRUE(Utf8IsValid(piece));
    out += piece;
  }
  return out + stream.Finish();
}

TEST(Utf8Stream, CharacterOverTwoTokens) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Add("\xF0\x9F"), "");
  EXPECT_TRUE(stream.holds_bytes());
  EXPECT_EQ(stream.Add("\x98\xB8"), "\xF0\x9F\x98\xB8");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(Utf8Stream, OneByteAToken) {
  const std::string text = "a\xC3\xA9 \xE6\x9C\x88\xF0\x9F\x98\xB8!";
  EXPECT_EQ(OneByOne(text), text);
}

TEST(Utf8Stream, TailThatNeverCompletesIsFlushedOnce) {
  for (const char* tail : {"\xF0", "\xF0\x9F", "\xF0\x9F\x98", "\xE6\xAD", "\xC3"}) {
    Utf8Stream stream;
    EXPECT_EQ(stream.Add(std::string("ok") + tail), "ok");
    EXPECT_EQ(stream.Finish(), kReplacement);
    EXPECT_EQ(stream.Finish(), "");
  }
}

TEST(Utf8Stream, InvalidLeadDoesNotSwallowWhatFollows) {
  EXPECT_EQ(OneByOne("\xFFhello"), kReplacement + "hello");
  EXPECT_EQ(OneByOne("\xF0hello"), kReplacement + "hello");
  EXPECT_EQ(OneByOne("\xF0\x9Fz"), kReplacement + "z");
  EXPECT_EQ(OneByOne("\xE2\x82\xE2\x82\xAC"), kReplacement + "\xE2\x82\xAC");
  EXPECT_EQ(OneByOne("\x80\x80"), kReplacement + kReplacement);
}

// Unicode, table 3-8 and 3-11: which ill-formed bytes become one mark and which several.
TEST(Utf8Stream, MaximalSubparts) {
  EXPECT_EQ(OneByOne("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), kReplacement + kReplacement + kReplacement +
                                                                  kReplacement + kReplacement + kReplacement +
                                                                  kReplacement + kReplacement + "A");
  EXPECT_EQ(OneByOne("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), kReplacement + kReplacement + kReplacement +
                                                                  kReplacement + kReplacement + kReplacement +
                                                                  kReplacement + kReplacement + "A");
  EXPECT_EQ(OneByOne("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), kReplacement + kReplacement + kReplacement +
                                                                  kReplacement + kReplacement + "A" + kReplacement +
                                                                  kReplacement + "B");
  EXPECT_EQ(OneByOne("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"),
            kReplacement + kReplacement + kReplacement + kReplacement + "A");
}

TEST(Utf8Stream, AnyCutGivesTheSameText) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes;
    for (size_t i = 0; i < 24; ++i) {
      // Lead and continuation bytes in the main, so that characters are begun, finished and broken off often.
      constexpr unsigned char kBytes[] = {0xF0, 0x9F, 0x98, 0xB8, 0xE6, 0x9C, 0x88, 0xC3,
                                          0xA9, 'a',  0x80, 0xFF, 0xED, 0xA0, 0xF4, 0x90};
      bytes.push_back(static_cast<char>(kBytes[random() % sizeof(kBytes)]));
    }
    Utf8Stream whole;
    std::string expected = whole.Add(bytes);
    expected += whole.Finish();
    EXPECT_TRUE(Utf8IsValid(expected));
    Utf8Stream cut;
    std::string got;
    for (size_t at = 0; at < bytes.size();) {
      const size_t length = std::min<size_t>(random() % 5, bytes.size() - at);
      const std::string piece = cut.Add(std::string_view(bytes).substr(at, length));
      EXPECT_TRUE(Utf8IsValid(piece));
      got += piece;
      at += length;
    }
    got += cut.Finish();
    ASSERT_EQ(got, expected);
  }
}

}  // namespace
}  // namespace moonlit
