// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/api/find_model.h"
#include "runtime/api/handles.h"
#include "runtime/base/file.h"
#include "runtime/convert/hugging_face.h"
#include "runtime/convert/quantize.h"

namespace moonlit::api {
namespace {

Result<moonlit_write_options> Complete(const moonlit_write_options* given) {
  return ReadSized(given, "moonlit_write_options", moonlit_write_options_init);
}

QuantizeOptions ToQuantizeOptions(const moonlit_write_options& from) {
  QuantizeOptions to;
  if (from.type != nullptr) to.type = from.type;
  if (from.imatrix != nullptr) to.imatrix = from.imatrix;
  to.pure = from.pure != 0;
  to.allow_requantize = from.allow_requantize != 0;
  to.pool = {.threads = from.threads, .loop = {from.parallel_for, from.parallel_user}};
  if (from.progress != nullptr) {
    to.progress = [progress = from.progress, user = from.user](uint64_t done, uint64_t total) {
      return progress(user, done, total) == 0;
    };
  }
  return to;
}

void GiveReport(const QuantizeReport& report, moonlit_write_result* result) {
  if (result == nullptr) return;
  moonlit_write_result full = {};
  full.parameters = report.parameters;
  full.source_bytes = report.source_bytes;
  full.bytes = report.bytes;
  full.tensors = report.tensors;
  full.fallbacks = report.fallbacks;
  moonlit::api::WriteSized(full, result->size, result);
}

}  // namespace
}  // namespace moonlit::api

using moonlit::Code;
using moonlit::Status;
using moonlit::api::CheckArray;
using moonlit::api::Guard;
using moonlit::api::NotNull;

extern "C" {

void moonlit_write_options_init(moonlit_write_options* options, size_t size) {
  moonlit_write_options defaults = {};
  moonlit::api::WriteSized(defaults, size, options);
}

moonlit_code moonlit_check_output(const char* out, const char* const* inputs, size_t count, moonlit_error* error) {
  return Guard(error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(out, "out"));
    MOONLIT_RETURN_IF_ERROR(CheckArray(inputs, count, "inputs"));
    for (size_t i = 0; i < count; ++i) MOONLIT_RETURN_IF_ERROR(NotNull(inputs[i], "an input"));
    return moonlit::RefuseInputs(out, std::vector<std::string>(inputs, inputs + count));
  });
}

void moonlit_remove_unfinished_files(void) { moonlit::RemoveUnfinishedFiles(); }

moonlit_code moonlit_quantize(const char* in, const char* out, const moonlit_write_options* options,
                              moonlit_write_result* result, moonlit_error* error) {
  return Guard(error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(in, "in"));
    MOONLIT_RETURN_IF_ERROR(NotNull(out, "out"));
    MOONLIT_RETURN_IF_ERROR(moonlit::api::CheckSized(result, "moonlit_write_result"));
    MOONLIT_ASSIGN_OR_RETURN(const moonlit_write_options complete, moonlit::api::Complete(options));
    moonlit::Log log(moonlit::api::ToReceiver(complete.log, complete.log_user));
    const moonlit::LogScope scope(&log);
    const moonlit::QuantizeOptions to = moonlit::api::ToQuantizeOptions(complete);
    const moonlit::Result<std::string> found = moonlit::FindModel(in);
    if (!found.ok() && std::string_view(in) == "poet") {
      return moonlit::Errorf(moonlit::Code::kUnsupported,
                             "the model that Moonlit carries is quantized already; give a file in place of \"poet\"");
    }
    MOONLIT_RETURN_IF_ERROR(found.status());
    MOONLIT_ASSIGN_OR_RETURN(const moonlit::QuantizeReport report, moonlit::QuantizeFile(*found, out, to));
    moonlit::api::GiveReport(report, result);
    return Status();
  });
}

moonlit_code moonlit_convert(const char* folder, const char* out, const moonlit_write_options* options,
                             moonlit_write_result* result, moonlit_error* error) {
  return Guard(error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(folder, "folder"));
    MOONLIT_RETURN_IF_ERROR(NotNull(out, "out"));
    MOONLIT_RETURN_IF_ERROR(moonlit::api::CheckSized(result, "moonlit_write_result"));
    MOONLIT_ASSIGN_OR_RETURN(const moonlit_write_options complete, moonlit::api::Complete(options));
    moonlit::Log log(moonlit::api::ToReceiver(complete.log, complete.log_user));
    const moonlit::LogScope scope(&log);
    MOONLIT_ASSIGN_OR_RETURN(
        const moonlit::QuantizeReport report,
        moonlit::ConvertFolder(folder, out, complete.pre_tokenizer == nullptr ? "" : complete.pre_tokenizer,
                               moonlit::api::ToQuantizeOptions(complete)));
    moonlit::api::GiveReport(report, result);
    return Status();
  });
}

}  // extern "C"
