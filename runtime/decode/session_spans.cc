// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/session_spans.h"

#include <algorithm>

namespace moonlit {

Status SessionSpans::Reserve(std::span<const SessionSpan> spans, const EngineOptions& options,
                             std::vector<StepSpan>* steps) {
  const size_t before = steps->size();
  Status status;
  for (const SessionSpan& span : spans) {
    Session& session = *span.session;
    const int64_t length = session.length();
    const size_t needed = static_cast<size_t>(length) + span.tokens.size();
    if (needed > options.n_ctx) {
      status = Errorf(Code::kExhausted,
                      "context: %zu tokens are needed (%lld held, %zu new), %zu are allowed; shorten the text or "
                      "load with a larger n_ctx",
                      needed, static_cast<long long>(length), span.tokens.size(), options.n_ctx);
    } else {
      status = session.sequence_.Reserve(static_cast<int64_t>(needed));
    }
    if (!status.ok()) break;
    StepSpan step;
    step.tokens = span.tokens;
    step.pages = session.sequence_.pages();
    step.first_slot = length;
    step.outputs = span.outputs;
    step.choose_pages = span.choose_pages;
    step.inputs = span.inputs;
    step.positions = span.positions;
    step.prefix = span.prefix;
    step.adapters = session.adapters_.get();
    step.tap = span.shown ? session.tap_ : nullptr;
    step.runs = session.sequence_.runs();
    step.state = session.sequence_.state();
    step.next_state = session.sequence_.next_state();
    steps->push_back(step);
  }
  if (status.ok()) return status;
  GiveBack(spans.first(steps->size() - before));
  steps->resize(before);
  return status;
}

bool SessionSpans::AreShown(std::span<const SessionSpan> spans) {
  return std::any_of(spans.begin(), spans.end(),
                     [](const SessionSpan& span) { return span.shown && span.session->tap_ != nullptr; });
}

void SessionSpans::Commit(std::span<const SessionSpan> spans, const EngineOptions& options) {
  for (const SessionSpan& span : spans) {
    Session& session = *span.session;
    const size_t held = static_cast<size_t>(session.length()) + span.tokens.size();
    const bool sparse =
        span.choose_pages && options.attention_pages != 0 && held > options.attention_pages * options.page_tokens;
    if (!span.is_plain()) session.placed_from_ = std::min(session.placed_from_, session.length());
    session.sequence_.Commit(span.tokens, !sparse && span.is_plain());
  }
}

void SessionSpans::GiveBack(std::span<const SessionSpan> spans) {
  for (const SessionSpan& span : spans) span.session->sequence_.Truncate(span.session->length());
}

}  // namespace moonlit
