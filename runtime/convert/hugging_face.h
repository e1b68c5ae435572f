// SPDX-License-Identifier: Apache-2.0
// A Hugging Face folder (config.json, *.safetensors, tokenizer.json) as the model that its GGUF file would be: metadata by GGUF's
// keys, tensors by GGUF's names. What is loaded and what is converted come from here both.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/convert/quantize.h"
#include "runtime/text/tokenizer_data.h"
#include "runtime/weights/metadata_map.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

struct HuggingFaceModel {
  std::shared_ptr<const MetadataMap> metadata;
  std::shared_ptr<const WeightSource> weights;
};

// True for a folder; whether it has a model in it is for OpenHuggingFace to say.
bool IsFolder(const std::string& path);

// `pre`: a pre-tokenizer's name that overrides what tokenizer.json says; empty: none. Errors: kNotFound (a file of the folder), and
// those of SafetensorsSet::Open, MapHuggingFace, HuggingFaceSource::Create and ImportTokenizer.
Result<HuggingFaceModel> OpenHuggingFace(const std::string& folder, const std::string& pre);
// The header of the GGUF file that the folder would be converted to: tells folders apart by all that config.json and the tokenizer's
// files make of them.
std::string HeaderOf(const HuggingFaceModel& model);
// The tokenizer alone; needs no weights.
Result<std::shared_ptr<const MetadataMap>> OpenHuggingFaceTokenizer(const std::string& folder, const std::string& pre);

// Writes the folder as a GGUF file, unless loading would refuse it. An empty options.type keeps the type of the folder's matrices.
// Errors: those above, of CheckModel, and of QuantizeFile.
Result<QuantizeReport> ConvertFolder(const std::string& folder, const std::string& out, const std::string& pre,
                                     const QuantizeOptions& options);

}  // namespace moonlit
