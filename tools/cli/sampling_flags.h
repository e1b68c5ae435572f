// SPDX-License-Identifier: Apache-2.0
// How tokens are chosen: the flags of every command that generates.
#pragma once

#include <cstdint>

#include "runtime/api/moonlit.hpp"
#include "tools/cli/command.h"

namespace moonlit::cli {

struct SamplingFlags {
  int64_t seed = -1;

  // The flags write into *options, which has to be initialised and to live as long as the app.
  void Declare(CLI::App& app, moonlit_generate_options* options);
  // Gives the options their seed; without --seed a random one, which `seed` then is.
  void Seed(moonlit_generate_options* options);
};

}  // namespace moonlit::cli
