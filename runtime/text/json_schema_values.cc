// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/json_schema_values.h"

#include <algorithm>
#include <utility>

#include "runtime/text/gbnf_text.h"

namespace moonlit {
namespace {

std::string Group(const std::string& choices) { return choices.empty() ? "" : "(" + choices + ")"; }

// Numbers of equally many digits, leading zeros included, from least to most.
std::string DigitsBetween(const std::string& least, const std::string& most) {
  if (least == most) return Quoted(least);
  const size_t same =
      static_cast<size_t>(std::mismatch(least.begin(), least.end(), most.begin()).first - least.begin());
  if (same > 0)
    return Quoted(least.substr(0, same)) + " " + Group(DigitsBetween(least.substr(same), most.substr(same)));
  const size_t more = least.size() - 1;
  const std::string zeros(more, '0'), nines(more, '9');
  // Between the first digits whose rest is bounded all that follow are free.
  char from = least[0], to = most[0];
  const std::string rest_of_least = least.substr(1), rest_of_most = most.substr(1);
  std::string choices;
  if (rest_of_least != zeros)
    AddChoice(choices, Quoted({&from, 1}) + " " + Group(DigitsBetween(rest_of_least, nines))), ++from;
  std::string last;
  if (rest_of_most != nines) last = Quoted({&to, 1}) + " " + Group(DigitsBetween(zeros, rest_of_most)), --to;
  if (from <= to) {
    const std::string first = from == to ? Quoted({&from, 1}) : std::string("[") + from + "-" + to + "]";
    AddChoice(choices, first + (more == 0 ? "" : " [0-9]{" + std::to_string(more) + "}"));
  }
  AddChoice(choices, last);
  return choices;
}

// REQUIRES: 0 <= least.
std::string WholeBetween(int64_t least, int64_t most) {
  std::string choices;
  for (int64_t from = least; from <= most;) {
    const std::string first = std::to_string(from);
    const std::string nines(first.size(), '9');
    const int64_t to = std::min<int64_t>(most, std::stoll(nines));
    AddChoice(choices, DigitsBetween(first, std::to_string(to)));
    from = to + 1;
  }
  return choices;
}

constexpr char kFraction[] = " \".\" [0-9]{1,6}";
constexpr char kFractionAboveZero[] = " \".\" [0-9]{0,5} [1-9]";

// Numbers with a point, from `least` to below `end`, in magnitude. REQUIRES: 0 <= least.
std::string WithFraction(int64_t least, int64_t end, bool above_least) {
  if (least >= end) return "";
  if (!above_least) return Group(WholeBetween(least, end - 1)) + kFraction;
  std::string choices;
  AddChoice(choices, Quoted(std::to_string(least)) + kFractionAboveZero);
  if (least + 1 < end) AddChoice(choices, Group(WholeBetween(least + 1, end - 1)) + kFraction);
  return choices;
}

}  // namespace

void NumberInterval::Raise(int64_t bound, bool above) {
  if (bound < least) return;
  above_least = above || (bound == least && above_least);
  least = bound;
}

void NumberInterval::Lower(int64_t bound, bool below) {
  if (bound > most) return;
  below_most = below || (bound == most && below_most);
  most = bound;
}

std::string IntegersIn(const NumberInterval& in) {
  const int64_t least = in.least + (in.above_least ? 1 : 0), most = in.most - (in.below_most ? 1 : 0);
  std::string choices;
  if (least <= most && least < 0)
    AddChoice(choices, "\"-\" " + Group(WholeBetween(std::max<int64_t>(1, -most), -least)));
  if (least <= most && most >= 0) AddChoice(choices, WholeBetween(std::max<int64_t>(0, least), most));
  return choices;
}

std::string NumbersIn(const NumberInterval& in) {
  std::string choices;
  AddChoice(choices, IntegersIn(in));
  AddChoice(choices, WithFraction(std::max<int64_t>(0, in.least), in.most, in.above_least && in.least >= 0));
  // Of negative numbers the bound nearer to zero is the upper one.
  const std::string negative = WithFraction(std::max<int64_t>(0, -in.most), -in.least, in.below_most && in.most <= 0);
  if (!negative.empty()) AddChoice(choices, "\"-\" " + Group(negative));
  return choices;
}

const char* BodyOfFormat(std::string_view format) {
  static constexpr std::pair<std::string_view, const char*> kBodies[] = {
      {"date", "date"},
      {"time", "time"},
      {"date-time", R"(date "T" time)"},
      {"uuid", R"([0-9a-f]{8} ("-" [0-9a-f]{4}){3} "-" [0-9a-f]{12})"},
      {"ipv4", R"(octet ("." octet){3})"},
  };
  for (const auto& [name, body] : kBodies) {
    if (name == format) return body;
  }
  return nullptr;
}

const char kFormatRules[] =
    R"(date ::= [12] [0-9]{3} "-" (long-month "-" (day | "30" | "31") | short-month "-" (day | "30") | "02-" day28) | leap-year "-02-29"
long-month ::= "0" [13578] | "1" [02]
short-month ::= "0" [469] | "11"
day ::= day28 | "29"
day28 ::= "0" [1-9] | "1" [0-9] | "2" [0-8]
leap-year ::= [12] [0-9] ("0" [48] | [2468] [048] | [13579] [26]) | ("12" | "16" | "20" | "24" | "28") "00"
time ::= hour sixty sixty ("." [0-9]{1,9})? ("Z" | [-+] hour sixty)
hour ::= [01] [0-9] | "2" [0-3]
sixty ::= ":" [0-5] [0-9]
octet ::= [0-9] | [1-9] [0-9] | "1" [0-9]{2} | "2" [0-4] [0-9] | "25" [0-5]
)";

}  // namespace moonlit
