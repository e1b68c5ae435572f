// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/engine.h"
#include "runtime/decode/session_pool.h"

namespace moonlit {

Session::Session(std::shared_ptr<SessionPool> home) : home_(std::move(home)), sequence_(home_->pages()) {}

Session::~Session() {
  const std::lock_guard<std::mutex> lock(home_->mutex());
  sequence_.Truncate(0);
  home_->Leave();
}

Status Session::Truncate(int64_t length) {
  if (busy_.exchange(true, std::memory_order_acquire)) {
    return Status(Code::kBusy, "the session is in use by another call; one call at a time may use it");
  }
  Status status;
  if (length < 0 || length > sequence_.length()) {
    status = Errorf(Code::kInvalidArgument, "truncate: length is %lld, expected 0 to %lld",
                    static_cast<long long>(length), static_cast<long long>(sequence_.length()));
  } else {
    const std::lock_guard<std::mutex> lock(home_->mutex());
    sequence_.Truncate(length);
  }
  busy_.store(false, std::memory_order_release);
  return status;
}

}  // namespace moonlit
