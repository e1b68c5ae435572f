// SPDX-License-Identifier: Apache-2.0
// Numbers within bounds and strings of a format, as bodies of rules in GBNF (grammar.h): parts of json_schema.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moonlit {

// Largest magnitude of an integer that a grammar makes: 16 digits.
inline constexpr int64_t kMostInteger = 9'999'999'999'999'999;

struct NumberInterval {
  int64_t least = -kMostInteger, most = kMostInteger;
  bool above_least = false, below_most = false;  // the bound itself does not belong to it

  // Leaves what is also at least (above) or at most (below) the bound.
  void Raise(int64_t bound, bool above);
  void Lower(int64_t bound, bool below);
};
// Integers within it in decimal: no leading zeros, no "-0". Empty: there are none.
std::string IntegersIn(const NumberInterval& interval);
// Decimal numbers within it: integers, and at most 6 digits behind a point. Empty: there are none.
std::string NumbersIn(const NumberInterval& interval);

// What stands between the quotes of a string of this format (RFC 3339 and its grammar of dates, of years 1000 to 2999; RFC 4122; RFC 2673):
// date, time, date-time, uuid, ipv4, by the rules of kFormatRules. Null: another one.
const char* BodyOfFormat(std::string_view format);
extern const char kFormatRules[];
inline constexpr char kKnownFormats[] = "date, time, date-time, uuid, ipv4";

}  // namespace moonlit
