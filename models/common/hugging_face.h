// SPDX-License-Identifier: Apache-2.0
// What a Hugging Face folder calls things and what GGUF calls them: config.json to metadata keys, tensor names to tensor names,
// and how rows and values differ. After this, models know only GGUF's names. Keys and changes are those of llama.cpp's converter
// (llama.cpp, conversion/*.py), so that a loaded folder and a converted file are the same model.
//
// A new family: a line in hugging_face_families.inc if it is a decoder with the usual names, and rules for what differs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "runtime/base/status.h"
#include "runtime/weights/metadata_map.h"

namespace moonlit {

// Where row r of a tensor lies in the folder's.
enum class RowOrder {
  kSame,
  // Rows of query and key heads: neighbouring pairs turn together in GGUF's llama, halves of a head in PyTorch's. Row 2i + j of a
  // head of d rows is the folder's row j * d / 2 + i.
  kRotary,
  // Gate and up of experts lie in one tensor [experts, 2 * width, d].
  kFirstHalf,
  kSecondHalf,
};

struct MappedTensor {
  std::string name;                  // GGUF's
  std::vector<std::string> sources;  // the folder's: one, or one an expert, stacked
  RowOrder order = RowOrder::kSame;
  size_t heads = 0;       // with kRotary
  bool add_one = false;   // norm weights that the folder stores less 1
  bool keep_f32 = false;  // small and sensitive: F32 whatever the folder has
};

struct MappedModel {
  MetadataMap metadata;  // "general.architecture", "llama.block_count", ...; nothing of the tokenizer
  std::vector<MappedTensor> tensors;
  // Divisors of RoPE's frequencies (Llama 3.1 and later), which GGUF has as the tensor rope_freqs.weight; empty: none.
  std::vector<float> rope_divisors;
};

// `config`: of config.json. `names`: every tensor of the folder. kUnsupported: another architecture (the message lists those that
// are known), a tensor that the architecture has no place for, a setting that changes what is computed and is not known here.
// kCorrupt: a field that is missing or of another kind, an expert that is missing.
Result<MappedModel> MapHuggingFace(const nlohmann::json& config, const std::vector<std::string>& names);

}  // namespace moonlit
