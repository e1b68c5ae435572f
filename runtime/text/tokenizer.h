// SPDX-License-Identifier: Apache-2.0
// Text to token ids and back.
//
//   MOONLIT_ASSIGN_OR_RETURN(std::unique_ptr<const Tokenizer> tokenizer, Tokenizer::Create(std::move(data)));
//   MOONLIT_ASSIGN_OR_RETURN(std::vector<int32_t> ids, tokenizer->Encode("Hello", {.add_special = true}));
//   MOONLIT_ASSIGN_OR_RETURN(std::string text, tokenizer->Decode(ids, {}));
//
// Three kinds, told apart by TokenizerData::model: SentencePiece BPE ("llama"), byte-level BPE ("gpt2", and "gemma4" on
// plain UTF-8), WordPiece ("bert"). The ids are those of llama.cpp's llama_tokenize for the same file; where the
// Hugging Face tokenizer of a model disagrees, pretokenizers.inc says which one is followed and why.
//
// A Tokenizer is immutable after Create: every method is const and may run on many threads at once. Work and memory of
// a call grow as n log n with its input at most, nothing recurses with the input's length, and any byte string is
// accepted (NUL and invalid UTF-8 included).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/tokenizer_data.h"

namespace moonlit {

class SpecialSplitter;
class Vocabulary;

// What becomes of bytes that are not UTF-8.
enum class InvalidUtf8 {
  // As llama.cpp: byte-level BPE reads U+FFFD for each such byte (so the bytes are lost, but the model sees what it saw
  // in training); SentencePiece takes as many bytes as the lead byte promises and falls back to byte tokens; WordPiece
  // drops them.
  kCompatible,
  // The bytes themselves survive wherever the vocabulary has a token for them: Decode(Encode(x)) == x for BPE kinds.
  // For input that was cut in the middle of a character and for tools that must not lose a byte. Valid input gives the
  // same ids in both modes.
  kKeepBytes,
};

struct EncodeOptions {
  bool add_special = false;  // BOS / EOS / CLS / SEP as the file asks
  // Control tokens written out in the text become their ids; user-defined tokens always do.
  bool parse_special = false;
  // With add_special: no second BOS before text that already starts with one, as rendered chat templates do.
  bool avoid_double_bos = false;
  InvalidUtf8 invalid_utf8 = InvalidUtf8::kCompatible;
};

// A piece of a longer text. Chat templates give their own text parse_special = true and the users' words false, so that
// a control token spelt out by a user never becomes one.
struct TextSpan {
  std::string_view text;
  bool parse_special = false;
};

struct DecodeOptions {
  bool show_special = true;      // control and unknown tokens as their text, or as nothing
  bool at_start = true;          // the ids begin a sequence: SentencePiece's artificial leading space is removed
  bool clean_up_spaces = false;  // llama_detokenize's removal of " ." and " 's"; loses bytes, so never when streaming
};

// kNoToken where the model has none.
struct SpecialTokens {
  int32_t bos = kNoToken;
  int32_t eos = kNoToken;
  int32_t eot = kNoToken;  // end of turn
  int32_t eom = kNoToken;  // end of message
  int32_t unk = kNoToken;
  int32_t sep = kNoToken;
  int32_t pad = kNoToken;
  int32_t mask = kNoToken;
  int32_t fim_pre = kNoToken;  // fill in the middle: prefix, suffix, middle, padding, repository, file separator
  int32_t fim_suf = kNoToken;
  int32_t fim_mid = kNoToken;
  int32_t fim_pad = kNoToken;
  int32_t fim_rep = kNoToken;
  int32_t fim_sep = kNoToken;
};

enum class TokenizerKind { kSentencePiece, kBytePairEncoding, kWordPiece };

class Tokenizer {
 public:
  // kUnsupported: a model kind or pre-tokenizer name this build does not know (the message lists what to do); kCorrupt:
  // lists of unequal length, no tokens, NaN scores, special ids outside the vocabulary that the file asks to add.
  static Result<std::unique_ptr<const Tokenizer>> Create(TokenizerData data);
  virtual ~Tokenizer();

  Result<std::vector<int32_t>> Encode(std::string_view text, const EncodeOptions& options) const;
  // The spans' texts in a row as one text; options.parse_special is not looked at. A control token must lie within one
  // span.
  Result<std::vector<int32_t>> EncodeSpans(std::span<const TextSpan> spans, const EncodeOptions& options) const;

  // The bytes an id stands for within a sequence; they need not be whole UTF-8 characters (see utf8_stream.h). Control
  // and unknown tokens give their text if show_special, else nothing; so does an id outside the vocabulary. The view
  // lives as long as *this.
  std::string_view TokenBytes(int32_t id, bool show_special) const;
  // The bytes of a sequence. SentencePiece vocabularies with the space prefix lose one leading space, only if at_start
  // and only from the first id, so never after a special token. kInvalidArgument: an id outside the vocabulary.
  Result<std::string> Decode(std::span<const int32_t> ids, const DecodeOptions& options) const;
  // True if Decode(at_start) would take one leading space from the first id.
  bool strips_leading_space() const { return strips_leading_space_; }

  // The token's own text in the file ("Ġthe", "▁the", "<0x0A>", "<|im_end|>"). Empty view: no such id.
  std::string_view TokenText(int32_t id) const;
  // The id of a token's own text, or kNoToken.
  int32_t TokenToId(std::string_view text) const;
  bool IsEndOfGeneration(int32_t id) const;
  bool IsControl(int32_t id) const;
  float TokenScore(int32_t id) const;  // 0 without scores

  int32_t vocab_size() const;
  const SpecialTokens& special() const;
  bool add_bos() const { return add_bos_; }
  bool add_eos() const { return add_eos_; }
  // True if llama_detokenize would clean up spaces for this vocabulary (DecodeOptions::clean_up_spaces).
  bool cleans_up_spaces() const { return cleans_up_spaces_; }
  TokenizerKind kind() const { return kind_; }
  // "byte-level BPE (pre-tokenizer qwen2), 151936 tokens".
  const std::string& description() const { return description_; }
  // Not empty when the file leaves something open that usually matters, e.g. no pre-tokenizer name: one sentence for
  // the log.
  const std::string& warning() const { return warning_; }
  const std::string& chat_template() const { return chat_template_; }

 protected:
  // One stretch of text between special tokens.
  struct Fragment {
    std::string_view text;
    bool after_special;  // first in the sequence, or next to a special token
    InvalidUtf8 invalid_utf8;
  };
  Tokenizer(std::unique_ptr<const Vocabulary> vocabulary, TokenizerKind kind);
  virtual Status EncodeFragment(const Fragment& fragment, std::vector<int32_t>* ids) const = 0;
  virtual bool CleansUpSpaces() const = 0;
  // Bytes of a token of normal type.
  virtual std::string NormalBytes(std::string_view token_text) const = 0;
  const Vocabulary& vocabulary() const { return *vocabulary_; }

 private:
  void FillPieces();

  std::unique_ptr<const Vocabulary> vocabulary_;
  std::unique_ptr<const SpecialSplitter> splitter_;
  TokenizerKind kind_;
  bool add_bos_ = false;
  bool add_eos_ = false;
  bool add_sep_ = false;
  bool strips_leading_space_ = false;
  bool cleans_up_spaces_ = false;
  std::string pieces_;                 // all tokens' bytes in a row
  std::vector<size_t> piece_offsets_;  // [vocab + 1]
  std::string description_;
  std::string warning_;
  std::string chat_template_;
};

}  // namespace moonlit
