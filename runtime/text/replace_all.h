// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace moonlit {

// `text` with every `from` (not empty) made `to`, in one pass: what `to` brings is not looked at again.
std::string ReplaceAll(std::string_view text, std::string_view from, std::string_view to);

}  // namespace moonlit
