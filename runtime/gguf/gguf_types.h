// SPDX-License-Identifier: Apache-2.0
// The numbers of the GGUF format (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md): value types of metadata, and every
// tensor type that files are known to have, also those that this build can't compute with, so that it can say their names.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/quant/format.h"

namespace moonlit {

inline constexpr uint32_t kGgufVersion = 3;  // what the writer writes; the reader takes 2 and 3, whose bytes are alike
inline constexpr uint32_t kGgufDefaultAlignment = 32;

enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};
inline constexpr uint32_t kGgufTypeCount = 13;

const char* GgufTypeName(GgufType type);  // "uint32"; "unknown" beyond the list
// Bytes of one value in the file; 0 for strings and arrays, whose length varies.
size_t GgufTypeBytes(GgufType type);

struct GgufTensorType {
  uint32_t id;
  const char* name;
  uint32_t block_values;
  uint32_t block_bytes;
  bool supported;  // `format` means something
  Format format;
};

// Null for a number that no published file format has. The table is immutable.
const GgufTensorType* FindGgufTensorType(uint32_t id);

}  // namespace moonlit
