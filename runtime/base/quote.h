// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace moonlit {

// A name from a file made fit for a message: quoted, control characters and broken UTF-8 escaped, cut after 80 bytes.
std::string QuoteForMessage(std::string_view text);

// The front of `text`, of at most so many bytes, that does not end within a UTF-8 character.
std::string_view FrontForMessage(std::string_view text, size_t bytes) noexcept;

}  // namespace moonlit
