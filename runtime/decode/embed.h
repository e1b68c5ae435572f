// SPDX-License-Identifier: Apache-2.0
// One vector of a text: its tokens' hidden states, pooled.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/decode/engine.h"

namespace moonlit {

struct EmbedOptions {
  Pooling pooling = Pooling::kUnknown;  // kUnknown: as the model is made for it
  bool normalise = true;                // to length 1
  std::shared_ptr<const AdapterSet> adapters = nullptr;
};

// [Plan::hidden_width]. `tokens` with the special ones that the model wants; an encoder takes all of them at once, so at most
// chunk_tokens. The text has a session of its own meanwhile. Errors: kInvalidArgument (the model's file names no pooling, as those that make text seldom do, and
// neither do the options), and those of Engine::NewSession and Engine::Prefill. Thread safe; equal tokens give equal bits.
Result<std::vector<float>> Embed(Engine& engine, std::span<const int32_t> tokens, const EmbedOptions& options = {},
                                 const std::atomic<bool>* abort = nullptr);

}  // namespace moonlit
