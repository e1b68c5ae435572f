// SPDX-License-Identifier: Apache-2.0
// The JSON header of a safetensors file:
//
//   {"__metadata__": {"format": "pt"}, "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/safetensors/safetensors.h"

namespace moonlit {

// The tensors as they stand, `offset` counted from the start of the data. Checks the JSON, types of values, and that each tensor
// has its three fields once; not sizes and places. kCorrupt, kUnsupported; `path` is for messages.
Result<std::vector<SafetensorsTensor>> ParseSafetensorsHeader(std::string_view json, const std::string& path);

}  // namespace moonlit
