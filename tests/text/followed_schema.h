// SPDX-License-Identifier: Apache-2.0
// A JSON schema's grammar: which texts it takes, and texts of it at random.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "runtime/text/grammar.h"
#include "runtime/text/grammar_matcher.h"

namespace moonlit {

class FollowedSchema {
 public:
  explicit FollowedSchema(const std::string& schema)
      : grammar_(Make(schema)), matcher_(GrammarMatcher::Create(grammar_).value()) {}
  FollowedSchema(const FollowedSchema&) = delete;  // the matcher looks at the grammar
  FollowedSchema& operator=(const FollowedSchema&) = delete;

  bool Accepts(const std::string& json) const {
    GrammarMatcher matcher = matcher_;
    return matcher.Take(json).ok() && matcher.MayEnd(matcher.state());
  }

  // Byte by byte, ASCII alone, a string's end as soon as there may be one after a while; empty: it did not end. Without \u escapes, which
  // may be halves of surrogates.
  std::string Random(std::mt19937& random) const {
    GrammarMatcher matcher = matcher_;
    std::string json;
    while (!matcher.MustEnd(matcher.state()) && !(matcher.MayEnd(matcher.state()) && random() % 3 == 0)) {
      const bool escaped = !json.empty() && json.back() == '\\';
      std::string allowed;
      for (int byte = 0; byte < 128; ++byte) {
        if (escaped && byte == 'u') continue;
        if (matcher.Next(matcher.state(), static_cast<uint8_t>(byte)).value() != GrammarMatcher::kDead)
          allowed += static_cast<char>(byte);
      }
      if (allowed.empty() || json.size() > 200) return "";
      const bool end = json.size() > 12 && !escaped && allowed.find('"') != std::string::npos;
      json += end ? '"' : allowed[random() % allowed.size()];
      EXPECT_TRUE(matcher.Take({&json.back(), 1}).ok());
    }
    return json;
  }

 private:
  static Grammar Make(const std::string& schema) {
    auto grammar = Grammar::FromJsonSchema(schema);
    EXPECT_TRUE(grammar.ok()) << schema << "\n" << grammar.status().ToString();
    return std::move(grammar).value();
  }
  Grammar grammar_;
  GrammarMatcher matcher_;
};

}  // namespace moonlit
