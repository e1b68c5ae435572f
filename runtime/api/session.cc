// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/api/grammar_handle.h"
#include "runtime/api/handles.h"
#include "runtime/api/sampler_handle.h"
#include "runtime/decode/generate.h"
#include "runtime/decode/perplexity.h"

namespace moonlit::api {
namespace {

class CallConsumer final : public LogitsConsumer {
 public:
  CallConsumer(moonlit_logits_fn consume, void* user, size_t n_vocab)
      : consume_(consume), user_(user), n_vocab_(n_vocab) {}
  void Consume(size_t, size_t first_token, size_t rows, const float* logits, size_t stride) override {
    for (size_t r = 0; consume_ != nullptr && r < rows; ++r)
      consume_(user_, first_token + r, logits + r * stride, n_vocab_);
  }

 private:
  moonlit_logits_fn consume_;
  void* user_;
  size_t n_vocab_;
};

SamplerOptions ToSamplerOptions(const moonlit_generate_options& from) {
  SamplerOptions to;
  to.temperature = from.temperature;
  to.top_k = from.top_k;
  to.top_p = from.top_p;
  to.min_p = from.min_p;
  to.repeat_penalty = from.repeat_penalty;
  to.repeat_last_n = from.repeat_last_n;
  to.seed = from.seed;
  return to;
}

GenerateOptions ToGenerateOptions(const moonlit_generate_options& from, const std::atomic<bool>* cancel) {
  GenerateOptions to;
  to.max_tokens = from.max_tokens;
  for (size_t i = 0; i < from.stop_count; ++i) to.stop.emplace_back(from.stop[i]);
  to.ignore_end = from.ignore_end != 0;
  to.context_shift = from.context_shift != 0;
  to.keep = from.keep;
  if (from.text != nullptr) {
    to.text = [text = from.text, user = from.user](std::string_view piece) {
      return text(user, piece.data(), piece.size()) == 0;
    };
  }
  if (from.token != nullptr) {
    to.token = [token = from.token, user = from.user](int32_t id) { return token(user, id) == 0; };
  }
  if (from.prefill_progress != nullptr) {
    to.prefill_progress = [progress = from.prefill_progress, user = from.user](size_t done, size_t total) {
      progress(user, done, total);
    };
  }
  to.cancel = cancel;
  return to;
}

// The chain that the fields stand for.
Result<Sampler> FromFields(const moonlit_generate_options& options, const Engine& engine) {
  MOONLIT_ASSIGN_OR_RETURN(auto mask, NewMask(options.grammar, engine.tokenizer()));
  return Sampler::Create(ToSamplerOptions(options), std::move(mask));
}

Status CheckSampler(const moonlit_generate_options& options, const moonlit_model& model) {
  if (options.sampler->model != &model)
    return Status(Code::kInvalidArgument, "the sampler was made for another model than the session's");
  if (options.grammar != nullptr)
    return Status(Code::kInvalidArgument, "there are a sampler and a grammar: make the grammar a step of the sampler");
  return Status();
}

RestoreOptions ToRestoreOptions(int flags) {
  RestoreOptions options;
  options.any_variant = (flags & MOONLIT_ANY_VARIANT) != 0;
  return options;
}

Result<moonlit_generate_options> Complete(const moonlit_generate_options* options) {
  return ReadSized(options, "moonlit_generate_options", moonlit_generate_options_init);
}

static_assert(static_cast<int>(Finish::kEnd) == MOONLIT_FINISH_END &&
                  static_cast<int>(Finish::kStop) == MOONLIT_FINISH_STOP &&
                  static_cast<int>(Finish::kLength) == MOONLIT_FINISH_LENGTH &&
                  static_cast<int>(Finish::kContext) == MOONLIT_FINISH_CONTEXT &&
                  static_cast<int>(Finish::kCancelled) == MOONLIT_FINISH_CANCELLED,
              "moonlit_finish repeats Finish");
static_assert(static_cast<int>(Outputs::kNone) == MOONLIT_OUTPUT_NONE &&
                  static_cast<int>(Outputs::kLast) == MOONLIT_OUTPUT_LAST &&
                  static_cast<int>(Outputs::kAll) == MOONLIT_OUTPUT_ALL,
              "moonlit_outputs repeats Outputs");

}  // namespace
}  // namespace moonlit::api

using moonlit::Code;
using moonlit::Errorf;
using moonlit::Status;
using moonlit::api::CheckArray;
using moonlit::api::Guard;
using moonlit::api::NotNull;

extern "C" {

moonlit_code moonlit_session_new(moonlit_model* model, moonlit_session** session, moonlit_error* error) {
  return Guard(model, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(session, "session"));
    if (!model->engine)
      return Status(Code::kInvalidArgument, "the model was loaded with vocab_only: it has no sessions");
    auto handle = std::make_unique<moonlit_session>();
    handle->model = model;
    MOONLIT_ASSIGN_OR_RETURN(handle->session, model->engine->NewSession());
    *session = handle.release();
    return Status();
  });
}

void moonlit_session_free(moonlit_session* session) { delete session; }

size_t moonlit_session_length(const moonlit_session* session) {
  return session == nullptr ? 0 : static_cast<size_t>(session->session->length());
}

moonlit_code moonlit_session_truncate(moonlit_session* session, size_t length, moonlit_error* error) {
  return Guard(session, error, [&]() -> Status {
    if (length > static_cast<size_t>(session->session->length())) {
      return Errorf(Code::kInvalidArgument, "truncate to %zu tokens: the session has only %zu", length,
                    static_cast<size_t>(session->session->length()));
    }
    return session->session->Truncate(static_cast<int64_t>(length), session->turn.cancelled());
  });
}

moonlit_code moonlit_session_drop(moonlit_session* session, size_t first, size_t last, moonlit_error* error) {
  return Guard(session, error, [&]() -> Status {
    const auto length = static_cast<size_t>(session->session->length());
    if (first > last || last > length) {
      return Errorf(Code::kInvalidArgument, "drop tokens %zu to %zu: the session has %zu", first, last, length);
    }
    return session->session->Drop(static_cast<int64_t>(first), static_cast<int64_t>(last), session->turn.cancelled());
  });
}

moonlit_code moonlit_session_fork(moonlit_session* session, moonlit_session** fork, moonlit_error* error) {
  return Guard(session, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(fork, "fork"));
    auto handle = std::make_unique<moonlit_session>();
    handle->model = session->model;
    MOONLIT_ASSIGN_OR_RETURN(handle->session, session->model->engine->Fork(*session->session));
    *fork = handle.release();
    return Status();
  });
}

size_t moonlit_session_tokens(const moonlit_session* session, int32_t* ids, size_t capacity) {
  if (session == nullptr) return 0;
  const std::span<const int32_t> tokens = session->session->tokens();
  if (ids != nullptr) std::copy_n(tokens.begin(), std::min(tokens.size(), capacity), ids);
  return tokens.size();
}

moonlit_code moonlit_session_save(moonlit_session* session, const char* path, moonlit_error* error) {
  return Guard(session, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(path, "path"));
    return session->model->engine->Save(*session->session, path);
  });
}

moonlit_code moonlit_session_load(moonlit_session* session, const char* path, int flags, moonlit_error* error) {
  return Guard(session, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(path, "path"));
    return session->model->engine->Restore(*session->session, path, moonlit::api::ToRestoreOptions(flags));
  });
}

moonlit_code moonlit_session_saved_bytes(moonlit_session* session, uint64_t* bytes, moonlit_error* error) {
  return Guard(session, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(bytes, "bytes"));
    MOONLIT_ASSIGN_OR_RETURN(*bytes, session->model->engine->SavedBytes(*session->session));
    return Status();
  });
}

moonlit_code moonlit_session_write(moonlit_session* session, moonlit_write_fn write, void* user, moonlit_error* error) {
  return Guard(session, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(reinterpret_cast<const void*>(write), "write"));
    uint64_t written = 0;
    return session->model->engine->Write(*session->session, [&](const void* bytes, size_t size) -> Status {
      if (write(user, bytes, size) != 0)
        return Errorf(Code::kIo, "session: the application's write function has given up behind %" PRIu64 " bytes",
                      written);
      written += size;
      return Status();
    });
  });
}

moonlit_code moonlit_session_read(moonlit_session* session, moonlit_read_fn read, void* user, int flags,
                                  moonlit_error* error) {
  return Guard(session, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(NotNull(reinterpret_cast<const void*>(read), "read"));
    moonlit::ByteSource source = {
        "(from the application)", std::nullopt, [&](uint64_t offset, void* bytes, size_t size) -> Status {
          if (read(user, bytes, size) == 0) return Status();
          return Errorf(Code::kIo, "session: the application's read function has given up behind %" PRIu64 " bytes",
                        offset);
        }};
    return session->model->engine->Read(*session->session, std::move(source), moonlit::api::ToRestoreOptions(flags));
  });
}

void moonlit_session_cancel(moonlit_session* session) {
  if (session != nullptr) session->turn.Cancel();
}

moonlit_code moonlit_eval(moonlit_session* session, const int32_t* ids, size_t count, moonlit_outputs outputs,
                          moonlit_logits_fn consume, void* user, moonlit_error* error) {
  return Guard(session, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(CheckArray(ids, count, "ids"));
    if (outputs < MOONLIT_OUTPUT_NONE || outputs > MOONLIT_OUTPUT_GENERATED) {
      return Errorf(Code::kInvalidArgument, "outputs is %d, expected one of moonlit_outputs", outputs);
    }
    if (count == 0) return Status();
    moonlit::Engine& engine = *session->model->engine;
    moonlit::api::CallConsumer consumer(consume, user, engine.facts().n_vocab);
    if (outputs == MOONLIT_OUTPUT_GENERATED) {
      const moonlit::SessionSpan span{session->session.get(), {ids, count}, moonlit::Outputs::kLast, true};
      return engine.Step({&span, 1}, &consumer, session->turn.cancelled());
    }
    return engine.Prefill(*session->session, {ids, count}, static_cast<moonlit::Outputs>(outputs), &consumer,
                          session->turn.cancelled());
  });
}

void moonlit_generate_options_init(moonlit_generate_options* options, size_t size) {
  const moonlit::SamplerOptions sampler;
  moonlit_generate_options defaults = {};
  defaults.temperature = sampler.temperature;
  defaults.top_k = sampler.top_k;
  defaults.top_p = sampler.top_p;
  defaults.min_p = sampler.min_p;
  defaults.repeat_penalty = sampler.repeat_penalty;
  defaults.repeat_last_n = sampler.repeat_last_n;
  moonlit::api::WriteSized(defaults, size, options);
}

moonlit_code moonlit_generate(moonlit_session* session, const int32_t* prompt, size_t prompt_count,
                              const moonlit_generate_options* options, moonlit_generate_result* result,
                              moonlit_error* error) {
  return Guard(session, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(CheckArray(prompt, prompt_count, "prompt"));
    MOONLIT_RETURN_IF_ERROR(moonlit::api::CheckSized(result, "moonlit_generate_result"));
    MOONLIT_ASSIGN_OR_RETURN(const moonlit_generate_options complete, moonlit::api::Complete(options));
    MOONLIT_RETURN_IF_ERROR(CheckArray(complete.stop, complete.stop_count, "stop"));
    for (size_t i = 0; i < complete.stop_count; ++i)
      MOONLIT_RETURN_IF_ERROR(NotNull(complete.stop[i], "a stop string"));
    std::optional<moonlit::Sampler> own;
    moonlit::api::Use use;
    if (complete.sampler != nullptr) {
      MOONLIT_RETURN_IF_ERROR(moonlit::api::CheckSampler(complete, *session->model));
      MOONLIT_RETURN_IF_ERROR(use.Take(complete.sampler, "sampler"));
    } else {
      MOONLIT_ASSIGN_OR_RETURN(own, moonlit::api::FromFields(complete, *session->model->engine));
    }
    moonlit::Sampler& sampler = own ? *own : complete.sampler->chain;
    const moonlit::GenerateOptions generate = moonlit::api::ToGenerateOptions(complete, session->turn.cancelled());
    MOONLIT_ASSIGN_OR_RETURN(
        const moonlit::GenerateResult done,
        moonlit::Generate(*session->model->engine, *session->session, {prompt, prompt_count}, sampler, generate));
    if (result != nullptr) {
      moonlit_generate_result full = {};
      full.finish = static_cast<moonlit_finish>(done.finish);
      full.prompt_tokens = done.prompt_tokens;
      full.generated_tokens = done.tokens.size();
      full.prefill_seconds = done.prefill_seconds;
      full.decode_seconds = done.decode_seconds;
      full.reused_tokens = done.reused_tokens;
      full.context_shifts = done.shifts;
      full.last_token = done.last_token;
      full.end_token = done.end_token;
      moonlit::api::WriteSized(full, result->size, result);
    }
    return Status();
  });
}

moonlit_code moonlit_perplexity(moonlit_session* session, const int32_t* ids, size_t count, size_t window,
                                int (*progress)(void* user, size_t done, size_t total, double perplexity_so_far),
                                void* user, moonlit_perplexity_result* result, moonlit_error* error) {
  moonlit_perplexity_options options;
  moonlit_perplexity_options_init(&options, sizeof options);
  options.window = window;
  options.progress = progress;
  options.user = user;
  return moonlit_perplexity_with(session, ids, count, &options, result, error);
}

void moonlit_perplexity_options_init(moonlit_perplexity_options* options, size_t size) {
  moonlit_perplexity_options defaults = {};
  defaults.window = moonlit::PerplexityOptions{}.window;
  moonlit::api::WriteSized(defaults, size, options);
}

moonlit_code moonlit_perplexity_with(moonlit_session* session, const int32_t* ids, size_t count,
                                     const moonlit_perplexity_options* given, moonlit_perplexity_result* result,
                                     moonlit_error* error) {
  return Guard(session, error, [&]() -> Status {
    MOONLIT_RETURN_IF_ERROR(CheckArray(ids, count, "ids"));
    MOONLIT_RETURN_IF_ERROR(NotNull(result, "result"));
    MOONLIT_RETURN_IF_ERROR(moonlit::api::CheckSized(result, "moonlit_perplexity_result"));
    MOONLIT_ASSIGN_OR_RETURN(
        const moonlit_perplexity_options from,
        moonlit::api::ReadSized(given, "moonlit_perplexity_options", moonlit_perplexity_options_init));
    moonlit::PerplexityOptions options;
    options.window = from.window;
    options.cancel = session->turn.cancelled();
    if (from.logits_out != nullptr) options.logits_out = from.logits_out;
    if (from.logits_base != nullptr) options.logits_base = from.logits_base;
    if (from.progress != nullptr) {
      options.progress = [progress = from.progress, user = from.user](size_t done, size_t total, double so_far) {
        return progress(user, done, total, so_far) == 0;
      };
    }
    MOONLIT_ASSIGN_OR_RETURN(
        const moonlit::PerplexityResult done,
        moonlit::MeasurePerplexity(*session->model->engine, *session->session, {ids, count}, options));
    moonlit_perplexity_result full = {};
    full.perplexity = done.perplexity;
    full.standard_error = done.standard_error;
    full.counted_tokens = done.counted_tokens;
    full.windows = done.windows;
    if (done.divergence) {
      full.kl_mean = done.divergence->mean;
      full.kl_standard_error = done.divergence->standard_error;
      full.kl_median = done.divergence->median;
      full.kl_percentile_99 = done.divergence->percentile_99;
      full.kl_maximum = done.divergence->maximum;
      full.same_top = done.divergence->same_top;
      full.base_perplexity = done.divergence->base_perplexity;
      full.probability_rms = done.divergence->probability_rms;
    }
    moonlit::api::WriteSized(full, result->size, result);
    return Status();
  });
}

}  // extern "C"
