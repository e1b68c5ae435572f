// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/grammar_mask.h"

#include <algorithm>

namespace moonlit {
namespace {

constexpr size_t kMostKnown = 64;
// No token that is text is longer; one of a hostile vocabulary is never allowed.
constexpr size_t kMostTokenBytes = 4096;
// For all tokens of a vocabulary at a new place: some tenths of a second at most.
constexpr uint64_t kWork = uint64_t{1} << 20;
constexpr size_t kTokensBetweenLooks = 256;  // at the flag that cancels

}  // namespace

TokenOrder::TokenOrder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {
  const auto bytes = [&](int32_t id) { return tokenizer.TokenBytes(id, /*show_special=*/false); };
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    if (tokenizer.IsEndOfGeneration(id)) {
      end_ids_.push_back(id);
    } else if (!bytes(id).empty() && bytes(id).size() <= kMostTokenBytes) {
      ids_.push_back(id);
    }
  }
  std::sort(ids_.begin(), ids_.end(), [&](int32_t a, int32_t b) {
    const int order = bytes(a).compare(bytes(b));
    return order != 0 ? order < 0 : a < b;
  });
  shared_.resize(ids_.size());
  for (size_t i = 1; i < ids_.size(); ++i) {
    const std::string_view before = bytes(ids_[i - 1]), now = bytes(ids_[i]);
    const size_t most = std::min(before.size(), now.size());
    size_t n = 0;
    while (n < most && before[n] == now[n]) ++n;
    shared_[i] = static_cast<uint16_t>(n);
  }
}

Result<GrammarMask> GrammarMask::Create(std::shared_ptr<const Grammar> grammar,
                                        std::shared_ptr<const TokenOrder> order) {
  MOONLIT_ASSIGN_OR_RETURN(GrammarMatcher matcher, GrammarMatcher::Create(*grammar));
  return GrammarMask(std::move(grammar), std::move(order), std::move(matcher));
}

// Depth first over all tokens in order: states[n] is the one behind the first n bytes of the token at hand.
Status GrammarMask::Collect(const std::atomic<bool>* cancel, Allowed* allowed) {
  const Tokenizer& tokenizer = order_->tokenizer();
  allowed->state = matcher_.state();
  allowed->bits.assign((static_cast<size_t>(tokenizer.vocab_size()) + 63) / 64, 0);
  allowed->any = false;
  matcher_.Allow(kWork);
  const auto allow = [&](int32_t id) {
    allowed->bits[static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
    allowed->any = true;
  };
  std::vector<GrammarMatcher::State> states = {matcher_.state()};
  const size_t count = order_->ids_.size();
  for (size_t i = 0, looked = 0; i < count; ++looked) {
    if (looked % kTokensBetweenLooks == 0 && cancel != nullptr && cancel->load(std::memory_order_relaxed))
      return Status(Code::kCancelled, "cancelled");
    const int32_t id = order_->ids_[i];
    const std::string_view bytes = tokenizer.TokenBytes(id, false);
    states.resize(std::min<size_t>(states.size(), size_t{order_->shared_[i]} + 1));
    GrammarMatcher::State state = states.back();
    while (states.size() <= bytes.size() && state != GrammarMatcher::kDead) {
      MOONLIT_ASSIGN_OR_RETURN(state, matcher_.Next(state, static_cast<uint8_t>(bytes[states.size() - 1])));
      if (state != GrammarMatcher::kDead) states.push_back(state);
    }
    ++i;
    if (state != GrammarMatcher::kDead) {
      allow(id);
    } else {
      // So do all that share the byte which failed.
      while (i < count && order_->shared_[i] >= states.size()) ++i;
    }
  }
  if (may_end()) {
    for (const int32_t id : order_->end_ids_) allow(id);
  }
  return Status();
}

Result<const GrammarMask::Allowed*> GrammarMask::Next(const std::atomic<bool>* cancel) {
  const auto known =
      std::find_if(known_.begin(), known_.end(), [&](const Allowed& a) { return a.state == matcher_.state(); });
  Allowed* found = known != known_.end() ? &*known : nullptr;
  if (found == nullptr) {
    Allowed allowed;
    MOONLIT_RETURN_IF_ERROR(Collect(cancel, &allowed));
    if (known_.size() < kMostKnown) {
      found = &known_.emplace_back();
    } else {
      oldest_ = (oldest_ + 1) % kMostKnown;
      found = &known_[oldest_];
    }
    *found = std::move(allowed);
  }
  if (found->any) return found;
  return Status(Code::kUnsupported,
                "grammar: no token of the vocabulary goes on as the grammar asks here, or ends the text");
}

Status GrammarMask::Accept(int32_t id) {
  if (order_->tokenizer().IsEndOfGeneration(id)) {
    return may_end() ? Status() : Status(Code::kInvalidArgument, "grammar: the text may not end here");
  }
  const std::string_view bytes = order_->tokenizer().TokenBytes(id, false);
  if (bytes.empty()) return Errorf(Code::kInvalidArgument, "grammar: token %d has no text", id);
  MOONLIT_RETURN_IF_ERROR(matcher_.Take(bytes));
  if (matcher_.Compact()) known_.clear();
  return Status();
}

}  // namespace moonlit
