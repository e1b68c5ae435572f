// SPDX-License-Identifier: Apache-2.0
// Regular expressions of a JSON schema's "pattern" as GBNF (grammar.h): a part of json_schema.h.
//
// Known of ECMA-262's: characters, ".", classes, \d \w \s and their opposites, \t \n \v \f \r \0 \xHH \uHHHH \u{H...} and escaped
// punctuation, groups, alternatives, repetitions (a "?" behind them, which asks for the shortest, changes no set of texts), and ^ and $ at
// the ends of the whole or of its alternatives. Without these a text may have anything before and behind. Characters are code points.
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace moonlit {

// What stands between the quotes of a JSON string whose text the pattern matches, by the rule "char"; each character in one spelling.
// `pattern`: UTF-8. kUnsupported: the rest of the language (\b, references, look-around, properties), or no pattern; a sentence
// with the place. kExhausted: its grammar takes more than a schema's may.
Result<std::string> BodyOfPattern(std::string_view pattern);

}  // namespace moonlit
