// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/answer.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "tools/cli/command.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/model_flags.h"
#include "tools/cli/progress_line.h"

namespace moonlit::cli {

bool Print(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

int PrintAnswer(api::Session& session, std::span<const int32_t> unread, const moonlit_generate_options& options,
                moonlit_generate_result* result, std::string* text) {
  InterruptGuard guard;
  guard.Watch(session.handle());
  auto progress = std::make_unique<ProgressLine>("prefill");
  auto generated = session.Generate(
      unread, options,
      [&](std::string_view piece) {
        progress.reset();
        if (text != nullptr) *text += piece;
        return Print(piece) && !Interrupted();
      },
      [&](size_t done, size_t total) {
        if (progress) progress->Update(done, total);
      });
  progress.reset();
  guard.Watch(nullptr);
  if (!generated) return Interrupted() ? kInterrupted : Report(generated.error());
  if (!Print("\n")) {
    return Report({MOONLIT_IO, std::string("the text can't be written to standard output: ") + std::strerror(errno)});
  }
  *result = *generated;
  return kOk;
}

}  // namespace moonlit::cli
