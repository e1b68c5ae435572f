// SPDX-License-Identifier: Apache-2.0
// The loop: prompt -> tokens -> text.
//
//   GenerateOptions options;
//   options.max_tokens = 100;
//   options.text = [](std::string_view piece) { Show(piece); return true; };
//   MOONLIT_ASSIGN_OR_RETURN(Sampler sampler, Sampler::Create({}));
//   MOONLIT_ASSIGN_OR_RETURN(GenerateResult result, Generate(*engine, *session, prompt, sampler, options));
//
// Afterwards the session holds the prompt and every generated token but GenerateResult::last_token, which no step has read; whoever
// goes on puts it before the next prompt. There is none after kEnd by an end token, which is chosen from the logits of what was read,
// and after a cancellation that came between a step and the next choice. Where the chooser knows that nothing may follow (a grammar),
// the text ends with kEnd.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/decode/engine.h"
#include "runtime/decode/sampler.h"

namespace moonlit {

struct GenerateOptions {
  size_t max_tokens = 0;          // 0: until the end or until the context is full
  std::vector<std::string> stop;  // texts that end the generation and are not given out
  bool ignore_end = false;        // go on after an end token (benchmarks)
  // When the context is full: false ends the generation (kContext). true drops the older half, in whole blocks
  // (Session::Drop), of what stands behind the first `keep` tokens, and goes on: for ever, if the model never ends. `keep` is
  // at least 1 and rounded up to whole blocks; the context must hold two more. Text longer than the context is lost to the
  // model; a prompt is never cut.
  bool context_shift = false;
  size_t keep = 0;
  // Whole UTF-8 characters, as soon as they are sure to stay; never empty. Returning false ends the generation.
  std::function<bool(std::string_view piece)> text;
  // Every chosen token that became part of the text, before its piece is given out. Returning false ends the generation behind it.
  std::function<bool(int32_t id)> token;
  // Prompt tokens done, of total, after each prefill step.
  std::function<void(size_t done, size_t total)> prefill_progress;
  const std::atomic<bool>* cancel = nullptr;  // any thread may set it: ends before the next tile of work
};

enum class Finish {
  kEnd,        // the model ended its text
  kStop,       // a stop string
  kLength,     // max_tokens
  kContext,    // the session is full
  kCancelled,  // the flag, or a callback that said no
};
const char* FinishName(Finish finish);  // "end", "stop", "length", "context", "cancelled"

struct GenerateResult {
  Finish finish = Finish::kEnd;
  int stop_index = -1;          // which stop string
  size_t prompt_tokens = 0;     // fed before the first token; 0 when prefill was cancelled
  size_t reused_tokens = 0;     // of these, taken from the cache instead of computed
  std::vector<int32_t> tokens;  // chosen, without the end token
  int32_t last_token = -1;      // the last of them while the session has not read it; -1: it has read all
  int32_t end_token = -1;       // the token that ended the text (kEnd), which is not read either; -1: none
  size_t shifts = 0;            // how often a full context made room (context_shift)
  double prefill_seconds = 0;   // prompt to logits
  double decode_seconds = 0;    // first choice to last
};

// Appends the prompt to the session and generates. Errors: kInvalidArgument (empty prompt, bad stop string), kExhausted
// (a prompt that does not fit, with the needed and the allowed number; it is never cut), kBusy, kUnsupported (context_shift
// of a model whose tokens can't be moved, Plan::can_shift), and what the steps and the chooser say. After an error in prefill the session has its old length and the chooser knows nothing of the call;
// after a later one the session holds what was read until then. The chooser's history becomes the session's tokens once they are read.
Result<GenerateResult> Generate(Engine& engine, Session& session, std::span<const int32_t> prompt,
                                TokenChooser& chooser, const GenerateOptions& options);

}  // namespace moonlit
