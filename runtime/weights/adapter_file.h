// SPDX-License-Identifier: Apache-2.0
// The file of a LoRA adapter (Hu et al. 2021, arXiv:2106.09685) as llama.cpp has it (its convert_lora_to_gguf.py and
// src/llama-adapter.cpp): GGUF with
//   general.type          "adapter"
//   general.architecture  the model's
//   adapter.type          "lora"
//   adapter.lora.alpha    what is added is multiplied by alpha / rank; absent or 0: by 1
// and two tensors for each adapted one, NAME.lora_a [rank, inputs] and NAME.lora_b [outputs, rank], where NAME is the model's
// (blk.0.attn_q.weight). What the tensors must be like, the graph knows: runtime/exec/adapter.h.
#pragma once

#include <memory>
#include <string>

#include "runtime/base/status.h"
#include "runtime/weights/gguf_source.h"

namespace moonlit {

struct AdapterFile {
  std::unique_ptr<const GgufSource> source;
  float alpha = 0;
};

// Errors: those of GgufSource::Open; kInvalidArgument (the file is no adapter, or one of another architecture), kUnsupported (another kind of
// adapter), kCorrupt (alpha is no finite number).
Result<AdapterFile> OpenAdapterFile(const std::string& path, const std::string& architecture);

}  // namespace moonlit
