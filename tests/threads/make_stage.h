// SPDX-License-Identifier: Apache-2.0
// A stage whose tasks call `function(task, thread)`, which must outlive it.
#pragma once

#include <cstddef>

#include "runtime/threads/pool.h"

namespace moonlit {

template <class Function>
Stage MakeStage(size_t tasks, Function& function) {
  return {tasks, [](void* context, size_t task, size_t thread) { (*static_cast<Function*>(context))(task, thread); },
          &function};
}

}  // namespace moonlit
