// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/model_flags.h"

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "tools/cli/interrupt.h"
#include "tools/cli/progress_line.h"

namespace moonlit::cli {
double NowSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

namespace {

constexpr uint32_t kMostContext = 1u << 24;

// After the range, so the text is a number.
CLI::Validator IsMultipleOf64() {
  const auto fault = [](std::string& text) {
    return std::strtoul(text.c_str(), nullptr, 10) % 64 == 0 ? "" : "Value " + text + " is no multiple of 64";
  };
  return CLI::Validator(fault, "");
}

// After the range, so the text is a number.
CLI::Validator IsNotOne() {
  const auto fault = [](std::string& text) {
    return std::strtoul(text.c_str(), nullptr, 10) == 1 ? "Value 1 is too small: expected at least 2, or 0" : "";
  };
  return CLI::Validator(fault, "");
}

}  // namespace

CLI::Validator IsCacheType() {
  // Without its list in --help: the flag's own line has it.
  return CLI::IsMember({"f32", "f16", "bf16", "q8_0", "q4_0"}, CLI::ignore_case).description("");
}

CLI::Validator IsNotEmpty() {
  return CLI::Validator([](std::string& text) { return text.empty() ? "expected some text, found none" : ""; }, "");
}

CLI::Validator IsNumberIn(double least, double most) {
  char range[64];
  std::snprintf(range, sizeof range, "[%g - %g]", least, most);
  const auto fault = [least, most, range = std::string(range)](std::string& text) {
    double value = 0;
    const bool inside = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return inside ? "" : "Value " + text + " not in range " + range;
  };
  return CLI::Validator(fault, std::string("FLOAT in ") + range);
}

void ModelFlags::Declare(CLI::App& app, bool runs) {
  app.add_option(
         "-m,--model", model,
         "GGUF file (any part of a split one), Hugging Face folder, poet, the model that Moonlit carries, or a name "
         "such as smollm2 (moonlit doctor lists those that are there)")
      ->capture_default_str();
  app.add_option(
         "--pre", pre_tokenizer,
         "Pre-tokenizer by name (qwen2, llama-bpe, ...), in place of what the files say; SentencePiece and WordPiece "
         "have none, and leave it unread")
      ->check(IsNotEmpty());
  if (!runs) return;
  app.add_option("-t,--threads", threads, "Threads; 0: one a physical core, within the container's quota")
      ->capture_default_str()
      ->check(CLI::Range(0u, 1024u));
  app.add_option("--ctx-size,-c", n_ctx, "Context in tokens; 0: what the model was trained for, at most 4096")
      ->capture_default_str()
      ->check(CLI::Range(0u, kMostContext));
  app.add_option("--ubatch-size,--ub", chunk_tokens, "Tokens of one prefill step")
      ->capture_default_str()
      ->check(CLI::Range(1u, 65536u));
  app.add_option("--cache-type-k,--ctk", key_type,
                 "Type of cached keys: f32, f16, bf16, q8_0, q4_0 (default: best for the CPU)")
      ->check(IsCacheType());
  app.add_option("--cache-type-v,--ctv", value_type, "Type of cached values")->check(IsCacheType());
  app.add_option("--page-tokens", page_tokens, "Tokens of a cache page, a multiple of 64")
      ->capture_default_str()
      ->check(CLI::Range(64u, 65536u))
      ->check(IsMultipleOf64());
  app.add_option("--packed-cache", packed_cache,
                 "Folder that keeps the packed weights, for a faster load the next time")
      ->check(CLI::ExistingDirectory);
  app.add_option("--quantize", quantize,
                 "Quantize F32, F16 or BF16 weights while loading: Q8_0, Q4_K_M, ... (moonlit quantize lists them)")
      ->check(IsNotEmpty());
  DeclareSparse(app);
  app.add_flag("--exact", exact, "Float activations on dequantized weights: slow, the reference path");
}

void ModelFlags::DeclareSparse(CLI::App& app) {
  CLI::Option* window = app.add_option("--attention-window", attention_window,
                                       "Sparse attention: tokens see so many latest ones and the sinks; 0: all")
                            ->capture_default_str()
                            ->check(CLI::Range(0u, kMostContext));
  app.add_option("--attention-sinks", attention_sinks,
                 "First tokens that are seen beside the window, rounded up to 64, at most a page")
      ->capture_default_str()
      ->check(CLI::Range(0u, 65536u))
      ->needs(window);
  app.add_option(
         "--attention-pages", attention_pages,
         "Sparse attention: a generated token reads the first, the latest and the likeliest pages of the cache, "
         "so many in all (at least 2); 0: all")
      ->capture_default_str()
      ->check(CLI::Range(0u, kMostContext))
      ->check(IsNotOne())
      ->excludes(window);
}

moonlit_model_options ModelFlags::ToOptions() const {
  moonlit_model_options options = api::Model::Options();
  options.threads = threads;
  options.n_ctx = n_ctx;
  options.default_ctx = default_ctx;
  options.chunk_tokens = chunk_tokens;
  options.page_tokens = page_tokens;
  options.key_type = key_type.empty() ? nullptr : key_type.c_str();
  options.value_type = value_type.empty() ? nullptr : value_type.c_str();
  options.exact = exact ? 1 : 0;
  options.quantize = quantize.empty() ? nullptr : quantize.c_str();
  options.pre_tokenizer = pre_tokenizer.empty() ? nullptr : pre_tokenizer.c_str();
  options.attention_window = attention_window;
  options.attention_sinks = attention_sinks;
  options.attention_pages = attention_pages;
  options.packed_cache = packed_cache.empty() ? nullptr : packed_cache.c_str();
  options.vocab_only = vocab_only ? 1 : 0;
  options.share_prefixes = share_prefixes ? 1 : 0;
  options.max_sessions = max_sessions;
  options.log = &PrintLog;
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

void PrintLog(void*, moonlit_log_level level, const char* text) {
  if (level < MOONLIT_LOG_WARNING) return;
  std::fprintf(stderr, "moonlit: %s: %s\n", level == MOONLIT_LOG_ERROR ? "error" : "warning", Printable(text).c_str());
}

int Report(const api::Error& error) {
  std::fprintf(stderr, "moonlit: %s\n", Printable(error.message).c_str());
  if (error.code == MOONLIT_CANCELLED) return kInterrupted;
  return error.code == MOONLIT_INVALID_ARGUMENT || error.code == MOONLIT_UNSUPPORTED ? kUsage : kFailed;
}

int CheckContext(const api::Model& model, size_t needed, const std::string& what) {
  const size_t held = model.info().n_ctx;
  if (needed <= held) return kOk;
  return Report({MOONLIT_EXHAUSTED, what + " needs " + std::to_string(needed) + " tokens, but the context holds " +
                                        std::to_string(held) + ": shorten it or give a larger -c/--ctx-size"});
}

namespace {

// The line has ended when this returns, before anything else is printed.
api::Expected<api::Model> LoadWithProgress(const ModelFlags& flags) {
  ProgressLine line("loading");
  moonlit_model_options options = flags.ToOptions();
  options.progress_user = &line;
  options.progress = [](void* user, uint64_t done, uint64_t total) {
    static_cast<ProgressLine*>(user)->Update(done, total);
    return Interrupted() ? 1 : 0;
  };
  return api::Model::Load(flags.model, options);
}

}  // namespace

std::optional<api::Model> LoadModel(const ModelFlags& flags, int* exit_code) {
  auto model = LoadWithProgress(flags);
  if (!model) {
    *exit_code = Report(model.error());
    return std::nullopt;
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

}  // namespace moonlit::cli
