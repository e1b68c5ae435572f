// SPDX-License-Identifier: Apache-2.0
// A session that a call reads texts into and leaves empty, also where memory ends on the way.
#pragma once

#include "runtime/base/status.h"
#include "runtime/decode/engine.h"

namespace moonlit {

class EmptyAfter {
 public:
  explicit EmptyAfter(Session& session) : session_(session) {}
  // What is not yet empty is when this ends, if it can be.
  ~EmptyAfter() {
    if (emptied_) return;
    try {
      static_cast<void>(session_.Truncate(0));
    } catch (...) {  // the exception that is under way says enough
    }
  }
  EmptyAfter(const EmptyAfter&) = delete;
  EmptyAfter& operator=(const EmptyAfter&) = delete;

  Status Now() {
    const Status status = session_.Truncate(0);
    emptied_ = true;
    return status;
  }

 private:
  Session& session_;
  bool emptied_ = false;
};

}  // namespace moonlit
