// SPDX-License-Identifier: Apache-2.0
// The checked vocabulary: texts, scores, types, special ids, end-of-generation set. Immutable after Create, safe to
// share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/text_table.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_data.h"

namespace moonlit {

class Vocabulary {
 public:
  // Takes tokens, scores, token_types out of *data; the rest stays readable. default_* are the special ids of the kind,
  // used where the file is silent and only if they exist in the vocabulary. kCorrupt when the file names a
  // token that does not exist, or when lists differ in length.
  static Result<std::unique_ptr<const Vocabulary>> Create(TokenizerData* data, const SpecialTokens& defaults);

  int32_t size() const { return texts_.size(); }
  bool Contains(int32_t id) const { return id >= 0 && id < size(); }
  std::string_view Text(int32_t id) const { return texts_[id]; }
  float Score(int32_t id) const { return scores_.empty() ? 0.0f : scores_[id]; }
  bool has_scores() const { return !scores_.empty(); }

  // Any token with this text, whatever its type.
  int32_t Find(std::string_view text) const;
  // Only tokens that ordinary text may become: what the file calls control, unknown or byte is not in it (SentencePiece
  // keeps them in a list of their own too), so words that spell one out stay words.
  int32_t FindPlain(std::string_view text) const;
  // The token of one byte: "<0xHH>", else the byte as a token of its own, else kNoToken.
  int32_t FindByte(unsigned char byte) const { return byte_tokens_[byte]; }

  bool IsPlain(int32_t id) const { return !(flags_[id] & kReserved); }  // FindPlain may return it
  bool IsNormal(int32_t id) const { return flags_[id] & kNormal; }
  bool IsControl(int32_t id) const { return flags_[id] & kControl; }
  bool IsUnknown(int32_t id) const { return flags_[id] & kUnknown; }
  bool IsUserDefined(int32_t id) const { return flags_[id] & kUserDefined; }
  bool IsByte(int32_t id) const { return flags_[id] & kByte; }
  // White space of the text to the left or right of the token belongs to the token (Hugging Face's lstrip and rstrip).
  bool StripsLeft(int32_t id) const { return flags_[id] & kStripLeft; }
  bool StripsRight(int32_t id) const { return flags_[id] & kStripRight; }
  bool IsEndOfGeneration(int32_t id) const { return Contains(id) && (flags_[id] & kEndOfGeneration); }
  // The value of a token of type byte; false if its text is no "<0xHH>".
  bool ByteValue(int32_t id, unsigned char* value) const;

  const SpecialTokens& special() const { return special_; }
  size_t max_token_bytes() const { return max_token_bytes_; }

 private:
  enum Flag : uint16_t {
    kNormal = 1,
    kUnknown = 2,
    kControl = 4,
    kUserDefined = 8,
    kUnused = 16,
    kByte = 32,
    kStripLeft = 64,
    kStripRight = 128,
    kEndOfGeneration = 256,
    kReserved = 512,  // control, unknown or byte in the file's own list
  };
  void Index(const std::vector<std::string>& texts);
  void SetSpecialIds(const TokenizerData& data, const SpecialTokens& defaults);
  void MarkByText();
  void SetStrips(const TokenizerData& data);
  void AddFlag(int32_t id, uint16_t flag) {
    if (Contains(id)) flags_[id] |= flag;
  }

  TextTable texts_;
  std::vector<float> scores_;
  std::vector<uint16_t> flags_;
  int32_t byte_tokens_[256];
  SpecialTokens special_;
  size_t max_token_bytes_ = 0;
};

}  // namespace moonlit
