// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/embed.h"

#include <algorithm>
#include <cstring>

#include "runtime/api/handles.h"

using moonlit::Code;
using moonlit::Errorf;
using moonlit::Status;
using moonlit::api::CheckArray;
using moonlit::api::Guard;
using moonlit::api::NotNull;

namespace {

Status CheckSession(const moonlit_embed_options& options, const moonlit_model& model) {
  if (options.session->model != &model) return Status(Code::kInvalidArgument, "embed: the session is of another model");
  if (options.adapter_count == 0) return Status();
  return Status(
      Code::kInvalidArgument,
      "embed: there are a session and adapters: set the adapters in the session (moonlit_session_set_adapters)");
}

}  // namespace

extern "C" {

void moonlit_embed_options_init(moonlit_embed_options* options, size_t size) {
  moonlit_embed_options defaults = {};
  moonlit::api::WriteSized(defaults, size, options);
}

moonlit_code moonlit_embed(const moonlit_model* model, const int32_t* ids, size_t count,
                           const moonlit_embed_options* given, float* vector, size_t capacity, size_t* width,
                           moonlit_error* error) {
  return Guard(model, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(CheckArray(ids, count, "ids"));
    MOONLIT_RETURN_IF_ERROR(NotNull(vector, capacity, "vector"));
    MOONLIT_RETURN_IF_ERROR(NotNull(width, "width"));
    MOONLIT_ASSIGN_OR_RETURN(const moonlit_embed_options from,
                             moonlit::api::ReadSized(given, "moonlit_embed_options", moonlit_embed_options_init));
    constexpr moonlit::Pooling kPoolings[] = {moonlit::Pooling::kUnknown, moonlit::Pooling::kMean,
                                              moonlit::Pooling::kFirst, moonlit::Pooling::kLast};
    if (from.pooling < MOONLIT_POOLING_DEFAULT || from.pooling > MOONLIT_POOLING_LAST) {
      return Errorf(Code::kInvalidArgument, "pooling is %d: expected one of moonlit_pooling", from.pooling);
    }
    if (!model->engine) return Errorf(Code::kInvalidArgument, "the model was loaded with vocab_only");
    moonlit::EmbedOptions options{.pooling = kPoolings[from.pooling], .normalise = from.raw == 0};
    moonlit::api::Use use;
    if (from.session != nullptr) {
      MOONLIT_RETURN_IF_ERROR(CheckSession(from, *model));
      MOONLIT_RETURN_IF_ERROR(use.Take(from.session, "session"));
      options.session = from.session->session.get();
    }
    MOONLIT_ASSIGN_OR_RETURN(options.adapters, moonlit::api::CombineAdapters(*model->engine, from.adapters,
                                                                             from.adapter_scales, from.adapter_count));
    if (from.progress != nullptr) {
      options.progress = [&from](size_t done, size_t total) { return from.progress(from.user, done, total) == 0; };
    }
    MOONLIT_ASSIGN_OR_RETURN(const std::vector<float> found,
                             moonlit::Embed(*model->engine, {ids, count}, options,
                                            from.session == nullptr ? nullptr : from.session->turn.cancelled()));
    std::copy_n(found.begin(), std::min(found.size(), capacity), vector);
    *width = found.size();
    return Status();
  });
}

}  // extern "C"
