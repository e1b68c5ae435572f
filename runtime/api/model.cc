// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <string_view>

#include "kernels/cpu/variant.h"
#include "runtime/api/handles.h"
#include "runtime/api/load.h"
#include "runtime/api/options.h"
#include "runtime/base/quote.h"

namespace moonlit::api {

static_assert(static_cast<int>(Code::kInternal) == MOONLIT_INTERNAL &&
                  static_cast<int>(Code::kExhausted) == MOONLIT_EXHAUSTED,
              "moonlit_code repeats Code");

moonlit_code Give(Code from, std::string_view message, moonlit_error* error) noexcept {
  const auto code = static_cast<moonlit_code>(from);
  if (error != nullptr) {
    error->code = code;
    const std::string_view fits = FrontForMessage(message, sizeof error->message - 1);
    std::memcpy(error->message, fits.data(), fits.size());
    error->message[fits.size()] = '\0';
  }
  return code;
}

namespace {

Status CheckToken(const moonlit_model& model, int32_t id) {
  const int32_t tokens = model.tokenizer().vocab_size();
  if (id >= 0 && id < tokens) return Status();
  return Errorf(Code::kInvalidArgument, "token %d: expected 0 to %d (the vocabulary)", id, tokens - 1);
}

}  // namespace
}  // namespace moonlit::api

using moonlit::Code;
using moonlit::Status;
using moonlit::api::CheckArray;
using moonlit::api::Guard;
using moonlit::api::NotNull;

extern "C" {

const char* moonlit_version(void) { return MOONLIT_VERSION; }

moonlit_code moonlit_model_load(const char* path, const moonlit_model_options* options, moonlit_model** model,
                                moonlit_error* error) {
  return Guard(error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(path, "path"));
    MOONLIT_RETURN_IF_ERROR(NotNull(model, "model"));
    MOONLIT_ASSIGN_OR_RETURN(const moonlit_model_options complete, moonlit::api::Complete(options));
    MOONLIT_ASSIGN_OR_RETURN(const moonlit::LoadOptions load, moonlit::api::ToLoadOptions(complete));
    auto handle = std::make_unique<moonlit_model>(moonlit::api::ToReceiver(complete.log, complete.log_user));
    const moonlit::LogScope scope(&handle->log);
    if (complete.vocab_only != 0) {
      MOONLIT_ASSIGN_OR_RETURN(handle->vocabulary, moonlit::OpenTokenizer(path, load, &handle->metadata));
    } else {
      MOONLIT_ASSIGN_OR_RETURN(moonlit::EngineOptions engine_options, moonlit::api::ToEngineOptions(complete));
      MOONLIT_ASSIGN_OR_RETURN(moonlit::LoadedModel loaded, moonlit::OpenModel(path, load, &handle->metadata));
      MOONLIT_ASSIGN_OR_RETURN(handle->engine, moonlit::Engine::Create(std::move(loaded), engine_options));
    }
    *model = handle.release();
    return Status();
  });
}

void moonlit_model_free(moonlit_model* model) { delete model; }

void moonlit_model_get_info(const moonlit_model* model, moonlit_model_info* info) {
  if (model == nullptr || info == nullptr) return;
  moonlit_model_info full = {};
  full.n_vocab = static_cast<uint32_t>(model->tokenizer().vocab_size());
  full.architecture = full.name = full.file_type = full.variant = full.key_type = full.value_type = full.thread_reason =
      "";
  if (model->engine) {
    moonlit::Engine& engine = *model->engine;
    const moonlit::ModelFacts& facts = engine.facts();
    full.architecture = facts.architecture.c_str();
    full.name = facts.name.c_str();
    full.file_type = facts.file_type.c_str();
    full.variant = moonlit::VariantName(engine.variant());
    full.key_type = moonlit::CacheTypeName(engine.options().key_type);
    full.value_type = moonlit::CacheTypeName(engine.options().value_type);
    full.thread_reason = engine.thread_reason().c_str();
    full.parameters = facts.parameters;
    full.file_bytes = facts.file_bytes;
    full.packed_bytes = engine.plan().size().packed_weight_bytes;
    full.n_vocab = static_cast<uint32_t>(facts.n_vocab);
    full.n_ctx = static_cast<uint32_t>(engine.options().n_ctx);
    full.chunk_tokens = static_cast<uint32_t>(engine.options().chunk_tokens);
    full.page_tokens = static_cast<uint32_t>(engine.options().page_tokens);
    full.n_ctx_train = static_cast<uint32_t>(facts.n_ctx_train);
    full.n_layers = static_cast<uint32_t>(facts.n_layers);
    full.n_embd = static_cast<uint32_t>(facts.n_embd);
    full.threads = static_cast<uint32_t>(engine.threads());
  }
  moonlit::api::WriteSized(full, info->size, info);
}

size_t moonlit_model_metadata_count(const moonlit_model* model) {
  return model == nullptr ? 0 : model->metadata.size();
}

const char* moonlit_model_metadata_key(const moonlit_model* model, size_t index) {
  return index < moonlit_model_metadata_count(model) ? model->metadata[index].first.c_str() : nullptr;
}

moonlit_code moonlit_model_metadata(const moonlit_model* model, const char* key, char* text, size_t capacity,
                                    size_t* length, moonlit_error* error) {
  return Guard(model, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(key, "key"));
    MOONLIT_RETURN_IF_ERROR(NotNull(text, capacity, "text"));
    MOONLIT_RETURN_IF_ERROR(NotNull(length, "length"));
    for (const auto& [name, value] : model->metadata) {
      if (name != key) continue;
      std::copy_n(value.begin(), std::min(value.size(), capacity), text);
      *length = value.size();
      return Status();
    }
    return Status(Code::kNotFound, "the model's metadata have no key " + moonlit::QuoteForMessage(key));
  });
}

moonlit_code moonlit_tokenize(const moonlit_model* model, const char* text, size_t length, int flags, int32_t* ids,
                              size_t capacity, size_t* count, moonlit_error* error) {
  return Guard(model, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(CheckArray(text, length, "text"));
    MOONLIT_RETURN_IF_ERROR(NotNull(ids, capacity, "ids"));
    MOONLIT_RETURN_IF_ERROR(NotNull(count, "count"));
    moonlit::EncodeOptions options;
    options.add_special = (flags & MOONLIT_ADD_SPECIAL) != 0;
    options.parse_special = (flags & MOONLIT_PARSE_SPECIAL) != 0;
    MOONLIT_ASSIGN_OR_RETURN(const std::vector<int32_t> found, model->tokenizer().Encode({text, length}, options));
    std::copy_n(found.begin(), std::min(found.size(), capacity), ids);
    *count = found.size();
    return Status();
  });
}

moonlit_code moonlit_detokenize(const moonlit_model* model, const int32_t* ids, size_t count, int show_special,
                                char* text, size_t capacity, size_t* length, moonlit_error* error) {
  return Guard(model, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(CheckArray(ids, count, "ids"));
    MOONLIT_RETURN_IF_ERROR(NotNull(text, capacity, "text"));
    MOONLIT_RETURN_IF_ERROR(NotNull(length, "length"));
    moonlit::DecodeOptions options;
    options.show_special = show_special != 0;
    MOONLIT_ASSIGN_OR_RETURN(const std::string decoded, model->tokenizer().Decode({ids, count}, options));
    std::copy_n(decoded.begin(), std::min(decoded.size(), capacity), text);
    *length = decoded.size();
    return Status();
  });
}

moonlit_code moonlit_token_bytes(const moonlit_model* model, int32_t id, int show_special, char* bytes, size_t capacity,
                                 size_t* length, moonlit_error* error) {
  return Guard(model, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(bytes, capacity, "bytes"));
    MOONLIT_RETURN_IF_ERROR(NotNull(length, "length"));
    MOONLIT_RETURN_IF_ERROR(moonlit::api::CheckToken(*model, id));
    const std::string_view found = model->tokenizer().TokenBytes(id, show_special != 0);
    std::copy_n(found.begin(), std::min(found.size(), capacity), bytes);
    *length = found.size();
    return Status();
  });
}

moonlit_code moonlit_token_text(const moonlit_model* model, int32_t id, char* text, size_t capacity, size_t* length,
                                moonlit_error* error) {
  return Guard(model, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(text, capacity, "text"));
    MOONLIT_RETURN_IF_ERROR(NotNull(length, "length"));
    MOONLIT_RETURN_IF_ERROR(moonlit::api::CheckToken(*model, id));
    const std::string_view found = model->tokenizer().TokenText(id);
    std::copy_n(found.begin(), std::min(found.size(), capacity), text);
    *length = found.size();
    return Status();
  });
}

int32_t moonlit_token_special(const moonlit_model* model, moonlit_special kind) {
  static_assert(moonlit::kNoToken == -1);
  if (model == nullptr) return -1;
  const moonlit::SpecialTokens& special = model->tokenizer().special();
  const int32_t ids[] = {special.bos,     special.eos,     special.eot,     special.eom,     special.unk,
                         special.sep,     special.pad,     special.mask,    special.fim_pre, special.fim_suf,
                         special.fim_mid, special.fim_pad, special.fim_rep, special.fim_sep};
  static_assert(std::size(ids) == MOONLIT_SPECIAL_FIM_SEP + 1, "in the order of moonlit_special");
  const int number = kind;
  return number >= 0 && number < static_cast<int>(std::size(ids)) ? ids[number] : -1;
}

int moonlit_token_is_end(const moonlit_model* model, int32_t id) {
  return model != nullptr && model->tokenizer().IsEndOfGeneration(id) ? 1 : 0;
}

int32_t moonlit_token_begin(const moonlit_model* model) {
  return model != nullptr && model->tokenizer().add_bos() ? model->tokenizer().special().bos : -1;
}

}  // extern "C"
