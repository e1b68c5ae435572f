// SPDX-License-Identifier: Apache-2.0
// What sets a family's folders apart: a line of hugging_face_families.inc.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/common/hugging_face_config.h"
#include "models/common/hugging_face_rules.h"
#include "runtime/base/status.h"
#include "runtime/weights/metadata_map.h"

namespace moonlit {

enum FamilyFlags : unsigned {
  kPlainFamily = 0,
  kRotaryRows = 1,         // GGUF's rows of q and k are those of neighbouring pairs
  kNormalisedExperts = 2,  // the experts' weights are divided by their sum
  kNormsLessOne = 4,       // norms are multiplied by 1 + weight
  kTanhGelu = 8,           // instead of SiLU
  kLayerNorms = 16,        // instead of RMS norms
  kPartialRotary = 32,     // the keys say how much of a head turns
  kOwnActivation = 64,     // the keys check which it is
  kWindows = 128,          // the keys say which layers see a window
  kOwnContext = 256,       // the keys say how long texts are
  kFourfold = 512,         // a network is four times as wide as the model where the config does not say
  kReluSquared = 1024,     // instead of SiLU; tells apart families of one class
  kOwnBiases = 2048,       // it has them, or has none, whatever the config says
};

struct Family {
  const char* class_name;
  const char* model_type;
  const char* architecture;
  std::span<const NameRule> rules;
  // What metadata gets beyond the usual; `prefix` is GGUF's architecture with a dot.
  void (*keys)(HuggingFaceConfig& config, const std::string& prefix, MetadataMap& metadata);
  unsigned flags;
  const char* rope = "";  // a kind of RoPE that others do not compute
  // A JSON object: what the class takes for fields that a config leaves out, where the mapping would take something else. null: the
  // config has to say it, since releases of transformers differ.
  const char* defaults = "{}";
};

// kUnsupported: none, with the names of those that are known, and of the kinds among `names`, the folder's tensors, that none has.
Result<const Family*> FindFamily(HuggingFaceConfig& config, const std::vector<std::string>& names);

// A tensor's name with % for numbers: what tensors of all layers and experts share.
std::string TensorKind(std::string_view name);
// For a message: up to eight, and how many there are beyond.
std::string ListKinds(const std::map<std::string, std::string>& first_of_kind);

}  // namespace moonlit
