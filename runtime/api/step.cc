// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <vector>

#include "runtime/api/handles.h"

namespace moonlit::api {
namespace {

static_assert(kInputRow == MOONLIT_EMBEDDING_ROW);

// What one call of moonlit_step wants, in the engine's words.
class RowStep final : public LogitsConsumer {
 public:
  // REQUIRES: count > 0.
  RowStep(moonlit_session* const* sessions, size_t count)
      : sessions_(sessions, count), engine_(*sessions[0]->model->engine) {}

  Status Add(size_t session, const moonlit_rows& rows) {
    MOONLIT_RETURN_IF_ERROR(Check(session, rows));
    flags_.push_back(sessions_[session]->turn.cancelled());
    if (rows.count == 0) return Status();
    if (rows.outputs != MOONLIT_OUTPUT_NONE) hidden_ = rows.hidden != 0, any_outputs_ = true;
    const bool generated = rows.outputs == MOONLIT_OUTPUT_GENERATED;
    SessionSpan span{sessions_[session]->session.get(), {}};
    if (rows.ids != nullptr) {
      span.tokens = {rows.ids, rows.count};
    } else {
      span.tokens = no_ids_.emplace_back(rows.count, kInputRow);
    }
    span.outputs = generated ? Outputs::kLast : static_cast<Outputs>(rows.outputs);
    span.choose_pages = generated;
    span.inputs = rows.embeddings;
    if (rows.positions != nullptr) span.positions = {rows.positions, rows.count};
    span.prefix = rows.prefix;
    spans_.push_back(span);
    rows_.push_back(rows);
    return Status();
  }

  Status Run() {
    if (spans_.empty()) return Status();
    return engine_.Step(spans_, this, AbortFlags(flags_));
  }

  bool takes_hidden() const override { return hidden_; }
  void Consume(size_t span, size_t first_token, size_t rows, const float* values, size_t stride) override {
    const moonlit_rows& to = rows_[span];
    const size_t width = hidden_ ? engine_.plan().hidden_width() : engine_.facts().n_vocab;
    for (size_t r = 0; to.consume != nullptr && r < rows; ++r) {
      to.consume(to.user, first_token + r, values + r * stride, width);
    }
  }

 private:
  Status Check(size_t session, const moonlit_rows& rows) const {
    if (sessions_[session]->model != sessions_[0]->model) {
      return Errorf(Code::kInvalidArgument, "step: session %zu is of another model than session 0", session);
    }
    if (rows.ids == nullptr && rows.embeddings == nullptr && rows.count != 0) {
      return Errorf(Code::kInvalidArgument, "rows %zu: there are neither ids nor embeddings", session);
    }
    // Before anything as long is made.
    const size_t most = engine_.options().chunk_tokens;
    if (rows.count > most) {
      return Errorf(Code::kInvalidArgument, "rows %zu: %zu rows, expected at most %zu (chunk_tokens)", session,
                    rows.count, most);
    }
    if (rows.outputs < MOONLIT_OUTPUT_NONE || rows.outputs > MOONLIT_OUTPUT_GENERATED) {
      return Errorf(Code::kInvalidArgument, "rows %zu: outputs is %d, expected one of moonlit_outputs", session,
                    rows.outputs);
    }
    if (rows.count != 0 && rows.outputs != MOONLIT_OUTPUT_NONE && any_outputs_ && hidden_ != (rows.hidden != 0)) {
      return Errorf(Code::kInvalidArgument,
                    "rows %zu: %s are wanted, but %s before them; expected one kind of outputs in a step", session,
                    rows.hidden != 0 ? "hidden states" : "logits", hidden_ ? "hidden states" : "logits");
    }
    if (rows.prefix > rows.count) {
      return Errorf(Code::kInvalidArgument,
                    "rows %zu: the first %zu shall see each other, expected at most the %zu there are", session,
                    rows.prefix, rows.count);
    }
    if (rows.sections == 1) return Status();
    return Errorf(Code::kUnsupported, "rows %zu: %u positions a row, but the model's rotation has one", session,
                  rows.sections);
  }

  std::span<moonlit_session* const> sessions_;
  Engine& engine_;
  bool hidden_ = false, any_outputs_ = false;
  // [sessions that have rows]
  std::vector<SessionSpan> spans_;
  std::vector<moonlit_rows> rows_;
  std::vector<const std::atomic<bool>*> flags_;  // of all sessions, also of those without rows
  std::vector<std::vector<int32_t>> no_ids_;     // of rows without ids
};

}  // namespace
}  // namespace moonlit::api

using moonlit::Code;
using moonlit::Errorf;
using moonlit::Status;
using moonlit::api::CheckArray;
using moonlit::api::Guard;
using moonlit::api::NotNull;
using moonlit::api::Use;

extern "C" {

void moonlit_rows_init(moonlit_rows* rows, size_t size) {
  moonlit_rows defaults = {};
  defaults.sections = 1;
  defaults.outputs = MOONLIT_OUTPUT_LAST;
  moonlit::api::WriteSized(defaults, size, rows);
}

moonlit_code moonlit_step(moonlit_session* const* sessions, const moonlit_rows* const* rows, size_t count,
                          moonlit_error* error) {
  return Guard(error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(CheckArray(sessions, count, "sessions"));
    MOONLIT_RETURN_IF_ERROR(CheckArray(rows, count, "rows"));
    if (count == 0) return Status();
    MOONLIT_RETURN_IF_ERROR(NotNull(sessions[0], "a session"));
    // Before the rest is read: no more of them can live.
    const size_t most = sessions[0]->model->engine->options().max_sessions;
    if (count > most)
      return Errorf(Code::kInvalidArgument, "step: %zu sessions, expected at most %zu (max_sessions)", count, most);
    for (size_t i = 0; i < count; ++i) {
      MOONLIT_RETURN_IF_ERROR(NotNull(sessions[i], "a session"));
      MOONLIT_RETURN_IF_ERROR(NotNull(rows[i], "rows"));
      const auto before = std::find(sessions, sessions + i, sessions[i]);
      if (before == sessions + i) continue;
      return Errorf(Code::kInvalidArgument, "step: entries %zu and %zu are of one session; expected each session once",
                    static_cast<size_t>(before - sessions), i);
    }
    const moonlit::LogScope scope(&sessions[0]->model->log);
    std::vector<Use> uses(count);
    for (size_t i = 0; i < count; ++i) MOONLIT_RETURN_IF_ERROR(uses[i].Take(sessions[i], "session"));
    moonlit::api::RowStep step(sessions, count);
    for (size_t i = 0; i < count; ++i) {
      MOONLIT_ASSIGN_OR_RETURN(const moonlit_rows given,
                               moonlit::api::ReadSized(rows[i], "moonlit_rows", moonlit_rows_init));
      MOONLIT_RETURN_IF_ERROR(step.Add(i, given));
    }
    return step.Run();
  });
}

moonlit_code moonlit_eval_rows(moonlit_session* session, const moonlit_rows* rows, moonlit_error* error) {
  return moonlit_step(&session, &rows, 1, error);
}

}  // extern "C"
