// SPDX-License-Identifier: Apache-2.0
// Reading and writing block structs at any address. Block structs mirror the bytes of a file, which are little-endian.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/base/float16.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "block formats are read as little-endian structs"
#endif

namespace moonlit {

template <typename Block>
static inline Block LoadBlock(const uint8_t* bytes, size_t index) {
  Block block;
  memcpy(&block, bytes + index * sizeof(Block), sizeof(Block));
  return block;
}

template <typename Block>
static inline void StoreBlock(const Block& block, uint8_t* bytes, size_t index) {
  memcpy(bytes + index * sizeof(Block), &block, sizeof(Block));
}

}  // namespace moonlit
