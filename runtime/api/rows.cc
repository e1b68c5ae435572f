// SPDX-License-Identifier: Apache-2.0
#include <span>
#include <vector>

#include "runtime/api/handles.h"

namespace moonlit::api {
namespace {

static_assert(kInputRow == MOONLIT_EMBEDDING_ROW);

class RowConsumer final : public LogitsConsumer {
 public:
  RowConsumer(const moonlit_rows& rows, size_t width) : rows_(rows), width_(width) {}
  bool takes_hidden() const override { return rows_.hidden != 0; }
  void Consume(size_t, size_t first_token, size_t rows, const float* values, size_t stride) override {
    for (size_t r = 0; rows_.consume != nullptr && r < rows; ++r) {
      rows_.consume(rows_.user, first_token + r, values + r * stride, width_);
    }
  }

 private:
  const moonlit_rows& rows_;
  size_t width_;
};

Status Check(const moonlit_rows& rows) {
  if (rows.ids == nullptr && rows.embeddings == nullptr && rows.count != 0) {
    return Status(Code::kInvalidArgument, "rows: there are neither ids nor embeddings");
  }
  if (rows.outputs < MOONLIT_OUTPUT_NONE || rows.outputs > MOONLIT_OUTPUT_GENERATED) {
    return Errorf(Code::kInvalidArgument, "rows: outputs is %d, expected one of moonlit_outputs", rows.outputs);
  }
  if (rows.sections == 1) return Status();
  return Errorf(Code::kUnsupported, "rows: %u positions a row, but the model's rotation has one", rows.sections);
}

}  // namespace
}  // namespace moonlit::api

using moonlit::Status;
using moonlit::api::Guard;

extern "C" {

void moonlit_rows_init(moonlit_rows* rows, size_t size) {
  moonlit_rows defaults = {};
  defaults.sections = 1;
  defaults.outputs = MOONLIT_OUTPUT_LAST;
  moonlit::api::WriteSized(defaults, size, rows);
}

moonlit_code moonlit_eval_rows(moonlit_session* session, const moonlit_rows* given, moonlit_error* error) {
  return Guard(error, [&]() -> Status {
    const moonlit_rows rows = moonlit::api::ReadSized(given, moonlit_rows_init);
    MOONLIT_RETURN_IF_ERROR(moonlit::api::Check(rows));
    if (rows.count == 0) return Status();
    session->cancel.store(false);
    moonlit::Engine& engine = *session->model->engine;
    std::vector<int32_t> none;
    if (rows.ids == nullptr) none.assign(rows.count, moonlit::kInputRow);
    const bool generated = rows.outputs == MOONLIT_OUTPUT_GENERATED;
    moonlit::SessionSpan span{session->session.get(), rows.ids == nullptr ? none : std::span(rows.ids, rows.count)};
    span.outputs = generated ? moonlit::Outputs::kLast : static_cast<moonlit::Outputs>(rows.outputs);
    span.choose_pages = generated;
    span.inputs = rows.embeddings;
    if (rows.positions != nullptr) span.positions = {rows.positions, rows.count};
    const size_t width = rows.hidden != 0 ? engine.plan().hidden_width() : engine.facts().n_vocab;
    moonlit::api::RowConsumer consumer(rows, width);
    return engine.Step({&span, 1}, &consumer, &session->cancel);
  });
}

}  // extern "C"
