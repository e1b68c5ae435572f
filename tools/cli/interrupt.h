// SPDX-License-Identifier: Apache-2.0
// Ctrl-C as a request that a command answers, instead of the end of the process.
#pragma once

#include "runtime/api/moonlit.h"

namespace moonlit::cli {

// While one lives, the first Ctrl-C sets Interrupted(), which LoadModel heeds, and cancels the call that runs in the watched session;
// a second one ends the process at once. Interrupted() stays set until another guard begins. One at a time.
class InterruptGuard {
 public:
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;
  // Null: none. The session that was watched before may be freed afterwards.
  void Watch(moonlit_session* session);
};

bool Interrupted();

// From here on a signal that ends the process (SIGINT where no guard lives, SIGTERM, SIGQUIT ...) takes half-written files along, and
// a limit of file sizes is an error like any other. Signals that are ignored stay so.
void EndCleanlyBySignals();

}  // namespace moonlit::cli
