// SPDX-License-Identifier: Apache-2.0
// Perplexity of a text, by the method of llama.cpp's perplexity tool (tools/perplexity/perplexity.cpp), so that numbers
// compare: the text's tokens are cut into windows of N (a shorter rest is left out), each is read on its own from an
// empty cache, its first token replaced by BOS if the model adds one, and the predictions made at positions N/2 .. N-2
// are counted:
//
//   perplexity = exp(mean of -log p(token i + 1 | window's tokens up to i))
//
//   MOONLIT_ASSIGN_OR_RETURN(auto ids, engine->tokenizer().Encode(text, {.add_special = true}));
//   MOONLIT_ASSIGN_OR_RETURN(PerplexityResult r, MeasurePerplexity(*engine, *session, ids, {.window = 512}));
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "runtime/base/status.h"
#include "runtime/decode/divergence.h"
#include "runtime/decode/engine.h"

namespace moonlit {

struct PerplexityOptions {
  size_t window = 512;  // N: 4 .. n_ctx
  // Windows done, of total, and the perplexity so far, after each window. Returning false cancels (kCancelled).
  std::function<bool(size_t done, size_t total, double perplexity)> progress = {};
  const std::atomic<bool>* cancel = nullptr;
  // Files of logits_file.h: one to write, and one of another model to compare with. Empty: none.
  std::string logits_out = {};
  std::string logits_base = {};
};

struct PerplexityResult {
  double perplexity = 0;
  double standard_error = 0;  // of the perplexity: perplexity * sqrt(variance of log p / (count - 1))
  size_t counted_tokens = 0;  // windows * (N - 1 - N / 2)
  size_t windows = 0;
  std::optional<DivergenceResult> divergence = {};  // from the model of logits_base
};

// Uses the session alone; it is empty afterwards, unless an argument was refused before anything was read. Errors: kInvalidArgument (window out of range, a text of fewer than
// two windows, as llama.cpp asks for, ids outside the vocabulary), kInternal (a logit that is not a number),
// kCancelled, and what the steps and the files of logits say.
Result<PerplexityResult> MeasurePerplexity(Engine& engine, Session& session, std::span<const int32_t> ids,
                                           const PerplexityOptions& options);

}  // namespace moonlit
