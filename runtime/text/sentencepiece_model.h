// SPDX-License-Identifier: Apache-2.0
// Reads tokenizer.model, the protocol buffer ModelProto of SentencePiece
// (https://github.com/google/sentencepiece/blob/master/src/sentencepiece_model.proto): only what a tokenizer needs. Untrusted input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/tokenizer_data.h"

namespace moonlit {

struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0;
    TokenType type = TokenType::kNormal;
  };
  std::vector<Piece> pieces;
  int64_t unk_id = 0, bos_id = 1, eos_id = 2, pad_id = kNoToken;  // kNoToken: none
  bool add_space_prefix = true;
};

// kCorrupt: no such message, or cut short. kUnsupported: another algorithm than BPE (Unigram, words, characters), a normalization, or
// the removal of spaces, which change ids and which GGUF has no word for.
Result<SentencePieceModel> ParseSentencePieceModel(std::string_view bytes);

}  // namespace moonlit
