// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/write_flags.h"

#include <cinttypes>
#include <cstdio>

#include "tools/cli/interrupt.h"
#include "tools/cli/model_flags.h"
#include "tools/cli/progress_line.h"

namespace moonlit::cli {

void WriteFlags::Declare(CLI::App& app) {
  app.add_option("--imatrix", imatrix, "Importance matrix that llama-imatrix made (either of its formats)")
      ->check(CLI::ExistingFile);
  app.add_flag("--pure", pure, "No mixture: every matrix in the type's own format");
  app.add_option("-t,--threads", threads, "Threads; 0: one a physical core. The file is the same for any number")
      ->capture_default_str()
      ->check(CLI::Range(0u, 1024u));
}

moonlit_write_options WriteFlags::ToOptions() const {
  moonlit_write_options options;
  moonlit_write_options_init(&options, sizeof options);
  options.type = type.empty() ? nullptr : type.c_str();
  options.imatrix = imatrix.empty() ? nullptr : imatrix.c_str();
  options.threads = threads;
  options.pure = pure ? 1 : 0;
  options.log = &PrintLog;
  return options;
}

int RunWrite(const char* what, const std::string& out, moonlit_write_options options, const WriteCall& write) {
  moonlit_write_result result = {};
  result.size = sizeof result;
  moonlit_error error = {};
  {
    InterruptGuard guard;
    ProgressLine line(what);
    options.user = &line;
    options.progress = [](void* user, uint64_t done, uint64_t total) {
      static_cast<ProgressLine*>(user)->Update(done, total);
      return Interrupted() ? 1 : 0;
    };
    (void)write(&options, &result, &error);
  }
  if (error.code != MOONLIT_OK) return Report(api::MakeError(error));
  const double bits =
      result.parameters == 0 ? 0 : 8.0 * static_cast<double>(result.bytes) / static_cast<double>(result.parameters);
  std::printf("%s: %" PRIu64 " tensors, %" PRIu64 " parameters, %.1f MB of weights (%.1f before), %.2f bits a weight\n",
              Printable(out).c_str(), result.tensors, result.parameters, static_cast<double>(result.bytes) / 1e6,
              static_cast<double>(result.source_bytes) / 1e6, bits);
  if (result.fallbacks != 0) {
    std::printf("%" PRIu64
                " tensors have rows that are no multiple of the type's block and got the nearest format that fits\n",
                result.fallbacks);
  }
  return kOk;
}

}  // namespace moonlit::cli
