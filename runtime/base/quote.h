// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace moonlit {

// A name from a file made fit for a message: quoted, control characters and broken UTF-8 escaped, cut after 80 bytes.
std::string QuoteForMessage(std::string_view text);

}  // namespace moonlit
