// SPDX-License-Identifier: Apache-2.0
// Where the default model is: a small model of classical Chinese verse (README.md beside this file) that needs no download.
#pragma once

#include <cstddef>
#include <string>

#include "runtime/base/status.h"

namespace moonlit {

struct EmbeddedFile {
  const unsigned char* data;  // 64-byte aligned, lives as long as the program
  size_t size;
};

// The model file inside this program; {nullptr, 0} unless built with MOONLIT_EMBED_POET. Thread safe.
EmbeddedFile EmbeddedPoet();

// The path of poet-Q4_0.gguf, the first that can be read of: $MOONLIT_DATA_DIR; share/moonlit beside the folder of the running
// program or one above; the same of the shared library that holds this code (where `cmake --install` puts it: lib/ or lib/TRIPLE/). A
// build folder has a share/moonlit too; no path of the machine that built this is compiled in. kNotFound names them all. Reads the
// environment: don't change it in another thread meanwhile.
Result<std::string> FindPoet();

}  // namespace moonlit
