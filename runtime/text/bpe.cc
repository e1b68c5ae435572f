// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/bpe.h"

#include <algorithm>
#include <array>
#include <optional>

#include "runtime/text/byte_alphabet.h"
#include "runtime/text/merge_table.h"
#include "runtime/text/normalize.h"
#include "runtime/text/pretokenizer.h"
#include "runtime/text/replace_all.h"
#include "runtime/text/utf8.h"
#include "runtime/text/vocabulary.h"

namespace moonlit {
namespace {

// A run of a word in a doubly linked list; an absorbed one has length 0.
struct Symbol {
  int32_t index;  // in the merge table, -1: no token and no part of a merge
  uint32_t begin;
  uint32_t length;
  int32_t previous;
  int32_t next;
};

struct Candidate {
  int32_t rank;
  int32_t left;
  int32_t right;
  int32_t left_index;  // what the two were when the pair was queued; it is stale if one of them has changed
  int32_t right_index;
  int32_t result;
};

// Heaps keep the greatest on top: the lowest rank, then the leftmost pair.
bool IsLater(const Candidate& a, const Candidate& b) {
  return a.rank > b.rank || (a.rank == b.rank && a.left > b.left);
}

class BytePairTokenizer final : public Tokenizer {
 public:
  BytePairTokenizer(std::unique_ptr<const Vocabulary> vocabulary, PreTokenizer pre_tokenizer, MergeTable merges,
                    std::optional<bool> nfc)
      : Tokenizer(std::move(vocabulary), TokenizerKind::kBytePairEncoding),
        pre_tokenizer_(std::move(pre_tokenizer)),
        merges_(std::move(merges)),
        utf8_tokens_(pre_tokenizer_.Has(kUtf8Tokens)),
        nfc_(nfc.value_or(pre_tokenizer_.Has(kNfc))) {
    std::string character;
    for (int byte = 0; byte < 256; ++byte) {
      character.clear();
      Utf8Append(ByteToCharacter(static_cast<unsigned char>(byte)), &character);
      byte_indices_[byte] = merges_.Find(character);
    }
  }

 protected:
  Status EncodeFragment(const Fragment& fragment, std::vector<int32_t>* ids) const override {
    std::string owned;
    std::string_view text = fragment.text;
    const bool valid = Utf8IsValid(text);
    if (!valid && fragment.invalid_utf8 == InvalidUtf8::kCompatible) text = owned = Utf8ReplaceInvalid(text);
    if (nfc_) {
      MOONLIT_ASSIGN_OR_RETURN(owned, NormalizeNfc(text));
      text = owned;
    }
    if (utf8_tokens_) text = owned = ReplaceAll(text, " ", kMetaSpace);
    std::vector<size_t> lengths;
    if (valid) {
      MOONLIT_RETURN_IF_ERROR(pre_tokenizer_.Split(text, &lengths));
    } else {
      MOONLIT_RETURN_IF_ERROR(pre_tokenizer_.Split(Utf8MaskInvalid(text), &lengths));
    }
    Work work;
    size_t begin = 0;
    for (const size_t length : lengths) {
      EncodeWord(text.substr(begin, length), &work, ids);
      begin += length;
    }
    return Status();
  }

  bool CleansUpSpaces() const override { return !pre_tokenizer_.Has(kKeepSpaces); }

  std::string NormalBytes(std::string_view token_text) const override {
    return utf8_tokens_ ? ReplaceAll(token_text, kMetaSpace, " ") : AlphabetToBytes(token_text);
  }

 private:
  // Scratch that the words of one call share.
  struct Work {
    std::vector<Symbol> symbols;
    std::vector<Candidate> heap;
  };

  // The token a word is as a whole, if the pre-tokenizer lets that win over the merges.
  int32_t WholeWord(std::string_view word) const {
    if (word.size() > vocabulary().max_token_bytes()) return kNoToken;
    if (pre_tokenizer_.Has(kIgnoreMerges)) {
      return utf8_tokens_ ? vocabulary().FindPlain(word) : vocabulary().FindPlain(BytesToAlphabet(word));
    }
    if (pre_tokenizer_.Has(kNewlineRuns) && word.find_first_not_of('\n') == std::string_view::npos) {
      return vocabulary().FindPlain(word);
    }
    return kNoToken;
  }

  void EncodeWord(std::string_view word, Work* work, std::vector<int32_t>* ids) const {
    if (const int32_t whole = WholeWord(word); whole != kNoToken) {
      ids->push_back(whole);
      return;
    }
    FillSymbols(word, &work->symbols);
    Merge(work);
    for (int32_t i = 0; i >= 0; i = work->symbols[i].next) {
      const Symbol& symbol = work->symbols[i];
      const int32_t token = symbol.index < 0 ? kNoToken : merges_.Token(symbol.index);
      if (token != kNoToken) {
        ids->push_back(token);
      } else {
        EmitBytes(word.substr(symbol.begin, symbol.length), ids);
      }
    }
  }

  void FillSymbols(std::string_view word, std::vector<Symbol>* symbols) const {
    symbols->clear();
    for (size_t at = 0; at < word.size();) {
      const size_t length = utf8_tokens_ ? std::max<size_t>(1, Utf8CharLength(word.substr(at))) : 1;
      const int32_t index =
          utf8_tokens_ ? merges_.Find(word.substr(at, length)) : byte_indices_[static_cast<unsigned char>(word[at])];
      const auto i = static_cast<int32_t>(symbols->size());
      symbols->push_back({index, static_cast<uint32_t>(at), static_cast<uint32_t>(length), i - 1,
                          at + length == word.size() ? -1 : i + 1});
      at += length;
    }
  }

  void Merge(Work* work) const {
    std::vector<Symbol>& symbols = work->symbols;
    std::vector<Candidate>& heap = work->heap;
    heap.clear();
    for (size_t i = 1; i < symbols.size(); ++i)
      Consider(symbols, static_cast<int32_t>(i) - 1, static_cast<int32_t>(i), &heap);
    std::make_heap(heap.begin(), heap.end(), IsLater);
    const auto push = [&](int32_t left, int32_t right) {
      if (Consider(symbols, left, right, &heap)) std::push_heap(heap.begin(), heap.end(), IsLater);
    };
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end(), IsLater);
      const Candidate best = heap.back();
      heap.pop_back();
      Symbol& left = symbols[best.left];
      Symbol& right = symbols[best.right];
      if (left.length == 0 || right.length == 0 || left.index != best.left_index || right.index != best.right_index)
        continue;
      left.index = best.result;
      left.length += right.length;
      right.length = 0;
      left.next = right.next;
      if (right.next >= 0) symbols[right.next].previous = best.left;
      push(left.previous, best.left);
      push(best.left, left.next);
    }
  }

  bool Consider(const std::vector<Symbol>& symbols, int32_t left, int32_t right, std::vector<Candidate>* heap) const {
    if (left < 0 || right < 0) return false;
    const int32_t rank = merges_.FindMerge(symbols[left].index, symbols[right].index);
    if (rank < 0) return false;
    heap->push_back({rank, left, right, symbols[left].index, symbols[right].index, merges_.ResultOf(rank)});
    return true;
  }

  // What no token spells: a token a byte; a byte without one is the unknown token, or nothing if the model has none.
  void EmitBytes(std::string_view text, std::vector<int32_t>* ids) const {
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      int32_t token = kNoToken;
      if (utf8_tokens_) {
        token = vocabulary().FindByte(byte);
      } else if (byte_indices_[byte] >= 0) {
        token = merges_.Token(byte_indices_[byte]);
      }
      if (token == kNoToken) token = vocabulary().special().unk;
      if (token != kNoToken) ids->push_back(token);
    }
  }

  PreTokenizer pre_tokenizer_;
  MergeTable merges_;
  bool utf8_tokens_, nfc_;
  std::array<int32_t, 256> byte_indices_;
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> CreateBytePairTokenizer(TokenizerData* data) {
  if (data->model == "gemma4") data->pre = "gemma4";
  MOONLIT_ASSIGN_OR_RETURN(PreTokenizer pre_tokenizer, PreTokenizer::Create(data->pre));
  SpecialTokens defaults;
  if (!pre_tokenizer.Has(kUtf8Tokens)) {
    // Files that name neither BOS nor EOS are early GPT-2 and Falcon conversions, where one token is both.
    const auto found = std::find(data->tokens.begin(), data->tokens.end(), "<|endoftext|>");
    if (found != data->tokens.end()) defaults.bos = defaults.eos = static_cast<int32_t>(found - data->tokens.begin());
  }
  if (pre_tokenizer.Has(kNoDefaultBos)) defaults.bos = kNoToken;
  MOONLIT_ASSIGN_OR_RETURN(auto vocabulary, Vocabulary::Create(data, defaults));
  if (data->merges.empty()) {
    return Errorf(Code::kCorrupt,
                  "tokenizer.ggml.merges is empty or missing; a \"%s\" vocabulary can't be used without it",
                  data->model.c_str());
  }
  MOONLIT_ASSIGN_OR_RETURN(MergeTable merges, MergeTable::Create(*vocabulary, data->merges));
  // its files say add_bos_token = false and its models need it all the same
  const bool gemma = pre_tokenizer.Has(kNewlineRuns);
  data->add_bos = gemma || data->add_bos.value_or(pre_tokenizer.Has(kAddBos) && vocabulary->special().bos != kNoToken);
  return std::unique_ptr<Tokenizer>(
      new BytePairTokenizer(std::move(vocabulary), std::move(pre_tokenizer), std::move(merges), data->normalizer_nfc));
}

}  // namespace moonlit
