// SPDX-License-Identifier: Apache-2.0
// Which tokens may come next, so that the text stays one of a grammar.
//
//   const auto order = std::make_shared<const TokenOrder>(tokenizer);          // once a model
//   MOONLIT_ASSIGN_OR_RETURN(GrammarMask mask, GrammarMask::Create(grammar, order));   // once a text
//   MOONLIT_RETURN_IF_ERROR(mask.Mask(logits));
//   MOONLIT_RETURN_IF_ERROR(mask.Accept(chosen));
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/grammar.h"
#include "runtime/text/grammar_matcher.h"
#include "runtime/text/tokenizer.h"

namespace moonlit {

// The tokens of a vocabulary that have text, by their bytes, so that what two in a row share is looked at once. Immutable; any thread.
// The tokenizer must outlive it.
class TokenOrder {
 public:
  explicit TokenOrder(const Tokenizer& tokenizer);
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  friend class GrammarMask;
  const Tokenizer* tokenizer_;
  std::vector<int32_t> ids_;      // by bytes
  std::vector<uint16_t> shared_;  // bytes that ids_[i] has in common with the one before; longer tokens are left out
  std::vector<int32_t> end_ids_;  // tokens that end a generation
};

// One text's way through a grammar. One thread at a time.
class GrammarMask {
 public:
  static Result<GrammarMask> Create(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenOrder> order);

  // logits: [n_vocab], at least the vocabulary's size. Those of tokens that may not come next become -inf: all that have no text, all
  // whose bytes the grammar does not go on with, and the tokens that end a text where it may not end. kUnsupported: none is left;
  // kExhausted: see GrammarMatcher.
  Status Mask(std::span<float> logits);
  // The token that was chosen. kInvalidArgument: it may not come next. A token that ends the text changes nothing.
  Status Accept(int32_t id);
  // The text is one of the grammar, and may end; and it has to, since nothing may follow.
  bool may_end() const { return matcher_.MayEnd(matcher_.state()); }
  bool must_end() const { return matcher_.MustEnd(matcher_.state()); }

 private:
  // One bit a token of the vocabulary.
  struct Allowed {
    GrammarMatcher::State state = GrammarMatcher::kDead;
    std::vector<uint64_t> bits;
    bool any = false;
  };

  GrammarMask(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenOrder> order, GrammarMatcher matcher)
      : grammar_(std::move(grammar)), order_(std::move(order)), matcher_(std::move(matcher)) {}
  Result<const Allowed*> Find();
  Status Collect(Allowed* allowed);

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const TokenOrder> order_;
  GrammarMatcher matcher_;
  std::vector<Allowed> known_;  // of the states met last
  size_t oldest_ = 0;
};

}  // namespace moonlit
