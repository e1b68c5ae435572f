// SPDX-License-Identifier: Apache-2.0
// One vector of a text: its tokens' hidden states, pooled.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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
  // Who reads the text, with its own adapters in place of these: empty before and after, also after an error. Null: one of its own.
  Session* session = nullptr;
  // Tokens done, of total: before the first step and after each. Returning false cancels (kCancelled).
  std::function<bool(size_t done, size_t total)> progress = {};
};

// [Plan::hidden_width]. `tokens` with the special ones that the model wants; an encoder takes all of them at once, so at most
// chunk_tokens. Errors: kInvalidArgument (the model's file names no pooling, as those that make text seldom do, and neither do the
// options; or the given session is not empty), kCancelled by `flag`, which any thread may set and a refusing `progress` sets, before the next tile of work, and those of Engine::NewSession and
// Engine::Prefill. Thread safe; equal tokens give equal bits.
Result<std::vector<float>> Embed(Engine& engine, std::span<const int32_t> tokens, const EmbedOptions& options = {},
                                 std::atomic<bool>* flag = nullptr);

}  // namespace moonlit
