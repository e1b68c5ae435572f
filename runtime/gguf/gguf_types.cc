// SPDX-License-Identifier: Apache-2.0
#include "runtime/gguf/gguf_types.h"

namespace moonlit {
namespace {

constexpr GgufTensorType kTensorTypes[] = {
#define MOONLIT_FORMAT(enumerator, name, stem, gguf_type, block_values, block_bytes) \
  {gguf_type, name, block_values, block_bytes, true, Format::enumerator},
#include "kernels/quant/formats.inc"
#undef MOONLIT_FORMAT
};

// Not (or no longer) computed with. 4, 5, 31 to 33 and 36 to 38 were withdrawn from the format; their files have to be made anew.
constexpr GgufTensorType kForeignTypes[] = {
    {4, "Q4_2", 16, 10, false, Format::kF32},        {5, "Q4_3", 16, 12, false, Format::kF32},
    {9, "Q8_1", 32, 36, false, Format::kF32},        {15, "Q8_K", 256, 292, false, Format::kF32},
    {24, "I8", 1, 1, false, Format::kF32},           {25, "I16", 1, 2, false, Format::kF32},
    {26, "I32", 1, 4, false, Format::kF32},          {27, "I64", 1, 8, false, Format::kF32},
    {28, "F64", 1, 8, false, Format::kF32},          {31, "Q4_0_4_4", 32, 18, false, Format::kF32},
    {32, "Q4_0_4_8", 32, 18, false, Format::kF32},   {33, "Q4_0_8_8", 32, 18, false, Format::kF32},
    {36, "IQ4_NL_4_4", 32, 18, false, Format::kF32}, {37, "IQ4_NL_4_8", 32, 18, false, Format::kF32},
    {38, "IQ4_NL_8_8", 32, 18, false, Format::kF32}, {40, "NVFP4", 64, 36, false, Format::kF32},
};

}  // namespace

const char* GgufTypeName(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
      return "uint8";
    case GgufType::kInt8:
      return "int8";
    case GgufType::kUint16:
      return "uint16";
    case GgufType::kInt16:
      return "int16";
    case GgufType::kUint32:
      return "uint32";
    case GgufType::kInt32:
      return "int32";
    case GgufType::kFloat32:
      return "float32";
    case GgufType::kBool:
      return "bool";
    case GgufType::kString:
      return "string";
    case GgufType::kArray:
      return "array";
    case GgufType::kUint64:
      return "uint64";
    case GgufType::kInt64:
      return "int64";
    case GgufType::kFloat64:
      return "float64";
  }
  return "unknown";
}

size_t GgufTypeBytes(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kBool:
      return 1;
    case GgufType::kUint16:
    case GgufType::kInt16:
      return 2;
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kFloat32:
      return 4;
    case GgufType::kUint64:
    case GgufType::kInt64:
    case GgufType::kFloat64:
      return 8;
    case GgufType::kString:
    case GgufType::kArray:
      return 0;
  }
  return 0;
}

const GgufTensorType* FindGgufTensorType(uint32_t id) {
  for (const GgufTensorType& type : kTensorTypes) {
    if (type.id == id) return &type;
  }
  // A format that moves into formats.inc later is found above first.
  for (const GgufTensorType& type : kForeignTypes) {
    if (type.id == id) return &type;
  }
  return nullptr;
}

}  // namespace moonlit
