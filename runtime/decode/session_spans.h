// SPDX-License-Identifier: Apache-2.0
// What a step does to the sessions of one caller: room for their new tokens before it, and then the tokens, or nothing.
#pragma once

#include <span>
#include <vector>

#include "runtime/decode/engine.h"

namespace moonlit {

// All REQUIRE that the caller is the sessions' only user, and all but AreShown that it holds SessionPool's mutex. `options`: the engine's.
class SessionSpans {
 public:
  // Whether some session has a tap that looks on.
  static bool AreShown(std::span<const SessionSpan> spans);
  // Reserves what the spans write and appends them to `steps`, whose pointers live until the sessions change. All or nothing: on
  // kExhausted (the context, with the needed and the allowed number, or the pages) neither sessions nor `steps` have changed.
  static Status Reserve(std::span<const SessionSpan> spans, const EngineOptions& options, std::vector<StepSpan>* steps);
  // The step has read them.
  static void Commit(std::span<const SessionSpan> spans, const EngineOptions& options);
  // The step has failed: the sessions are as they were before Reserve.
  static void GiveBack(std::span<const SessionSpan> spans);
};

}  // namespace moonlit
