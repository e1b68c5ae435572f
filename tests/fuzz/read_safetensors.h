// SPDX-License-Identifier: Apache-2.0
// What a fuzzer does with bytes that may be a safetensors file: open them, and if that works, use everything that Open promises.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moonlit {

// True when the bytes opened. Aborts when a promise is broken.
bool ReadSafetensors(const uint8_t* bytes, size_t size);

}  // namespace moonlit
