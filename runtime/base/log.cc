// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log.h"

#include <cstdarg>
#include <cstdio>
#include <mutex>

namespace moonlit {
namespace {

struct Sink {
  std::mutex mutex;
  LogSink function = nullptr;
  void* user = nullptr;
};

// Never destroyed: threads may still log while the program ends.
Sink& TheSink() {
  static Sink* sink = new Sink;
  return *sink;
}

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

void SetLogSink(LogSink sink, void* user) {
  Sink& the_sink = TheSink();
  std::lock_guard<std::mutex> lock(the_sink.mutex);
  the_sink.function = sink;
  the_sink.user = user;
}

void Logf(LogLevel level, const char* format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  const int length = std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  if (length < 0) return;
  Sink& the_sink = TheSink();
  std::lock_guard<std::mutex> lock(the_sink.mutex);
  if (the_sink.function != nullptr) the_sink.function(the_sink.user, level, text);
}

}  // namespace moonlit
