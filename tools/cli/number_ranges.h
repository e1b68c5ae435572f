// SPDX-License-Identifier: Apache-2.0
// Flags with several numbers, as llama-bench takes them (its README): "16,32", the flag repeated, and ranges "first-last",
// "first-last+step" and "first-last*factor", all of which may be mixed.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/cli/command.h"

namespace moonlit::cli {

// Declares such a flag; *numbers holds the default until it is given. All numbers are `least` to `most`.
CLI::Option* AddNumbers(CLI::App& app, const std::string& names, const std::string& help, uint32_t least, uint32_t most,
                        std::vector<uint32_t>* numbers);

// A flag whose every value is a pair, "512,128", each number at most `most`; it may be repeated.
CLI::Option* AddPairs(CLI::App& app, const std::string& names, const std::string& help, uint32_t most,
                      std::vector<std::pair<uint32_t, uint32_t>>* pairs);

}  // namespace moonlit::cli
