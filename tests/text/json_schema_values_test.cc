// SPDX-License-Identifier: Apache-2.0
// Bounds of numbers and formats of strings in a JSON schema: what is within them is a text of the grammar, and nothing else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "tests/support/slowed.h"
#include "tests/text/followed_schema.h"

namespace moonlit {
namespace {

std::string Bounds(const char* type, const std::string& bounds) {
  return std::string(R"({"type": ")") + type + "\", " + bounds + "}";
}

TEST(JsonSchemaIntegers, AreTheOnesWithinTheirBounds) {
  std::mt19937 random(1);
  const int widths[] = {3, 12, 120, 1200};
  for (int i = 0; i < (kSlowed ? 12 : 200); ++i) {
    const int width = widths[i % 4], a = static_cast<int>(random() % (2 * width)) - width,
              b = a + static_cast<int>(random() % width);
    const bool open_below = random() % 3 == 0, open_above = random() % 3 == 0;
    const int least = a + (open_below ? 1 : 0), most = b - (open_above ? 1 : 0);
    if (least > most) continue;
    const std::string text =
        Bounds("integer", std::string(open_below ? "\"exclusiveMinimum\": " : "\"minimum\": ") + std::to_string(a) +
                              (open_above ? ", \"exclusiveMaximum\": " : ", \"maximum\": ") + std::to_string(b));
    const FollowedSchema schema(text);
    for (int n = -3 * width; n <= 3 * width; ++n)
      ASSERT_EQ(schema.Accepts(std::to_string(n)), least <= n && n <= most) << text << ": " << n;
    EXPECT_FALSE(schema.Accepts("-0")) << text;
    EXPECT_FALSE(schema.Accepts("00")) << text;
    EXPECT_FALSE(schema.Accepts("")) << text;
  }
}

TEST(JsonSchemaIntegers, HaveOneBoundOrDecimalOnes) {
  const struct {
    std::string bounds;
    std::vector<std::string> within, outside;
  } cases[] = {
      {"\"minimum\": 0", {"0", "7", "10", "9999999999999999"}, {"-1", "-0", "10000000000000000"}},
      {"\"exclusiveMinimum\": 0", {"1", "10"}, {"0", "-1"}},
      {"\"maximum\": -5", {"-5", "-6", "-100", "-9999999999999999"}, {"-4", "0", "5"}},
      {"\"minimum\": 0.5, \"maximum\": 2.5", {"1", "2"}, {"0", "3"}},
      {"\"exclusiveMinimum\": 0.5, \"exclusiveMaximum\": 2.5", {"1", "2"}, {"0", "3"}},
      {"\"minimum\": -1e300, \"maximum\": 1e300", {"0", "-9999999999999999"}, {"1.5"}},
      {"\"minimum\": 9007199254740993", {"9007199254740993"}, {"9007199254740992"}},
      {"\"minimum\": 3, \"exclusiveMinimum\": 3, \"maximum\": 9, \"exclusiveMaximum\": 6", {"4", "5"}, {"3", "6", "9"}},
      {"\"minimum\": 1, \"maximum\": 65535", {"1", "65535", "9999"}, {"0", "65536", "70000", "100000"}},
  };
  for (const auto& one : cases) {
    const FollowedSchema schema(Bounds("integer", one.bounds));
    for (const std::string& text : one.within) EXPECT_TRUE(schema.Accepts(text)) << one.bounds << ": " << text;
    for (const std::string& text : one.outside) EXPECT_FALSE(schema.Accepts(text)) << one.bounds << ": " << text;
  }
}

TEST(JsonSchemaNumbers, AreWithinTheirBounds) {
  std::mt19937 random(2);
  for (int i = 0; i < (kSlowed ? 12 : 200); ++i) {
    const int a = static_cast<int>(random() % 13) - 6, b = a + static_cast<int>(random() % 7);
    const bool open_below = random() % 2 == 0, open_above = random() % 2 == 0;
    if (a == b && (open_below || open_above)) continue;
    const std::string text =
        Bounds("number", std::string(open_below ? "\"exclusiveMinimum\": " : "\"minimum\": ") + std::to_string(a) +
                             (open_above ? ", \"exclusiveMaximum\": " : ", \"maximum\": ") + std::to_string(b));
    const FollowedSchema schema(text);
    const auto within = [&](double x) { return (open_below ? x > a : x >= a) && (open_above ? x < b : x <= b); };
    for (int n = -80; n <= 80; ++n) {
      char number[16];
      std::snprintf(number, sizeof number, "%s%d.%d", n < 0 ? "-" : "", std::abs(n) / 10, std::abs(n) % 10);
      // "3.0" for the upper bound itself is left out, and "-0.0" as a lower one.
      const double value = n / 10.0;
      if (value == b || value == a) {
        EXPECT_TRUE(within(value) || !schema.Accepts(number)) << text << ": " << number;
      } else {
        EXPECT_EQ(schema.Accepts(number), within(value)) << text << ": " << number;
      }
      if (n % 10 == 0) {
        EXPECT_EQ(schema.Accepts(std::to_string(n / 10)), within(value)) << text << ": " << n / 10;
      }
    }
    for (int k = 0; k < 20; ++k) {
      const std::string made = schema.Random(random);
      ASSERT_NE(made, "") << text;
      EXPECT_TRUE(within(std::stod(made))) << text << ": " << made;
    }
  }
}

TEST(JsonSchemaNumbers, HaveOneBound) {
  const FollowedSchema positive(Bounds("number", "\"minimum\": 0"));
  for (const char* text : {"0", "0.5", "123456789.25", "9"}) EXPECT_TRUE(positive.Accepts(text)) << text;
  for (const char* text : {"-0.5", "-1", ".5", "1."}) EXPECT_FALSE(positive.Accepts(text)) << text;
  const FollowedSchema negative(Bounds("number", "\"exclusiveMaximum\": 0"));
  for (const char* text : {"-0.5", "-1", "-12.000001"}) EXPECT_TRUE(negative.Accepts(text)) << text;
  for (const char* text : {"0", "-0.0", "0.5"}) EXPECT_FALSE(negative.Accepts(text)) << text;
}

std::string Format(const char* name) { return std::string(R"({"type": "string", "format": ")") + name + "\"}"; }

TEST(JsonSchemaFormats, DatesAreDaysOfTheCalendar) {
  const FollowedSchema schema(Format("date"));
  for (const int year : {1000, 1600, 1900, 1999, 2000, 2023, 2024, 2100, 2999}) {
    for (unsigned month = 0; month <= 13; ++month) {
      for (unsigned day = 0; day <= 32; ++day) {
        char text[16];
        std::snprintf(text, sizeof text, "\"%04d-%02u-%02u\"", year, month, day);
        const bool is =
            std::chrono::year_month_day(std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)).ok();
        ASSERT_EQ(schema.Accepts(text), is) << text;
      }
    }
  }
  for (const char* text : {"2024-01-01", "\"2024-1-1\"", "\"24-01-01\"", "\"2024-01-01T\""})
    EXPECT_FALSE(schema.Accepts(text)) << text;
}

TEST(JsonSchemaFormats, AcceptWhatTheyNameAlone) {
  const struct {
    const char* format;
    std::vector<std::string> whole, refused;
  } cases[] = {
      {"time", {"00:00:00Z", "23:59:59.123+05:30", "12:30:00-00:00"}, {"24:00:00Z", "12:60:00Z", "12:30Z", "12:30:00"}},
      {"date-time",
       {"2024-02-29T12:00:00Z", "1999-12-31T23:59:59.999999999-11:00"},
       {"2023-02-29T12:00:00Z", "2024-02-28 12:00:00Z", "2024-02-28T12:00:00"}},
      {"uuid",
       {"123e4567-e89b-12d3-a456-426614174000"},
       {"123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400",
        "g23e4567-e89b-12d3-a456-426614174000"}},
      {"ipv4", {"0.0.0.0", "255.255.255.255", "10.99.100.249"}, {"256.1.1.1", "1.1.1", "01.1.1.1", "1.1.1.1.1"}},
  };
  for (const auto& one : cases) {
    const FollowedSchema schema(Format(one.format));
    for (const std::string& text : one.whole) EXPECT_TRUE(schema.Accepts("\"" + text + "\"")) << one.format << text;
    for (const std::string& text : one.refused) EXPECT_FALSE(schema.Accepts("\"" + text + "\"")) << one.format << text;
  }
}

}  // namespace
}  // namespace moonlit
