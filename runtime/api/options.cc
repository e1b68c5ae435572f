// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/options.h"

#include "runtime/api/handles.h"

namespace moonlit::api {
namespace {

Status SetCacheType(const char* field, const char* name, bool* use_default, CacheType* type) {
  if (name == nullptr) return Status();
  *use_default = false;
  if (FindCacheType(name, type)) return Status();
  return Errorf(Code::kInvalidArgument, "%s: expected one of f32, f16, bf16, q8_0, q4_0, found \"%s\"", field, name);
}

}  // namespace

Result<moonlit_model_options> Complete(const moonlit_model_options* options) {
  return ReadSized(options, "moonlit_model_options", moonlit_model_options_init);
}

Result<LoadOptions> ToLoadOptions(const moonlit_model_options& from) {
  if (from.quantize != nullptr && *from.quantize == '\0')
    return Status(Code::kInvalidArgument, "quantize: expected a type like Q8_0, found an empty name");
  LoadOptions to;
  if (from.quantize != nullptr) to.quantize = from.quantize;
  if (from.pre_tokenizer != nullptr) to.pre_tokenizer = from.pre_tokenizer;
  return to;
}

Result<EngineOptions> ToEngineOptions(const moonlit_model_options& from) {
  EngineOptions to;
  to.threads = from.threads;
  to.n_ctx = from.n_ctx;
  if (from.default_ctx != 0) to.default_ctx = from.default_ctx;
  to.max_sessions = from.max_sessions;
  to.chunk_tokens = from.chunk_tokens;
  to.page_tokens = from.page_tokens;
  MOONLIT_RETURN_IF_ERROR(SetCacheType("key_type", from.key_type, &to.default_key_type, &to.key_type));
  MOONLIT_RETURN_IF_ERROR(SetCacheType("value_type", from.value_type, &to.default_value_type, &to.value_type));
  to.exact = from.exact != 0;
  to.share_prefixes = from.share_prefixes != 0;
  to.attention_window = from.attention_window;
  to.attention_sinks = from.attention_sinks;
  to.attention_pages = from.attention_pages;
  if (from.variant != nullptr) to.variant = from.variant;
  if (from.packed_cache != nullptr) to.packed_cache = from.packed_cache;
  if (from.float_provider != nullptr) to.float_provider = from.float_provider;
  if ((from.allocate == nullptr) != (from.release == nullptr)) {
    return Status(Code::kInvalidArgument, "allocate and release: expected both or none of the allocator's functions");
  }
  to.allocator = {from.allocate, from.release, from.allocator_user};
  to.parallel_for = {from.parallel_for, from.parallel_user};
  if (from.progress != nullptr) {
    to.progress = [progress = from.progress, user = from.progress_user](uint64_t done, uint64_t total) {
      return progress(user, done, total) == 0;
    };
  }
  return to;
}

}  // namespace moonlit::api

extern "C" void moonlit_model_options_init(moonlit_model_options* options, size_t size) {
  moonlit_model_options defaults = {};
  defaults.max_sessions = 1;
  defaults.chunk_tokens = 512;
  defaults.page_tokens = 64;
  defaults.share_prefixes = 1;
  defaults.default_ctx = static_cast<uint32_t>(moonlit::EngineOptions{}.default_ctx);
  moonlit::api::WriteSized(defaults, size, options);
}
