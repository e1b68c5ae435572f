// SPDX-License-Identifier: Apache-2.0
// Which format each tensor of a file gets: llama-quantize's rules (llama.cpp, src/llama-quant.cpp), so that files have its sizes
// and quality, and people find what they know by name. In short: the head (or the embedding that stands for it) gets more bits,
// and so do attn_v, ffn_down and attn_output of some layers; vectors, norms, routers and convolutions stay as they are; rows that
// are no whole number of blocks get the nearest format that they fit.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/convert/file_type.h"
#include "runtime/convert/imatrix.h"
#include "runtime/weights/metadata.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

// What the rules ask of a model.
struct MixtureFacts {
  std::string architecture;  // "llama"
  size_t layers = 0;
  size_t heads_per_kv_head = 1;
  size_t experts = 0;
};
// From "<architecture>.block_count" and so on; a key that is absent leaves the field as it is. kCorrupt: no architecture, or a
// key of another type.
Result<MixtureFacts> ReadMixtureFacts(const Metadata& metadata);

struct MixtureOptions {
  bool has_imatrix = false;  // some rules guard against what an importance matrix makes unlikely
  bool pure = false;         // no rules: every tensor that may be encoded gets file_type.format, or what its rows fit
  const ImportanceMatrix* imatrix = nullptr;  // whose entries Q2_K_S needs; null: has_imatrix speaks for all tensors
};

// Whether llama-imatrix gathers importance for the tensor: a matrix that is encoded and multiplies activations inside of layers.
bool WantsImportance(const TensorInfo& tensor);

// One format a tensor of `tensors`, in their order. A tensor that must not be encoded keeps its own. kInvalidArgument: Q2_K_S
// for a tensor without importance, which gives a file of little use.
Result<std::vector<Format>> ChooseFormats(const std::vector<const TensorInfo*>& tensors, const MixtureFacts& facts,
                                          const FileType& type, const MixtureOptions& options);

}  // namespace moonlit
