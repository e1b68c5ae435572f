// SPDX-License-Identifier: Apache-2.0
// The flags that every command with a model has, declared once, and loading with a progress line.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/api/moonlit.hpp"
#include "tools/cli/command.h"

namespace moonlit::cli {

struct ModelFlags {
  std::string model = "poet";
  uint32_t threads = 0;
  uint32_t n_ctx = 0;
  uint32_t default_ctx = 4096;  // at most, with n_ctx 0
  uint32_t chunk_tokens = 512;
  uint32_t page_tokens = 64;
  std::string key_type;  // empty: the default for the CPU
  std::string value_type;
  bool exact = false;
  std::string packed_cache;   // empty: none
  std::string quantize;       // empty: weights stay as they are
  std::string pre_tokenizer;  // empty: as the model's files say
  uint32_t attention_window = 0, attention_sinks = 0, attention_pages = 0;
  bool vocab_only = false;
  bool share_prefixes = true;
  uint32_t max_sessions = 1;

  // `runs`: the command evaluates tokens (threads, context, cache); otherwise only -m is declared.
  void Declare(CLI::App& app, bool runs);
  // --attention-window, --attention-sinks, --attention-pages; Declare calls it where `runs`.
  void DeclareSparse(CLI::App& app);
  moonlit_model_options ToOptions() const;
};

// Names of cache types, in any case.
CLI::Validator IsCacheType();
// An empty value would count as none, which was not meant.
CLI::Validator IsNotEmpty();

// CLI::Range that NaN is not in, either.
CLI::Validator IsNumberIn(double least, double most);

// Loads and reports failure on stderr; *exit_code says what to return when the result is empty.
std::optional<api::Model> LoadModel(const ModelFlags& flags, int* exit_code);

// Text that may come from a file, for a terminal: control bytes as \xHH, so that none can move the cursor or forge a line.
std::string Printable(std::string_view text);

// The command's log: warnings and errors, on stderr.
void PrintLog(void*, moonlit_log_level level, const char* text);

// kOk when the model's context holds `needed` tokens; else says so on stderr, with `what` they are ("the prompt"), and gives the exit
// code.
int CheckContext(const api::Model& model, size_t needed, const std::string& what);

// "moonlit: <message>" on stderr and the exit code for it.
int Report(const api::Error& error);

// "1,5,7" -> ids; false after reporting on stderr.
bool ParseIds(const std::string& list, std::vector<int32_t>* ids);

double NowSeconds();

}  // namespace moonlit::cli
