// SPDX-License-Identifier: Apache-2.0
// Generated text on standard output, piece by piece, for somebody who watches.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "runtime/api/moonlit.hpp"

namespace moonlit::cli {

// Writes to standard output at once; false: it can't be written.
bool Print(std::string_view text);

// Generates from `unread` and prints what comes, then a newline. A line on stderr shows how far the prompt is; Ctrl-C ends it. Returns
// kOk with *result filled, kInterrupted, or an exit code for what has been reported. *text (may be null) is what was generated.
int PrintAnswer(api::Session& session, std::span<const int32_t> unread, const moonlit_generate_options& options,
                moonlit_generate_result* result, std::string* text);

}  // namespace moonlit::cli
