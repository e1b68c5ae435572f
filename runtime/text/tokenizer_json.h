// SPDX-License-Identifier: Apache-2.0
// From a Hugging Face folder's tokenizer files to what Tokenizer::Create takes: what llama.cpp's converter would have written into a
// GGUF file (llama.cpp, conversion/base.py). Byte-level BPE becomes model "gpt2", BPE over characters with byte fallback becomes
// "llama", whose scores are the order of merges. Untrusted input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/text/tokenizer_data.h"

namespace moonlit {

struct TokenizerFiles {
  std::string_view tokenizer_json;         // required, unless there is a tokenizer_model
  std::string_view tokenizer_model;        // SentencePiece's, in place of tokenizer.json; empty: none
  std::string_view added_tokens_json;      // beside tokenizer.model; may be empty
  std::string_view tokenizer_config_json;  // may be empty
  std::string_view config_json;            // the model's, for ids that the others leave open; may be empty
  std::string_view chat_template;          // chat_template.jinja; may be empty
  std::string_view architecture;           // GGUF's name
  std::string_view pre;                    // a name of pretokenizers.inc that overrides what is found; empty: find it
  size_t vocab_size =
      0;  // rows of the embedding: tokens beyond tokenizer.json's are unused ones. 0: as many as there are
};

// Added tokens at or beyond vocab_size are left out, with a warning.
// kCorrupt: no JSON of a tokenizer; an id twice, missing or out of range. kUnsupported: another kind of tokenizer; a pre-tokenizer
// that is none of those known, with its pattern and the way to name one; a part that tokenizer_json_refusals.h names.
Result<TokenizerData> ImportTokenizer(const TokenizerFiles& files);

}  // namespace moonlit
