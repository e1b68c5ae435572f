// SPDX-License-Identifier: Apache-2.0
// What a Hugging Face folder calls things and what GGUF calls them: config.json to metadata keys, tensor names to tensor names,
// and how rows and values differ. After this, models know only GGUF's names. Keys and changes are those of llama.cpp's converter
// (llama.cpp, conversion/*.py), so that a loaded folder and a converted file are the same model.
//
// A new family: a line in hugging_face_families.inc, rules for names that are not the usual ones (hugging_face_rules.h), keys
// (hugging_face_family.cc).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/json/json.h"
#include "runtime/weights/metadata_map.h"
#include "runtime/weights/row_order.h"

namespace moonlit {

struct MappedTensor {
  std::string name;                  // GGUF's
  std::vector<std::string> sources;  // the folder's: one, or one an expert, stacked
  RowMap rows;                       // order and heads; group_rows is the reader's to set
  bool add_one = false;              // norm weights that the folder stores less 1
  bool keep_f32 = false;             // small and sensitive: F32 whatever the folder has
};

// Follows from the config: a vector, which a folder has as fields.
struct MadeTensor {
  std::string name;  // GGUF's
  std::vector<float> values;
};

struct MappedModel {
  MetadataMap metadata;  // "general.architecture", "llama.block_count", ...; nothing of the tokenizer
  std::vector<MappedTensor> tensors;
  std::vector<MadeTensor> made;  // divisors of RoPE's frequencies (Llama 3.1, Phi-3, Gemma 4)
};

// `config`: of config.json. `names`: every tensor of the folder. kUnsupported: another architecture (the message lists those that
// are known), tensors that the architecture has no place for (up to eight kinds), a setting that changes what is computed and is not known here.
// kCorrupt: a field that is missing or of another kind, an expert that is missing.
// Of these errors the first alone, which needs no tensor: `names` tells more of what the architecture would need.
Status CheckHuggingFaceFamily(const Json& config, const std::vector<std::string>& names);
Result<MappedModel> MapHuggingFace(const Json& config, const std::vector<std::string>& names);

}  // namespace moonlit
