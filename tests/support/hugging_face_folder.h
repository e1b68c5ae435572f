// SPDX-License-Identifier: Apache-2.0
// Writes a golden GGUF model as the Hugging Face folder that it could have been converted from: config.json of its golden.json, the
// tensors under PyTorch's names with PyTorch's order of rows, a tokenizer.json. Independent of models/common's tables, which are
// judged by it.
#pragma once

#include <cstddef>
#include <string>

namespace moonlit {

// `golden`: a folder with model.gguf (F32) and golden.json. With more than one shard the tensors are dealt out by turns and an index
// is written. Fails the program when something can't be read or written.
void WriteHuggingFaceFolder(const std::string& golden, const std::string& folder, size_t shards = 1);

}  // namespace moonlit
