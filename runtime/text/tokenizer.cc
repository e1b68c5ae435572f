// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer.h"

#include <new>

#include "runtime/base/quote.h"
#include "runtime/text/bpe.h"
#include "runtime/text/special_split.h"
#include "runtime/text/spm.h"
#include "runtime/text/vocabulary.h"
#include "runtime/text/wordpiece.h"

namespace moonlit {
namespace {

// Ids and list links are 32 bits wide.
constexpr size_t kMaxTextBytes = size_t{1} << 29;

const char* KindName(TokenizerKind kind) {
  switch (kind) {
    case TokenizerKind::kSentencePiece:
      return "SentencePiece BPE";
    case TokenizerKind::kBytePairEncoding:
      return "byte-level BPE";
    case TokenizerKind::kWordPiece:
      return "WordPiece";
  }
  return "";
}

// llama_detokenize's clean-up, from Hugging Face's clean_up_tokenization_spaces: no space before ?!., no spaces around
// a lone apostrophe, none before 's 'm 're 've.
std::string CleanUpSpaces(std::string_view text) {
  std::string first;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (i > 0 && text[i - 1] == ' ' && (c == '?' || c == '!' || c == '.' || c == ',')) first.pop_back();
    first.push_back(c);
  }
  std::string second;
  for (size_t i = 0; i < first.size(); ++i) {
    const bool lone = i > 0 && i + 1 < first.size() && first[i] == '\'' && first[i - 1] == ' ' && first[i + 1] == ' ';
    if (lone) second.pop_back();
    second.push_back(first[i]);
    if (lone) first[++i] = '\0';  // gone, so it is no space before the next character either
  }
  std::string third;
  for (size_t i = 0; i < second.size(); ++i) {
    if (i > 0 && second[i] == '\'' && second[i - 1] == ' ') {
      const std::string_view rest = std::string_view(second).substr(i + 1, 2);
      const bool joins = !rest.empty() && (rest[0] == 's' || rest[0] == 'm' || rest == "re" || rest == "ve");
      if (joins) third.pop_back();
    }
    third.push_back(second[i]);
  }
  return third;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Vocabulary> vocabulary, TokenizerKind kind)
    : vocabulary_(std::move(vocabulary)), splitter_(std::make_unique<SpecialSplitter>(*vocabulary_)), kind_(kind) {}

Tokenizer::~Tokenizer() = default;

Result<std::unique_ptr<const Tokenizer>> Tokenizer::Create(TokenizerData data) try {
  const bool pre_missing = data.pre.empty();
  std::unique_ptr<Tokenizer> tokenizer;
  if (data.model == "llama") {
    MOONLIT_ASSIGN_OR_RETURN(tokenizer, CreateSentencePieceTokenizer(&data));
  } else if (data.model == "gpt2" || data.model == "gemma4") {
    MOONLIT_ASSIGN_OR_RETURN(tokenizer, CreateBytePairTokenizer(&data));
  } else if (data.model == "bert") {
    MOONLIT_ASSIGN_OR_RETURN(tokenizer, CreateWordPieceTokenizer(&data));
  } else {
    return Errorf(Code::kUnsupported,
                  "tokenizer.ggml.model is %s; this build knows llama (SentencePiece), gpt2 and gemma4 (BPE) "
                  "and bert (WordPiece)",
                  QuoteForMessage(data.model).c_str());
  }
  const SpecialTokens& special = tokenizer->special();
  tokenizer->add_bos_ =
      data.add_bos.value_or(tokenizer->kind_ == TokenizerKind::kSentencePiece && special.bos != kNoToken);
  tokenizer->add_eos_ = data.add_eos.value_or(false);
  tokenizer->add_sep_ = tokenizer->kind_ == TokenizerKind::kWordPiece && data.add_sep.value_or(false);
  if (tokenizer->add_bos_ && special.bos == kNoToken) {
    return Errorf(Code::kCorrupt, "tokenizer.ggml.add_bos_token is true but no token of the vocabulary is BOS");
  }
  if (tokenizer->add_eos_ && special.eos == kNoToken) {
    return Errorf(Code::kCorrupt, "tokenizer.ggml.add_eos_token is true but no token of the vocabulary is EOS");
  }
  tokenizer->strips_leading_space_ =
      tokenizer->kind_ == TokenizerKind::kSentencePiece && data.add_space_prefix.value_or(true);
  tokenizer->cleans_up_spaces_ = tokenizer->CleansUpSpaces();
  tokenizer->description_ = KindName(tokenizer->kind_);
  if (tokenizer->kind_ == TokenizerKind::kBytePairEncoding) {
    tokenizer->description_ += " (pre-tokenizer " + (data.pre.empty() ? std::string("default") : data.pre) + ")";
    if (pre_missing && data.model == "gpt2") {
      tokenizer->warning_ =
          "the file names no pre-tokenizer (tokenizer.ggml.pre); the default one is used, and if the model was trained "
          "with another its "
          "answers will be worse: convert the model anew or override the key";
    }
  }
  tokenizer->description_ += ", " + std::to_string(tokenizer->vocab_size()) + " tokens";
  tokenizer->chat_template_ = std::move(data.chat_template);
  tokenizer->FillPieces();
  return std::unique_ptr<const Tokenizer>(std::move(tokenizer));
} catch (const std::bad_alloc&) {
  return Errorf(Code::kOutOfMemory, "no memory for the vocabulary");
}

void Tokenizer::FillPieces() {
  piece_offsets_.reserve(static_cast<size_t>(vocab_size()) + 1);
  piece_offsets_.push_back(0);
  for (int32_t id = 0; id < vocab_size(); ++id) {
    unsigned char byte = 0;
    if (vocabulary_->IsControl(id) || vocabulary_->IsUnknown(id) || vocabulary_->IsUserDefined(id)) {
      pieces_ += vocabulary_->Text(id);
    } else if (vocabulary_->IsByte(id) && vocabulary_->ByteValue(id, &byte)) {
      pieces_.push_back(static_cast<char>(byte));
    } else if (vocabulary_->IsNormal(id)) {
      pieces_ += NormalBytes(vocabulary_->Text(id));
    }  // unused and undefined tokens stand for nothing
    piece_offsets_.push_back(pieces_.size());
  }
}

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  const TextSpan span{text, options.parse_special};
  return EncodeSpans({&span, 1}, options);
}

Result<std::vector<int32_t>> Tokenizer::EncodeSpans(std::span<const TextSpan> spans, const EncodeOptions& options) const
    try {
  std::string joined;
  std::string_view text;
  std::vector<ParsedRange> ranges;
  size_t total = 0;
  for (const TextSpan& span : spans) {
    if (span.text.size() > kMaxTextBytes - total) {
      return Errorf(Code::kInvalidArgument, "the text to tokenize has more than %zu bytes", kMaxTextBytes);
    }
    if (span.parse_special && !span.text.empty()) ranges.push_back({total, total + span.text.size()});
    total += span.text.size();
  }
  if (spans.size() == 1) {
    text = spans[0].text;
  } else {
    joined.reserve(total);
    for (const TextSpan& span : spans) joined += span.text;
    text = joined;
  }

  const std::vector<TextPart> parts = splitter_->Split(text, ranges);
  std::vector<int32_t> ids;
  const SpecialTokens& special = vocabulary_->special();
  const bool starts_with_bos = !parts.empty() && parts[0].token != kNoToken && parts[0].token == special.bos;
  if (options.add_special && add_bos_ && !(options.avoid_double_bos && starts_with_bos)) ids.push_back(special.bos);
  bool after_special = true;
  for (const TextPart& part : parts) {
    if (part.token != kNoToken) {
      ids.push_back(part.token);
      after_special = true;
      continue;
    }
    const Fragment fragment{text.substr(part.begin, part.end - part.begin), after_special, options.invalid_utf8};
    MOONLIT_RETURN_IF_ERROR(EncodeFragment(fragment, &ids));
    after_special = false;
  }
  if (options.add_special && add_sep_) ids.push_back(special.sep);
  if (options.add_special && add_eos_) ids.push_back(special.eos);
  return ids;
} catch (const std::bad_alloc&) {
  return Errorf(Code::kOutOfMemory, "no memory to tokenize the text");
}

std::string_view Tokenizer::TokenBytes(int32_t id, bool show_special) const {
  if (!vocabulary_->Contains(id)) return {};
  if (!show_special && (vocabulary_->IsControl(id) || vocabulary_->IsUnknown(id))) return {};
  return std::string_view(pieces_).substr(piece_offsets_[id], piece_offsets_[id + 1] - piece_offsets_[id]);
}

Result<std::string> Tokenizer::Decode(std::span<const int32_t> ids, const DecodeOptions& options) const try {
  std::string text;
  bool strip = strips_leading_space_ && options.at_start;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (!vocabulary_->Contains(ids[i])) {
      return Errorf(Code::kInvalidArgument, "token %zu is %d, outside the vocabulary of %d", i, ids[i], vocab_size());
    }
    std::string_view bytes = TokenBytes(ids[i], options.show_special);
    if (strip && !bytes.empty() && bytes[0] == ' ') bytes.remove_prefix(1);
    strip = false;
    text += bytes;
  }
  return options.clean_up_spaces ? CleanUpSpaces(text) : text;
} catch (const std::bad_alloc&) {
  return Errorf(Code::kOutOfMemory, "no memory to decode %zu tokens", ids.size());
}

std::string_view Tokenizer::TokenText(int32_t id) const {
  return vocabulary_->Contains(id) ? std::string_view(vocabulary_->Text(id)) : std::string_view();
}

int32_t Tokenizer::TokenToId(std::string_view text) const { return vocabulary_->Find(text); }
bool Tokenizer::IsEndOfGeneration(int32_t id) const { return vocabulary_->IsEndOfGeneration(id); }
bool Tokenizer::IsControl(int32_t id) const { return vocabulary_->Contains(id) && vocabulary_->IsControl(id); }
float Tokenizer::TokenScore(int32_t id) const { return vocabulary_->Contains(id) ? vocabulary_->Score(id) : 0.0f; }
int32_t Tokenizer::vocab_size() const { return vocabulary_->size(); }
const SpecialTokens& Tokenizer::special() const { return vocabulary_->special(); }

}  // namespace moonlit
