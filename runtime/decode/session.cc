// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/session_use.h"

namespace moonlit {

Session::Session(std::shared_ptr<SessionPool> home, Sequence sequence)
    : home_(std::move(home)), sequence_(std::move(sequence)) {}

Session::~Session() {
  const std::lock_guard<std::mutex> lock(home_->mutex());
  { const Sequence ended(std::move(sequence_)); }  // while the pages are ours to change
  home_->Leave();
}

int64_t Session::block_tokens() const { return static_cast<int64_t>(home_->pages()->block_tokens()); }

Status Session::Truncate(int64_t length) {
  return Use([&]() -> Status {
    if (length < 0 || length > sequence_.length()) {
      return Errorf(Code::kInvalidArgument, "truncate: length is %lld, expected 0 to %lld",
                    static_cast<long long>(length), static_cast<long long>(sequence_.length()));
    }
    if (!sequence_.CanTruncate(length)) {
      return Errorf(
          Code::kUnsupported,
          "truncate: the model has recurrent layers, which can't go back from %lld tokens to %lld; start again "
          "from 0, or fork the session where you want to come back to",
          static_cast<long long>(sequence_.length()), static_cast<long long>(length));
    }
    const std::lock_guard<std::mutex> lock(home_->mutex());
    sequence_.Truncate(length);
    return Status();
  });
}

Status Session::Drop(int64_t first, int64_t last) {
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
    const std::lock_guard<std::mutex> lock(home_->mutex());
    sequence_.Drop(first, last);
    return Status();
  });
}

}  // namespace moonlit
