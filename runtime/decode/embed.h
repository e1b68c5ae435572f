// SPDX-License-Identifier: Apache-2.0
// One vector of a text, by a model whose outputs are hidden states (Plan::gives_hidden).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/decode/engine.h"

namespace moonlit {

struct EmbedOptions {
  Pooling pooling = Pooling::kUnknown;  // kUnknown: as the model is made for it
  bool normalise = true;                // to length 1
};

// [Plan::output_width]. `tokens` with the special ones that the model wants; all of them at once, so at most chunk_tokens. The text has
// a session of its own meanwhile. Errors: kUnsupported (the model gives logits), kInvalidArgument (its file names no pooling and
// neither do the options), and those of Engine::NewSession and Engine::Prefill. Thread safe; equal tokens give equal bits.
Result<std::vector<float>> Embed(Engine& engine, std::span<const int32_t> tokens, const EmbedOptions& options = {},
                                 const std::atomic<bool>* abort = nullptr);

}  // namespace moonlit
