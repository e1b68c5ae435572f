// SPDX-License-Identifier: Apache-2.0
// What sessions and steps of one engine share: the cache's pages and the number of live sessions. The mutex guards both
// for the moments that they change; it is never held while a step computes, so a session can die or be cut while
// another one works.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "runtime/base/status.h"
#include "runtime/cache/cache.h"

namespace moonlit {

class Session;

class SessionPool {
 public:
  // Appends tokens to a session whose only user the caller is, by steps of the engine; set by it.
  using Reader =
      std::function<Status(Session& session, std::span<const int32_t> tokens, const std::atomic<bool>* abort)>;
  // can_shift: Plan::can_shift.
  SessionPool(std::unique_ptr<PagePool> pages, size_t most, bool can_shift)
      : pages_(std::move(pages)), most_(most), can_shift_(can_shift) {}

  // REQUIRES of these three: the mutex is held.
  // kExhausted when there is no room for one more session.
  Status CheckRoom() const {
    if (live_ == most_) {
      return Errorf(Code::kExhausted,
                    "%zu sessions are live, which is the most; end one or load with a larger max_sessions", live_);
    }
    return Status();
  }
  void Admit() { ++live_; }
  void Leave() { --live_; }

  std::mutex& mutex() { return mutex_; }
  PagePool* pages() { return pages_.get(); }
  bool can_shift() const { return can_shift_; }
  Reader read;

 private:
  std::mutex mutex_;
  std::unique_ptr<PagePool> pages_;
  const size_t most_;
  const bool can_shift_;
  size_t live_ = 0;
};

}  // namespace moonlit
