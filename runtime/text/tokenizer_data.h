// SPDX-License-Identifier: Apache-2.0
// What a model file says about its tokenizer, without the file: the reader's side fills it, Tokenizer::Create judges
// it. Nothing here has been checked. Fields are named after the GGUF keys (docs/gguf.md of the ggml project);
// "tokenizer.ggml." is left out in the comments:
//
//   model            "model"                     "llama" | "gpt2" | "gemma4" | "bert"
//   pre              "pre"                       name of the pre-tokenizer; empty when the key is absent
//   tokens           "tokens"                    one byte string an id
//   scores           "scores"                    same length as tokens, or empty
//   token_types      "token_type"                same length as tokens, or empty (then all are normal)
//   merges           "merges"                    "left right", best first
//   bos_id ...       "bos_token_id" ...          kTokenIdKeys; kNoToken when the key is absent or says "none"
//   add_bos ...      "add_bos_token" ...         nullopt when the key is absent (the tokenizer's kind then decides)
//   chat_template    "tokenizer.chat_template"   not used here; kept so that one struct carries all text metadata
//   general_name     "general.name"              some vocabularies keep per-token flags nowhere but in the model's name
//   architecture     "general.architecture"
//
// Three keys are ours, for what a tokenizer.json says and GGUF has no word for; other programs pass them over:
//
//   normalizer_nfc   "normalizer.nfc"            byte-level BPE; absent: as the pre-tokenizer's name implies
//   strip_left_ids   "strip_left_token_ids"      tokens that take the white space before them along
//   strip_right_ids  "strip_right_token_ids"     behind them
//   strips_stated    one of the two is there     though it may be empty: the model's name then says no more
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace moonlit {

inline constexpr int32_t kNoToken = -1;

// Values of "tokenizer.ggml.token_type" (SentencePiece's piece types).
enum class TokenType : int32_t {
  kUndefined = 0,
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

struct TokenizerData {
  std::string model;
  std::string pre;
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> token_types;
  std::vector<std::string> merges;

  int64_t bos_id = kNoToken;
  int64_t eos_id = kNoToken;
  int64_t eot_id = kNoToken;
  int64_t eom_id = kNoToken;
  int64_t unk_id = kNoToken;
  int64_t sep_id = kNoToken;  // key "seperator_token_id", spelt so
  int64_t pad_id = kNoToken;  // key "padding_token_id"
  int64_t cls_id = kNoToken;
  int64_t mask_id = kNoToken;
  int64_t fim_pre_id = kNoToken;
  int64_t fim_suf_id = kNoToken;
  int64_t fim_mid_id = kNoToken;
  int64_t fim_pad_id = kNoToken;
  int64_t fim_rep_id = kNoToken;
  int64_t fim_sep_id = kNoToken;

  std::optional<bool> add_bos;                   // "add_bos_token"
  std::optional<bool> add_eos;                   // "add_eos_token"
  std::optional<bool> add_sep;                   // "add_sep_token"
  std::optional<bool> add_space_prefix;          // "add_space_prefix"
  std::optional<bool> remove_extra_whitespaces;  // "remove_extra_whitespaces"; only unigram tokenizers act on it
  std::optional<bool> normalizer_lowercase;      // "normalizer.lowercase", WordPiece; absent: true
  std::optional<bool> normalizer_strip_accents;  // "normalizer.strip_accents", WordPiece; absent: as lowercase
  std::optional<bool> normalizer_nfc;            // "normalizer.nfc"
  std::vector<int32_t> strip_left_ids;
  std::vector<int32_t> strip_right_ids;
  bool strips_stated = false;

  std::string chat_template;
  std::string general_name;
  std::string architecture;
};

struct TokenIdKey {
  const char* key;  // after "tokenizer.ggml."
  int64_t TokenizerData::*field;
};
inline constexpr TokenIdKey kTokenIdKeys[] = {
    {"bos_token_id", &TokenizerData::bos_id},         {"eos_token_id", &TokenizerData::eos_id},
    {"eot_token_id", &TokenizerData::eot_id},         {"eom_token_id", &TokenizerData::eom_id},
    {"unknown_token_id", &TokenizerData::unk_id},     {"seperator_token_id", &TokenizerData::sep_id},
    {"padding_token_id", &TokenizerData::pad_id},     {"cls_token_id", &TokenizerData::cls_id},
    {"mask_token_id", &TokenizerData::mask_id},       {"fim_pre_token_id", &TokenizerData::fim_pre_id},
    {"fim_suf_token_id", &TokenizerData::fim_suf_id}, {"fim_mid_token_id", &TokenizerData::fim_mid_id},
    {"fim_pad_token_id", &TokenizerData::fim_pad_id}, {"fim_rep_token_id", &TokenizerData::fim_rep_id},
    {"fim_sep_token_id", &TokenizerData::fim_sep_id},
};

}  // namespace moonlit
