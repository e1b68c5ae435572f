// SPDX-License-Identifier: Apache-2.0
// What a written file's weights shall be: one format throughout, or one of llama-quantize's mixtures.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/quant/format.h"
#include "runtime/base/status.h"

namespace moonlit {

// Names what mixture.cc has rules for. kOther: a format that llama-quantize has no file type for.
enum class Mixture : uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ2_K_S,
  kQ3_K_S,
  kQ3_K_M,
  kQ3_K_L,
  kQ4_K_S,
  kQ4_K_M,
  kQ5_K_S,
  kQ5_K_M,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kMXFP4_MOE,
  kOther,
};

struct FileType {
  std::string name;
  Mixture mixture;
  Format format;       // of tensors without a rule of their own
  int32_t number = 0;  // general.file_type; -1: none
};

// The name in any case ("q4_k_m"). kInvalidArgument for an unknown one, listing all; kUnsupported for a format that can only be
// read.
Result<FileType> FindFileType(std::string_view name);
// Every name that FindFileType takes, joined by ", ".
std::string FileTypeNames();

// Formats with a scale for a block of values; F32, F16 and BF16 are not.
inline bool IsQuantized(Format format) { return Traits(format).block_values > 1; }

}  // namespace moonlit
