// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "runtime/api/handles.h"
#include "runtime/api/load.h"
#include "runtime/api/options.h"

namespace moonlit::api {
namespace {

constexpr size_t kMostContext = size_t{1} << 24;  // where the model does not say what it was trained for

moonlit_memory ToMemory(const MemoryUse& use, const EngineOptions& options) {
  moonlit_memory full = {};
  full.weights = use.weights;
  full.cache = use.cache;
  full.states = use.states;
  full.scratch = use.arena + use.product_scratch;
  full.total = use.total();
  full.most = use.most();
  full.session = use.cache / options.max_sessions + use.states / options.max_sessions;
  full.n_ctx = static_cast<uint32_t>(options.n_ctx);
  full.max_sessions = static_cast<uint32_t>(options.max_sessions);
  full.threads = static_cast<uint32_t>(options.threads);
  return full;
}

// Opens the model, and measures it in `body`, with the log of the options.
template <typename Body>
moonlit_code MeasureModel(const char* path, const moonlit_model_options* given, moonlit_error* error,
                          const Body& body) {
  return Guard(error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(path, "path"));
    MOONLIT_ASSIGN_OR_RETURN(const moonlit_model_options complete, Complete(given));
    Log log(ToReceiver(complete.log, complete.log_user));
    const LogScope scope(&log);
    if (complete.vocab_only != 0) return body(static_cast<const LoadedModel*>(nullptr), EngineOptions{});
    MOONLIT_ASSIGN_OR_RETURN(const LoadOptions load, ToLoadOptions(complete));
    MOONLIT_ASSIGN_OR_RETURN(const EngineOptions options, ToEngineOptions(complete));
    MOONLIT_ASSIGN_OR_RETURN(const LoadedModel model, OpenLayout(path, load));
    return body(&model, options);
  });
}

// More tokens take more (but for a page or two where a window begins to pay), so the largest context is found by halves.
Result<uint32_t> LargestContext(const LoadedModel& model, EngineOptions options, uint64_t bytes) {
  const ModelFacts& facts = model.facts;
  size_t fits = 0, most = facts.n_ctx_train != 0 ? facts.n_ctx_train : kMostContext;
  if (facts.n_positions != 0) most = std::min(most, facts.n_positions);
  for (size_t too_many = std::min(most, kMostContext) + 1; too_many - fits > 1;) {
    options.n_ctx = fits + (too_many - fits) / 2;
    MOONLIT_ASSIGN_OR_RETURN(const MeasuredEngine measured, Engine::Measure(model, options));
    (measured.memory.most() <= bytes ? fits : too_many) = options.n_ctx;
  }
  return static_cast<uint32_t>(fits);
}

}  // namespace
}  // namespace moonlit::api

using moonlit::Code;
using moonlit::Status;
using moonlit::api::NotNull;

extern "C" {

moonlit_code moonlit_plan_memory(const char* path, const moonlit_model_options* options, moonlit_memory* memory,
                                 moonlit_error* error) {
  return moonlit::api::MeasureModel(
      path, options, error,
      [&](const moonlit::LoadedModel* model, const moonlit::EngineOptions& engine_options) -> Status {
        MOONLIT_RETURN_IF_ERROR(NotNull(memory, "memory"));
        MOONLIT_RETURN_IF_ERROR(moonlit::api::CheckSized(memory, "moonlit_memory"));
        moonlit_memory full = {};
        if (model != nullptr) {
          MOONLIT_ASSIGN_OR_RETURN(const moonlit::MeasuredEngine measured,
                                   moonlit::Engine::Measure(*model, engine_options));
          full = moonlit::api::ToMemory(measured.memory, measured.options);
        }
        moonlit::api::WriteSized(full, memory->size, memory);
        return Status();
      });
}

moonlit_code moonlit_plan_context(const char* path, const moonlit_model_options* options, uint64_t bytes,
                                  uint32_t* n_ctx, moonlit_error* error) {
  return moonlit::api::MeasureModel(
      path, options, error,
      [&](const moonlit::LoadedModel* model, const moonlit::EngineOptions& engine_options) -> Status {
        MOONLIT_RETURN_IF_ERROR(NotNull(n_ctx, "n_ctx"));
        if (model == nullptr) return Status(Code::kInvalidArgument, "vocab_only: such a model has no context");
        MOONLIT_ASSIGN_OR_RETURN(*n_ctx, moonlit::api::LargestContext(*model, engine_options, bytes));
        return Status();
      });
}

void moonlit_model_memory(const moonlit_model* model, moonlit_memory* memory) {
  if (model == nullptr || memory == nullptr) return;
  moonlit_memory full = {};
  if (model->engine) full = moonlit::api::ToMemory(model->engine->memory(), model->engine->options());
  moonlit::api::WriteSized(full, memory->size, memory);
}

}  // extern "C"
