// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/vocabulary.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <limits>

#include "runtime/base/log.h"

namespace moonlit {
namespace {

// Files rarely say which tokens end a turn or mark fill-in-the-middle; the texts below are what the models' own
// tokenizer files use (the same list as llama.cpp's src/llama-vocab.cpp). The first that exists wins.
struct RoleByText {
  int32_t SpecialTokens::*field;
  std::array<std::string_view, 12> texts;
};
constexpr RoleByText kRolesByText[] = {
    {&SpecialTokens::eot,
     {"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>", "_<EOT>",
      "[EOT]", "<｜end▁of▁sentence｜>", "<end_of_utterance>"}},
    {&SpecialTokens::eom, {"<|eom_id|>"}},
    {&SpecialTokens::fim_pre,
     {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>", "<|code_prefix|>",
      "<|prefix|>"}},
    {&SpecialTokens::fim_suf,
     {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>", "<|code_suffix|>",
      "<|suffix|>"}},
    {&SpecialTokens::fim_mid,
     {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>", "<|code_middle|>",
      "<|middle|>"}},
    {&SpecialTokens::fim_pad, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
    {&SpecialTokens::fim_rep, {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
    {&SpecialTokens::fim_sep, {"<|file_sep|>"}},
};

constexpr std::string_view kEndOfGenerationTexts[] = {
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "</s>",
    "<|eom_id|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<|end_of_text|>",
    "<end_of_utterance>",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

std::string LowerAscii(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = (c >= 'A' && c <= 'Z') ? static_cast<char>(c + 32) : c;
  return lower;
}

// Lists of one length, scores that can be compared, ids that exist. Forgets a padding token that does not.
Status Check(TokenizerData* data) {
  const size_t count = data->tokens.size();
  if (count == 0)
    return Errorf(Code::kCorrupt, "tokenizer.ggml.tokens is empty or missing; the file carries no vocabulary");
  if (count > static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    return Errorf(Code::kCorrupt, "tokenizer.ggml.tokens has %zu entries, more than ids can count", count);
  }
  if (!data->scores.empty() && data->scores.size() != count) {
    return Errorf(Code::kCorrupt, "tokenizer.ggml.scores has %zu entries for %zu tokens", data->scores.size(), count);
  }
  if (!data->token_types.empty() && data->token_types.size() != count) {
    return Errorf(Code::kCorrupt, "tokenizer.ggml.token_type has %zu entries for %zu tokens", data->token_types.size(),
                  count);
  }
  for (size_t i = 0; i < data->scores.size(); ++i) {
    if (std::isnan(data->scores[i]))
      return Errorf(Code::kCorrupt, "tokenizer.ggml.scores: the score of token %zu is not a number", i);
  }
  for (const TokenIdKey& id : kTokenIdKeys) {
    const int64_t value = data->*id.field;
    if (value == kNoToken || (value >= 0 && static_cast<uint64_t>(value) < count)) continue;
    if (id.field == &TokenizerData::pad_id) {
      // Widespread conversions of Llama 2 name one that was never added; nothing here pads.
      Logf(LogLevel::kWarning, "tokenizer.ggml.%s is %" PRId64 ", but the vocabulary has %zu tokens; not used", id.key,
           value, count);
      data->pad_id = kNoToken;
      continue;
    }
    return Errorf(Code::kCorrupt,
                  "tokenizer.ggml.%s is %" PRId64
                  ": expected a token of the vocabulary, 0 to %zu, or 4294967295 for none",
                  id.key, value, count - 1);
  }
  return Status();
}

}  // namespace

Result<std::unique_ptr<const Vocabulary>> Vocabulary::Create(TokenizerData* data, const SpecialTokens& defaults) {
  MOONLIT_RETURN_IF_ERROR(Check(data));
  auto vocabulary = std::unique_ptr<Vocabulary>(new Vocabulary());
  vocabulary->Index(data->tokens);
  data->tokens = {};
  vocabulary->scores_ = std::move(data->scores);
  vocabulary->flags_.assign(static_cast<size_t>(vocabulary->size()), kNormal);
  for (size_t i = 0; i < data->token_types.size(); ++i) {
    switch (static_cast<TokenType>(data->token_types[i])) {
      case TokenType::kNormal:
        break;
      case TokenType::kUnknown:
        vocabulary->flags_[i] = kUnknown | kReserved;
        break;
      case TokenType::kControl:
        vocabulary->flags_[i] = kControl | kReserved;
        break;
      case TokenType::kUserDefined:
        vocabulary->flags_[i] = kUserDefined;
        break;
      case TokenType::kUnused:
        vocabulary->flags_[i] = kUnused;
        break;
      case TokenType::kByte:
        vocabulary->flags_[i] = kByte | kReserved;
        break;
      default:
        vocabulary->flags_[i] = 0;
        break;
    }
  }
  vocabulary->SetSpecialIds(*data, defaults);
  vocabulary->MarkByText();
  vocabulary->SetStrips(*data);
  return std::unique_ptr<const Vocabulary>(std::move(vocabulary));
}

void Vocabulary::Index(const std::vector<std::string>& texts) {
  size_t bytes = 0;
  for (const std::string& text : texts) bytes += text.size();
  texts_.Reserve(texts.size(), bytes);
  for (const std::string& text : texts) {  // of equal texts the first keeps its id; the others can only be decoded
    const int32_t id = texts_.Add(text.empty() ? "[EMPTY_" + std::to_string(size()) + "]" : text);
    max_token_bytes_ = std::max(max_token_bytes_, texts_[id].size());
  }
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof(name), "<0x%02X>", byte);
    int32_t id = Find(name);
    const char raw = static_cast<char>(byte);
    if (id == kNoToken) id = Find(std::string_view(&raw, 1));
    byte_tokens_[byte] = id;
  }
}

int32_t Vocabulary::Find(std::string_view text) const {
  if (text.size() > max_token_bytes_) return kNoToken;
  return texts_.Find(text);
}

int32_t Vocabulary::FindPlain(std::string_view text) const {
  const int32_t id = Find(text);
  return id != kNoToken && !IsPlain(id) ? kNoToken : id;
}

bool Vocabulary::ByteValue(int32_t id, unsigned char* value) const {
  const std::string_view text = texts_[id];
  if (text.size() != 6 || text.compare(0, 3, "<0x") != 0 || text[5] != '>') return false;
  const int high = HexDigit(text[3]);
  const int low = HexDigit(text[4]);
  if (high < 0 || low < 0) return false;
  *value = static_cast<unsigned char>(high * 16 + low);
  return true;
}

void Vocabulary::SetSpecialIds(const TokenizerData& data, const SpecialTokens& defaults) {
  const auto pick = [this](int64_t from_file, int32_t fallback) {
    if (from_file != kNoToken) return static_cast<int32_t>(from_file);
    return Contains(fallback) ? fallback : kNoToken;
  };
  special_.bos = pick(data.bos_id, defaults.bos);
  special_.eos = pick(data.eos_id, defaults.eos);
  special_.eot = pick(data.eot_id, defaults.eot);
  special_.eom = pick(data.eom_id, defaults.eom);
  special_.unk = pick(data.unk_id, defaults.unk);
  special_.sep = pick(data.sep_id, defaults.sep);
  special_.pad = pick(data.pad_id, defaults.pad);
  special_.mask = pick(data.mask_id, defaults.mask);
  special_.fim_pre = pick(data.fim_pre_id, kNoToken);
  special_.fim_suf = pick(data.fim_suf_id, kNoToken);
  special_.fim_mid = pick(data.fim_mid_id, kNoToken);
  special_.fim_pad = pick(data.fim_pad_id, kNoToken);
  special_.fim_rep = pick(data.fim_rep_id, kNoToken);
  special_.fim_sep = pick(data.fim_sep_id, kNoToken);
}

void Vocabulary::MarkByText() {
  for (const RoleByText& role : kRolesByText) {
    int32_t& id = special_.*role.field;
    for (size_t i = 0; id == kNoToken && i < role.texts.size() && !role.texts[i].empty(); ++i) {
      id = Find(role.texts[i]);
      AddFlag(id, kControl);  // whatever the file's type list says
    }
  }
  for (const int32_t id : {special_.fim_pad, special_.fim_rep, special_.fim_sep}) AddFlag(id, kEndOfGeneration);
  for (const std::string_view text : kEndOfGenerationTexts) AddFlag(Find(text), kControl | kEndOfGeneration);
  for (const int32_t id : {special_.eos, special_.eot, special_.eom}) AddFlag(id, kEndOfGeneration);

  // In the Harmony format (gpt-oss) and its relatives "<|end|>" closes a message and the turn goes on.
  const auto ends = [this](std::string_view text) { return IsEndOfGeneration(Find(text)); };
  const bool harmony = ends("<|return|>") && ends("<|call|>");
  const bool solar = (ends("<|call|>") || ends("<|calls|>")) && ends("<|flush|>");
  if ((harmony || solar) && ends("<|end|>")) flags_[Find("<|end|>")] &= static_cast<uint16_t>(~kEndOfGeneration);
  // Gemma 4 keeps "</s>" as an HTML word.
  if (ends("<|tool_response>") && ends("</s>")) flags_[Find("</s>")] = kNormal;
}

void Vocabulary::SetStrips(const TokenizerData& data) {
  for (const int32_t id : data.strip_left_ids) AddFlag(id, kStripLeft);
  for (const int32_t id : data.strip_right_ids) AddFlag(id, kStripRight);
  const auto mentions = [](std::string_view text, std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return text.find(word) != std::string_view::npos; });
  };
  // A folder's tokenizer says itself which tokens strip, and its name is whatever its user called it.
  const std::string name = data.strips_stated ? std::string() : LowerAscii(data.general_name);
  if (mentions(data.pre, {"jina-v2-de", "jina-v2-es", "jina-v2-code"}) ||
      mentions(data.architecture, {"nomic-bert-moe", "jina-bert-v3"})) {
    AddFlag(Find("<mask>"), kStripLeft);
  } else if (mentions(name, {"phi-3", "phi3"})) {
    for (int32_t id = 0; id < size(); ++id) {
      if (flags_[id] & (kControl | kUserDefined | kUnknown)) flags_[id] |= kStripRight;
    }
    AddFlag(Find("</s>"), kStripRight);
    for (const std::string_view text : {"<unk>", "<s>", "<|endoftext|>"}) {
      const int32_t id = Find(text);
      if (id != kNoToken) flags_[id] &= static_cast<uint16_t>(~kStripRight);
    }
  } else if (mentions(name, {"modern-bert"})) {
    AddFlag(Find("[MASK]"), kStripLeft);
  }
}

}  // namespace moonlit
