// SPDX-License-Identifier: Apache-2.0
// One user at a time, for the calls that use a single session. (A step takes several.)
#pragma once

#include "runtime/decode/engine.h"
#include "runtime/decode/session_pool.h"

namespace moonlit {

template <typename Body>
Status Session::Use(const Body& body) {
  if (busy_.exchange(true, std::memory_order_acquire)) {
    return Status(Code::kBusy, "the session is in use by another call; one call at a time may use it");
  }
  struct Leave {
    std::atomic<bool>& busy;
    ~Leave() { busy.store(false, std::memory_order_release); }
  } leave{busy_};
  return body();
}

}  // namespace moonlit
