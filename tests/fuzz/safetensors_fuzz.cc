// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry (https://llvm.org/docs/LibFuzzer.html). Build with clang and -DMOONLIT_FUZZ=ON, then
//   safetensors_fuzz new_inputs tests/data/fuzz/safetensors
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/read_safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  moonlit::ReadSafetensors(bytes, size);
  return 0;
}
