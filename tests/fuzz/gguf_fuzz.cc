// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry (https://llvm.org/docs/LibFuzzer.html). Build with clang and -DMOONLIT_FUZZ=ON, then
//   gguf_fuzz new_inputs tests/data/fuzz/gguf
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/read_everything.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  moonlit::ReadEverything(bytes, size);
  return 0;
}
