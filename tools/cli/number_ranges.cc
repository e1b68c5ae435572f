// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/number_ranges.h"

#include <charconv>
#include <string_view>

namespace moonlit::cli {
namespace {

// Takes a number from the front of the text.
bool TakeNumber(std::string_view* text, uint32_t* number) {
  const auto [end, fault] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (fault != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

bool TakeCharacter(std::string_view* text, char wanted) {
  if (text->empty() || text->front() != wanted) return false;
  text->remove_prefix(1);
  return true;
}

struct NumberRange {
  uint32_t first = 0, last = 0, step = 1;
  bool multiply = false;
};

bool ParseRange(std::string_view text, NumberRange* range) {
  if (!TakeNumber(&text, &range->first)) return false;
  range->last = range->first;
  if (text.empty()) return true;
  if (!TakeCharacter(&text, '-') || !TakeNumber(&text, &range->last)) return false;
  if (text.empty()) return true;
  range->multiply = text.front() == '*';
  return (TakeCharacter(&text, '*') || TakeCharacter(&text, '+')) && TakeNumber(&text, &range->step) && text.empty();
}

// A range that goes nowhere or never ends is a slip of the pen, not an empty list.
bool Ends(const NumberRange& range) {
  return range.first <= range.last && (range.multiply ? range.first > 0 && range.step > 1 : range.step > 0);
}

[[noreturn]] void Refuse(const std::string& names, const std::string& expected, const std::string& found) {
  throw CLI::ValidationError(names.substr(0, names.find(',')), "expected " + expected + ", found \"" + found + "\"");
}

}  // namespace

CLI::Option* AddNumbers(CLI::App& app, const std::string& names, const std::string& help, uint32_t least, uint32_t most,
                        std::vector<uint32_t>* numbers) {
  const auto read = [=](const std::vector<std::string>& texts) {
    numbers->clear();
    for (const std::string& text : texts) {
      NumberRange range;
      if (!ParseRange(text, &range) || !Ends(range) || range.first < least || range.last > most) {
        Refuse(names,
               "numbers from " + std::to_string(least) + " to " + std::to_string(most) +
                   " or ranges like 1-4, 0-512+128 and 1-8*2",
               text);
      }
      for (uint64_t number = range.first; number <= range.last;) {
        numbers->push_back(static_cast<uint32_t>(number));
        number = range.multiply ? number * range.step : number + range.step;
      }
    }
  };
  std::string defaults;
  for (uint32_t number : *numbers) defaults += (defaults.empty() ? "" : ",") + std::to_string(number);
  return app.add_option_function<std::vector<std::string>>(names, read, help)
      ->delimiter(',')
      ->type_name("NUMBERS")
      ->default_str(defaults);
}

CLI::Option* AddPairs(CLI::App& app, const std::string& names, const std::string& help, uint32_t most,
                      std::vector<std::pair<uint32_t, uint32_t>>* pairs) {
  const auto read = [=](const std::vector<std::string>& texts) {
    for (const std::string& text : texts) {
      std::string_view rest = text;
      std::pair<uint32_t, uint32_t> pair;
      const bool whole = TakeNumber(&rest, &pair.first) && TakeCharacter(&rest, ',') && TakeNumber(&rest, &pair.second);
      if (!whole || !rest.empty() || pair.first > most || pair.second > most)
        Refuse(names, "two numbers up to " + std::to_string(most) + " like 512,128", text);
      pairs->push_back(pair);
    }
  };
  return app.add_option_function<std::vector<std::string>>(names, read, help)
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("NUMBER,NUMBER");
}

}  // namespace moonlit::cli
