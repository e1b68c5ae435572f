// SPDX-License-Identifier: Apache-2.0
// A model's metadata as texts, for people and applications: what moonlit_model_metadata gives.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/gguf/gguf.h"
#include "runtime/weights/metadata_map.h"

namespace moonlit {

// Keys and values.
using MetadataTexts = std::vector<std::pair<std::string, std::string>>;

// Longer arrays (vocabularies) are told by their length.
inline constexpr size_t kMostListed = 64;

// All keys, in the order of the file. Strings as they are, numbers with as few digits as give the same value back, true and false, arrays
// as JSON, or "[... 32000 in all]" where they have more than kMostListed elements, or strings that are no UTF-8.
MetadataTexts TextsOf(const GgufFile& file);
MetadataTexts TextsOf(const MetadataMap& map);

}  // namespace moonlit
