// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "runtime/decode/session_use.h"
#include "runtime/exec/adapter.h"

namespace moonlit {

Session::Session(std::shared_ptr<SessionPool> home, Sequence sequence)
    : home_(std::move(home)), sequence_(std::move(sequence)) {}

Session::~Session() {
  const std::lock_guard<std::mutex> lock(home_->mutex());
  { const Sequence ended(std::move(sequence_)); }  // while the pages are ours to change
  home_->Leave();
}

namespace {

std::string_view KeyOf(const AdapterSet* adapters) {
  return adapters == nullptr ? std::string_view() : std::string_view(adapters->key());
}

}  // namespace

std::string_view Session::AdapterKey() const { return KeyOf(adapters_.get()); }
std::string_view Session::AdapterIdentity() const {
  return adapters_ == nullptr ? std::string_view() : std::string_view(adapters_->identity());
}

Status Session::SetAdapters(std::shared_ptr<const AdapterSet> adapters) {
  return Use([&]() -> Status {
    if (KeyOf(adapters.get()) == AdapterKey()) return Status();
    if (sequence_.length() != 0) {
      return Errorf(Code::kInvalidArgument,
                    "adapters: the session holds %lld tokens that were read with others; truncate it to 0, set the "
                    "adapters and read the text again",
                    static_cast<long long>(sequence_.length()));
    }
    const std::lock_guard<std::mutex> lock(home_->mutex());
    sequence_ = Sequence(home_->pages(), KeyOf(adapters.get()));
    adapters_ = std::move(adapters);
    return Status();
  });
}

Status Session::SetTap(StepTap* tap) {
  return Use([&] {
    tap_ = tap;
    return Status();
  });
}

int64_t Session::block_tokens() const { return static_cast<int64_t>(home_->pages()->block_tokens()); }

Status Session::Truncate(int64_t length, const std::atomic<bool>* abort) {
  return Use([&]() -> Status {
    if (length < 0 || length > sequence_.length()) {
      return Errorf(Code::kInvalidArgument, "truncate: length is %lld, expected 0 to %lld",
                    static_cast<long long>(length), static_cast<long long>(sequence_.length()));
    }
    if (home_->pages()->states() != nullptr && !sequence_.CanTruncate(length)) {
      return Errorf(
          Code::kUnsupported,
          "truncate: the model has recurrent layers, which can't go back from %lld tokens to %lld; start again "
          "from 0, or fork the session where you want to come back to",
          static_cast<long long>(sequence_.length()), static_cast<long long>(length));
    }
    return Cut(length, abort);
  });
}

// Where pages that the next token sees were given back, the text is read again from the last place that has them.
Status Session::Cut(int64_t length, const std::atomic<bool>* abort) {
  std::vector<int32_t> again;
  {
    const std::lock_guard<std::mutex> lock(home_->mutex());
    const int64_t reachable = sequence_.Reachable(length);
    const auto tokens = sequence_.tokens().first(static_cast<size_t>(length)).subspan(static_cast<size_t>(reachable));
    again.assign(tokens.begin(), tokens.end());
    const bool placed = !again.empty() && placed_from_ < length;
    if (placed || std::find(again.begin(), again.end(), Sequence::kNoToken) != again.end()) {
      return Errorf(
          Code::kUnsupported,
          "truncate: the cache does not have all that the model sees at %lld tokens, and not all of them can be read "
          "again by their ids; start again from 0",
          static_cast<long long>(length));
    }
    sequence_.Truncate(reachable);
    if (length <= placed_from_) placed_from_ = INT64_MAX;
  }
  return again.empty() ? Status() : home_->read(*this, again, abort);
}

Status Session::Drop(int64_t first, int64_t last, const std::atomic<bool>* abort) {
  return Use([&]() -> Status {
    const int64_t block = block_tokens();
    if (first < 0 || first > last || last > sequence_.length() || first % block != 0 || last % block != 0) {
      return Errorf(Code::kInvalidArgument,
                    "drop: tokens %lld to %lld, expected multiples of %lld (the cache's page), ascending, within 0 to "
                    "%lld",
                    static_cast<long long>(first), static_cast<long long>(last), static_cast<long long>(block),
                    static_cast<long long>(sequence_.length()));
    }
    if (!home_->can_shift()) {
      return Status(
          Code::kUnsupported,
          "drop: the model's tokens can't be moved (it has recurrent layers, learned positions, or reads a text as a "
          "whole); start again");
    }
    if (last == sequence_.length()) return Cut(first, abort);
    const std::lock_guard<std::mutex> lock(home_->mutex());
    sequence_.Drop(first, last);
    // Only the first of them is known: where it goes, any that follows may be another.
    if (placed_from_ != INT64_MAX && placed_from_ >= first)
      placed_from_ = std::max(first, placed_from_ - (last - first));
    return Status();
  });
}

}  // namespace moonlit
