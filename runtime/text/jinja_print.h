// SPDX-License-Identifier: Apache-2.0
// Numbers and quoted strings as Python prints them.
#pragma once

#include <string>
#include <string_view>

namespace moonlit::jinja {

// repr() of a float: the shortest decimal that reads back the same, with ".0" where it is whole.
std::string FloatRepr(double value);
// repr() of a str, quotes included.
std::string StringRepr(std::string_view text);
// A JSON string, quotes included, other than ASCII as it is. Bytes that are no UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);

}  // namespace moonlit::jinja
