// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/wordpiece.h"

#include <utf8proc.h>

#include <algorithm>

#include "runtime/text/automaton.h"
#include "runtime/text/utf8.h"
#include "runtime/text/vocabulary.h"

namespace moonlit {
namespace {

// The blocks that BERT's tokenizer (google-research/bert, tokenization.py) takes one character at a time; 2B920 is the
// Hugging Face tokenizer's value where the original has 2B820.
bool IsChinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) || (c >= 0x20000 && c <= 0x2A6DF) ||
         (c >= 0x2A700 && c <= 0x2B73F) || (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

enum class Role { kSpace, kDropped, kMark, kAlone, kLetter };

Role RoleOf(char32_t c) {
  if ((c >= '\t' && c <= '\r') || c == 0x85) return Role::kSpace;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return Role::kSpace;
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return Role::kDropped;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return Role::kMark;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return Role::kAlone;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return c < 0x7F || IsChinese(c) ? Role::kAlone : Role::kLetter;
    default:
      return IsChinese(c) ? Role::kAlone : Role::kLetter;
  }
}

class WordPieceTokenizer final : public Tokenizer {
 public:
  WordPieceTokenizer(std::unique_ptr<const Vocabulary> vocabulary, bool lowercase, bool strip_accents)
      : Tokenizer(std::move(vocabulary), TokenizerKind::kWordPiece),
        lowercase_(lowercase),
        strip_accents_(strip_accents) {
    for (int32_t id = 0; id < this->vocabulary().size(); ++id) AddPiece(id);
    pieces_.Finish();
  }

 protected:
  Status EncodeFragment(const Fragment& fragment, std::vector<int32_t>* ids) const override {
    std::string word;
    const auto flush = [&] {
      if (!word.empty()) EncodeWord(word, ids);
      word.clear();
    };
    const std::string_view text = fragment.text;
    for (size_t at = 0; at < text.size();) {
      const size_t length = Utf8CharLength(text.substr(at));
      if (length == 0) {  // no character: dropped, as U+FFFD is
        ++at;
        continue;
      }
      const char32_t c = Utf8Decode(text.substr(at, length), length);
      at += length;
      if (c == 0 || c == 0xFFFD) continue;
      AddCharacter(c, &word, flush);
    }
    flush();
    return Status();
  }

  bool CleansUpSpaces() const override { return true; }

  std::string NormalBytes(std::string_view token_text) const override {
    const bool begins_word = token_text.substr(0, kMetaSpace.size()) == kMetaSpace;
    return begins_word ? " " + std::string(token_text.substr(kMetaSpace.size())) : std::string(token_text);
  }

 private:
  // Without its accents a character is the first of its canonical decomposition. For a Hangul syllable that is its leading
  // consonant alone, where the Hugging Face tokenizer keeps all three letters: the ids are llama.cpp's, and embeddings that
  // were made with it stay comparable.
  static char32_t StripAccents(char32_t c) {
    utf8proc_int32_t decomposed[32];
    int boundary = 0;
    const utf8proc_ssize_t count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), decomposed, 32, UTF8PROC_DECOMPOSE, &boundary);
    return count < 1 || count > 32 ? c : static_cast<char32_t>(decomposed[0]);
  }

  template <typename Flush>
  void AddCharacter(char32_t c, std::string* word, const Flush& flush) const {
    if (strip_accents_ && c >= 0x80) c = StripAccents(c);
    const Role role = RoleOf(c);
    if (role == Role::kSpace) flush();
    if (role == Role::kSpace || role == Role::kDropped || (role == Role::kMark && strip_accents_)) return;
    if (lowercase_) c = static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
    if (role == Role::kAlone) flush();
    Utf8Append(c, word);
    if (role == Role::kAlone) flush();
  }

  // Only pieces of whole characters: a word is never cut inside one.
  void AddPiece(int32_t id) {
    const std::string_view text = vocabulary().Text(id);
    if (vocabulary().FindPlain(text) != id) return;
    for (size_t at = 0; at < text.size();) {
      const size_t length = Utf8CharLength(text.substr(at));
      if (length == 0) return;
      at += length;
    }
    pieces_.Add(std::string(text.rbegin(), text.rend()), id);
  }

  void EncodeWord(const std::string& word, std::vector<int32_t>* ids) const {
    const std::string text = std::string(kMetaSpace) + word;
    // From the end backwards, so that each state knows the longest piece that begins at its place. (Trying lengths from the longest
    // piece's down would take its square for each character.)
    std::vector<int32_t> longest(text.size());
    int32_t state = WordAutomaton::kStart;
    for (size_t at = text.size(); at-- > 0;) {
      state = pieces_.Step(state, text[at]);
      const int32_t piece = pieces_.Longest(state);
      longest[at] = piece < 0 ? kNoToken : pieces_.Value(piece);
    }
    const size_t before = ids->size();
    for (size_t at = 0; at < text.size(); at += vocabulary().Text(ids->back()).size()) {
      if (longest[at] == kNoToken) {
        ids->resize(before);
        if (vocabulary().special().unk != kNoToken) ids->push_back(vocabulary().special().unk);
        return;
      }
      ids->push_back(longest[at]);
    }
  }

  WordAutomaton pieces_;  // backwards; values are ids
  bool lowercase_;
  bool strip_accents_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> CreateWordPieceTokenizer(TokenizerData* data) {
  SpecialTokens defaults{.bos = 101, .unk = 100, .sep = 102, .pad = 0, .mask = 103};  // bert-base-uncased
  if (data->cls_id != kNoToken) defaults.bos = static_cast<int32_t>(data->cls_id);    // checked by Create
  MOONLIT_ASSIGN_OR_RETURN(auto vocabulary, Vocabulary::Create(data, defaults));
  const bool lowercase = data->normalizer_lowercase.value_or(true);
  const bool strip_accents = data->normalizer_strip_accents.value_or(lowercase);
  data->add_bos = true;
  data->add_sep = vocabulary->special().sep != kNoToken;
  data->add_eos = false;
  return std::unique_ptr<Tokenizer>(new WordPieceTokenizer(std::move(vocabulary), lowercase, strip_accents));
}

}  // namespace moonlit
