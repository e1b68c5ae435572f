// SPDX-License-Identifier: Apache-2.0
// Which tokens may come next, so that the text stays one of a grammar.
//
//   const auto order = std::make_shared<const TokenOrder>(tokenizer);          // once a model
//   MOONLIT_ASSIGN_OR_RETURN(GrammarMask mask, GrammarMask::Create(grammar, order));   // once a text
//   MOONLIT_ASSIGN_OR_RETURN(const GrammarMask::Allowed* allowed, mask.Next());   // allowed->Has(id)
//   MOONLIT_RETURN_IF_ERROR(mask.Accept(chosen));
#pragma once

#include <atomic>
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

// One text's way through a grammar; a copy goes its own way from the same place. One thread at a time.
class GrammarMask {
 public:
  // One bit a token of the vocabulary.
  struct Allowed {
    GrammarMatcher::State state = GrammarMatcher::kDead;
    std::vector<uint64_t> bits;
    bool any = false;
    bool Has(int32_t id) const {
      const auto i = static_cast<size_t>(id);
      return i / 64 < bits.size() && (bits[i / 64] >> (i % 64) & 1) != 0;
    }
  };

  static Result<GrammarMask> Create(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenOrder> order);

  // The tokens that may come next: not those that have no text, nor those whose bytes the grammar does not go on with, nor, where the text
  // may not end, those that end it. Valid until the next call. kUnsupported: there is none; kExhausted: see GrammarMatcher; kCancelled:
  // *cancel became true meanwhile, which is looked at every few hundred tokens.
  Result<const Allowed*> Next(const std::atomic<bool>* cancel = nullptr);
  // The token that was chosen. kInvalidArgument: it may not come next. A token that ends the text changes nothing.
  Status Accept(int32_t id);
  // The text is one of the grammar, and may end; and it has to, since nothing may follow.
  bool may_end() const { return matcher_.MayEnd(matcher_.state()); }
  bool must_end() const { return matcher_.MustEnd(matcher_.state()); }

 private:
  GrammarMask(std::shared_ptr<const Grammar> grammar, std::shared_ptr<const TokenOrder> order, GrammarMatcher matcher)
      : grammar_(std::move(grammar)), order_(std::move(order)), matcher_(std::move(matcher)) {}
  Status Collect(const std::atomic<bool>* cancel, Allowed* allowed);

  std::shared_ptr<const Grammar> grammar_;
  std::shared_ptr<const TokenOrder> order_;
  GrammarMatcher matcher_;
  std::vector<Allowed> known_;  // of the states met last
  size_t oldest_ = 0;
};

}  // namespace moonlit
