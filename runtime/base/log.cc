// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log.h"

#include <cstdarg>
#include <cstdio>

#include "runtime/base/quote.h"

namespace moonlit {
namespace {

thread_local Log* current = nullptr;

}  // namespace

const char* LogLevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "unknown";
}

void Log::Write(LogLevel level, const char* text) {
  if (!receiver_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  receiver_(level, text);
}

LogScope::LogScope(Log* log) : outer_(current) { current = log; }
LogScope::~LogScope() { current = outer_; }

void Logf(LogLevel level, const char* format, ...) {
  if (current == nullptr) return;
  constexpr size_t kMost = 1023;
  char text[kMost + 2];  // with the byte behind a full line, which says whether it ends within a character
  va_list args;
  va_start(args, format);
  const int length = std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  if (length < 0) return;
  text[FrontForMessage(text, kMost).size()] = '\0';
  current->Write(level, text);
}

}  // namespace moonlit
