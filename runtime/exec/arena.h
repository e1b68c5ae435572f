// SPDX-License-Identifier: Apache-2.0
// Where every intermediate of a plan lives: forms of values, their lifetimes over the fused stages, one arena.
#pragma once

#include "runtime/base/status.h"
#include "runtime/exec/bindings.h"
#include "runtime/graph/fusion.h"
#include "runtime/tensor/buffer.h"

namespace moonlit {

// Allocates the arena and fills values, inputs, head_input, logits, triples and scratch of the bindings, whose graph, options,
// weights and threads are set. `scratch_bytes`: what attention wants in a thread. kOutOfMemory.
Result<Buffer> LayOutArena(const FusedGraph& fused, size_t scratch_bytes, Bindings& bindings);

// The size of that arena, which may be more than this machine can address. Leaves in the bindings which forms values take, and no addresses.
uint64_t ArenaBytes(const FusedGraph& fused, size_t scratch_bytes, Bindings& bindings);

}  // namespace moonlit
