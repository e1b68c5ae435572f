// SPDX-License-Identifier: Apache-2.0
// JSON of model folders and callers, which is untrusted: nlohmann-json parses and frees any nesting, but copies and prints values by
// recursion, so that deep ones would end the process.
#pragma once

#include <string_view>

#include <nlohmann/json.hpp>

namespace moonlit {

// Far more than the files of any model nest.
inline constexpr int kMostJsonDepth = 64;

// Discarded (is_discarded()) when the text is no JSON or nests deeper than kMostJsonDepth.
nlohmann::json ParseBoundedJson(std::string_view text);
// The same with members in the order of the text, at most kMostJsonMembers in an object: each is searched for among those before.
inline constexpr size_t kMostJsonMembers = 4096;
nlohmann::ordered_json ParseBoundedOrderedJson(std::string_view text);

}  // namespace moonlit
