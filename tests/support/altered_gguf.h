// SPDX-License-Identifier: Apache-2.0
// A GGUF file with one thing changed: what a reader must see, or refuse.
#pragma once

#include <functional>
#include <string>

#include "runtime/gguf/gguf_writer.h"

namespace moonlit::test {

struct GgufChange {
  std::string key = {};                              // left out where the file has it
  std::function<void(GgufWriter&)> write = nullptr;  // may set it anew
  std::string tensor = {};                           // called `tensor_name` instead
  std::string tensor_name = {};
};

// Copies the file `from` to `to`. Fails the program when it can't.
void WriteAltered(const std::string& from, const GgufChange& change, const std::string& to);

}  // namespace moonlit::test
