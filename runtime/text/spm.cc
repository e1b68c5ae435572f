// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/spm.h"

#include <algorithm>
#include <queue>

#include "runtime/text/utf8.h"
#include "runtime/text/vocabulary.h"

namespace moonlit {
namespace {

// A run of the text in a doubly linked list; merged runs grow to the right, an absorbed one has length 0.
struct Symbol {
  size_t begin;
  uint32_t length;
  int32_t previous;
  int32_t next;
};

struct Candidate {
  float score;
  int32_t left;
  int32_t right;
  uint32_t length;  // of both together when it was queued; a mismatch later means that one of them has changed
};

struct WorseCandidate {
  bool operator()(const Candidate& a, const Candidate& b) const {
    return a.score < b.score || (a.score == b.score && a.left > b.left);
  }
};

std::string EscapeSpaces(std::string_view text) {
  std::string out;
  out.reserve(text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ') {
      out += kMetaSpace;
    } else {
      out.push_back(c);
    }
  }
  return out;
}

class Merger {
 public:
  Merger(const Vocabulary& vocabulary, std::string_view text, InvalidUtf8 invalid)
      : vocabulary_(vocabulary), text_(text) {
    for (size_t at = 0; at < text.size();) {
      size_t length = invalid == InvalidUtf8::kCompatible ? Utf8PromisedLength(static_cast<unsigned char>(text[at]))
                                                          : std::max<size_t>(1, Utf8CharLength(text.substr(at)));
      length = std::min(length, text.size() - at);
      const auto index = static_cast<int32_t>(symbols_.size());
      at += length;
      symbols_.push_back({at - length, static_cast<uint32_t>(length), index - 1, at == text.size() ? -1 : index + 1});
    }
  }

  void Run(std::vector<int32_t>* ids) {
    for (size_t i = 1; i < symbols_.size(); ++i) Consider(static_cast<int32_t>(i) - 1, static_cast<int32_t>(i));
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      Symbol& left = symbols_[best.left];
      Symbol& right = symbols_[best.right];
      if (left.length == 0 || right.length == 0 || left.length + right.length != best.length) continue;
      left.length += right.length;
      right.length = 0;
      left.next = right.next;
      if (right.next >= 0) symbols_[right.next].previous = best.left;
      Consider(left.previous, best.left);
      Consider(best.left, left.next);
    }
    for (int32_t i = symbols_.empty() ? -1 : 0; i >= 0; i = symbols_[i].next) Emit(symbols_[i], ids);
  }

 private:
  void Consider(int32_t left, int32_t right) {
    if (left < 0 || right < 0) return;
    const uint32_t length = symbols_[left].length + symbols_[right].length;
    const int32_t id = vocabulary_.FindPlain(text_.substr(symbols_[left].begin, length));
    if (id != kNoToken) queue_.push({vocabulary_.Score(id), left, right, length});
  }

  void Emit(const Symbol& symbol, std::vector<int32_t>* ids) const {
    const std::string_view text = text_.substr(symbol.begin, symbol.length);
    const int32_t id = vocabulary_.FindPlain(text);
    if (id != kNoToken) {
      ids->push_back(id);
      return;
    }
    const size_t before = ids->size();
    for (const char byte : text) {
      const int32_t token = vocabulary_.FindByte(static_cast<unsigned char>(byte));
      if (token == kNoToken) {  // a vocabulary without byte fallback: one unknown token for the whole character
        ids->resize(before);
        if (vocabulary_.special().unk != kNoToken) ids->push_back(vocabulary_.special().unk);
        return;
      }
      ids->push_back(token);
    }
  }

  const Vocabulary& vocabulary_;
  std::string_view text_;
  std::vector<Symbol> symbols_;
  std::priority_queue<Candidate, std::vector<Candidate>, WorseCandidate> queue_;
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(std::unique_ptr<const Vocabulary> vocabulary, bool add_space_prefix)
      : Tokenizer(std::move(vocabulary), TokenizerKind::kSentencePiece), add_space_prefix_(add_space_prefix) {}

 protected:
  Status EncodeFragment(const Fragment& fragment, std::vector<int32_t>* ids) const override {
    std::string text = EscapeSpaces(fragment.text);
    if (add_space_prefix_ && fragment.after_special) text.insert(0, kMetaSpace);
    Merger(vocabulary(), text, fragment.invalid_utf8).Run(ids);
    return Status();
  }

  bool CleansUpSpaces() const override { return false; }

  std::string NormalBytes(std::string_view token_text) const override {
    std::string out;
    for (size_t at = 0; at < token_text.size();) {
      const size_t space = token_text.find(kMetaSpace, at);
      out += token_text.substr(at, space == std::string_view::npos ? space : space - at);
      if (space == std::string_view::npos) break;
      out.push_back(' ');
      at = space + kMetaSpace.size();
    }
    return out;
  }

 private:
  bool add_space_prefix_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> CreateSentencePieceTokenizer(TokenizerData* data) {
  const SpecialTokens defaults{.bos = 1, .eos = 2, .unk = 0};
  MOONLIT_ASSIGN_OR_RETURN(auto vocabulary, Vocabulary::Create(data, defaults));
  if (!vocabulary->has_scores()) {
    return Errorf(Code::kCorrupt, "tokenizer.ggml.scores is missing; a \"llama\" vocabulary can't be used without it");
  }
  return std::unique_ptr<Tokenizer>(
      new SentencePieceTokenizer(std::move(vocabulary), data->add_space_prefix.value_or(true)));
}

}  // namespace moonlit
