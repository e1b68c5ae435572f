// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>
#include <vector>

#include "runtime/api/handles.h"
#include "runtime/weights/adapter_file.h"

using moonlit::Code;
using moonlit::Status;
using moonlit::api::CheckArray;
using moonlit::api::Guard;
using moonlit::api::NotNull;

namespace moonlit::api {

Result<std::shared_ptr<const AdapterSet>> CombineAdapters(Engine& engine, const moonlit_adapter* const* adapters,
                                                          const float* scales, size_t count) {
  MOONLIT_RETURN_IF_ERROR(CheckArray(adapters, count, "adapters"));
  std::vector<AdapterUse> uses;
  for (size_t i = 0; i < count; ++i) {
    MOONLIT_RETURN_IF_ERROR(NotNull(adapters[i], "an adapter"));
    uses.push_back({adapters[i]->adapter, scales == nullptr ? 1.0f : scales[i]});
  }
  return engine.plan().Combine(uses);
}

}  // namespace moonlit::api

extern "C" {

moonlit_code moonlit_adapter_load(const moonlit_model* model, const char* path, moonlit_adapter** adapter,
                                  moonlit_error* error) {
  return Guard(model, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(path, "path"));
    MOONLIT_RETURN_IF_ERROR(NotNull(adapter, "adapter"));
    if (!model->engine) return Status(Code::kInvalidArgument, "the model was loaded with vocab_only");
    MOONLIT_ASSIGN_OR_RETURN(const moonlit::AdapterFile file,
                             moonlit::OpenAdapterFile(path, model->engine->facts().architecture));
    auto handle = std::make_unique<moonlit_adapter>();
    MOONLIT_ASSIGN_OR_RETURN(handle->adapter, model->engine->plan().LoadAdapter(*file.source, file.alpha));
    handle->info.tensors = handle->adapter->tensors();
    handle->info.bytes = handle->adapter->bytes();
    handle->info.alpha = file.alpha;
    *adapter = handle.release();
    return Status();
  });
}

void moonlit_adapter_free(moonlit_adapter* adapter) { delete adapter; }

void moonlit_adapter_get_info(const moonlit_adapter* adapter, moonlit_adapter_info* info) {
  if (adapter != nullptr && info != nullptr) moonlit::api::WriteSized(adapter->info, info->size, info);
}

moonlit_code moonlit_session_set_adapters(moonlit_session* session, const moonlit_adapter* const* adapters,
                                          const float* scales, size_t count, moonlit_error* error) {
  return Guard(session, error, [&]() -> Status {
    MOONLIT_ASSIGN_OR_RETURN(std::shared_ptr<const moonlit::AdapterSet> set,
                             moonlit::api::CombineAdapters(*session->model->engine, adapters, scales, count));
    return session->session->SetAdapters(std::move(set));
  });
}

}  // extern "C"
