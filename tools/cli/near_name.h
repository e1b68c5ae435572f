// SPDX-License-Identifier: Apache-2.0
// What somebody may have meant by a name that does not exist.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moonlit::cli {

// The name that is reached from `typed` by the fewest changes of a letter (another one, one more, one less, two exchanged), if they
// are at most two and leave something of the word; else empty.
std::string NearestName(std::string_view typed, const std::vector<std::string>& names);

}  // namespace moonlit::cli
