// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/model_flags.h"

#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace moonlit::cli {
double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void ModelFlags::Declare(CLI::App& app, bool runs) {
  app.add_option("-m,--model", model, "GGUF file (any part of a split one), or poet, the model that Moonlit carries")
      ->capture_default_str();
  if (!runs) return;
  app.add_option("-t,--threads", threads, "Threads; 0: one a physical core, within the container's quota")
      ->capture_default_str()
      ->check(CLI::Range(0u, 1024u));
  app.add_option("-c,--ctx-size", n_ctx, "Context in tokens; 0: what the model was trained for, at most 4096")
      ->capture_default_str();
  app.add_option("--ub,--ubatch-size", chunk_tokens, "Tokens of one prefill step")
      ->capture_default_str()
      ->check(CLI::Range(1u, 65536u));
  app.add_option("--ctk,--cache-type-k", key_type,
                 "Type of cached keys: f32, f16, bf16, q8_0, q4_0 (default: best for the CPU)");
  app.add_option("--ctv,--cache-type-v", value_type, "Type of cached values");
  app.add_option("--page-tokens", page_tokens, "Tokens of a cache page, a multiple of 64")->capture_default_str();
  app.add_flag("--exact", exact, "Float activations on dequantized weights: slow, the reference path");
}

moonlit_model_options ModelFlags::ToOptions() const {
  moonlit_model_options options = api::Model::Options();
  options.threads = threads;
  options.n_ctx = n_ctx;
  options.chunk_tokens = chunk_tokens;
  options.page_tokens = page_tokens;
  options.key_type = key_type.empty() ? nullptr : key_type.c_str();
  options.value_type = value_type.empty() ? nullptr : value_type.c_str();
  options.exact = exact ? 1 : 0;
  options.vocab_only = vocab_only ? 1 : 0;
  return options;
}

std::string Printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\x%02x", byte);
    out += byte < 0x20 || byte == 0x7F ? std::string(escaped) : std::string(1, c);
  }
  return out;
}

int Report(const api::Error& error) {
  std::fprintf(stderr, "moonlit: %s\n", Printable(error.message).c_str());
  if (error.code == MOONLIT_CANCELLED) return kInterrupted;
  return error.code == MOONLIT_INVALID_ARGUMENT || error.code == MOONLIT_UNSUPPORTED ? kUsage : kFailed;
}

std::optional<api::Model> LoadModel(const ModelFlags& flags, int* exit_code) {
  ProgressLine line("loading");
  moonlit_model_options options = flags.ToOptions();
  options.progress_user = &line;
  options.progress = [](void* user, uint64_t done, uint64_t total) {
    static_cast<ProgressLine*>(user)->Update(done, total);
    return 0;
  };
  auto model = api::Model::Load(flags.model, options);
  if (!model) {
    *exit_code = Report(model.error());
    return std::nullopt;
  }
  const moonlit_model_info info = model->info();
  if (info.n_ctx_train != 0 && info.n_ctx > info.n_ctx_train) {
    std::fprintf(stderr,
                 "moonlit: warning: the context of %u tokens is longer than the %u that the model was trained for\n",
                 info.n_ctx, info.n_ctx_train);
  }
  return std::move(*model);
}

bool ParseIds(const std::string& list, std::vector<int32_t>* ids) {
  const char* at = list.c_str();
  while (*at != '\0') {
    char* end = nullptr;
    errno = 0;
    const long long id = std::strtoll(at, &end, 10);
    if (end == at || errno != 0 || id < 0 || id > INT32_MAX || (*end != '\0' && *end != ',' && *end != ' ')) {
      std::fprintf(stderr, "moonlit: --ids: expected numbers like 1,5,7, found \"%s\"\n", at);
      return false;
    }
    ids->push_back(static_cast<int32_t>(id));
    at = end;
    while (*at == ',' || *at == ' ') ++at;
  }
  return true;
}

ProgressLine::ProgressLine(const char* what)
    : what_(what), terminal_(isatty(STDERR_FILENO) != 0), started_(NowSeconds()) {}

void ProgressLine::Update(uint64_t done, uint64_t total) {
  if (!terminal_ || total == 0) return;
  const double now = NowSeconds();
  if (now - started_ < 0.3 || (now - drawn_ < 0.1 && done != total)) return;
  drawn_ = now;
  const double share = static_cast<double>(done) / static_cast<double>(total);
  const double left = share > 0 ? (now - started_) * (1 - share) / share : 0;
  std::fprintf(stderr, "\r%s %3.0f%%  %.0f s left \033[K", what_, 100 * share, left);
  std::fflush(stderr);
}

ProgressLine::~ProgressLine() {
  if (drawn_ > 0) std::fprintf(stderr, "\r\033[K");
}

}  // namespace moonlit::cli
