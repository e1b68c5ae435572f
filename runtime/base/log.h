// SPDX-License-Identifier: Apache-2.0
// The library never prints. What a user may want to know but that is no error (a file that bends a rule, a cache that does not
// serve) goes to the log of the call that found it; without one it is dropped. Nothing is process-wide: a log belongs to a model,
// or to one call, and a thread writes to it while a scope is open there.
//
//   Log log([](LogLevel level, const char* text) { fprintf(stderr, "%s: %s\n", LogLevelName(level), text); });
//   const LogScope scope(&log);                                          // this thread's log from here to the end of the block
//   Logf(LogLevel::kWarning, "%s: tensor %s is not aligned", path, name);
//
// Threads of a pool have no log: what a task finds travels in its Status.
#pragma once

#include <functional>
#include <mutex>
#include <utility>

namespace moonlit {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
const char* LogLevelName(LogLevel level);  // "debug", "info", "warning", "error"

class Log {
 public:
  // `text` is one line without a newline, valid during the call. Calls come one at a time, from any thread; a receiver must not log.
  using Receiver = std::function<void(LogLevel level, const char* text)>;
  explicit Log(Receiver receiver = {}) : receiver_(std::move(receiver)) {}  // empty: drops everything
  void Write(LogLevel level, const char* text);                             // thread safe

 private:
  std::mutex mutex_;
  const Receiver receiver_;
};

// Makes `log` (null: nobody) the calling thread's log, and on its end what was before. Scopes of one thread end in reverse order.
class LogScope {
 public:
  explicit LogScope(Log* log);
  ~LogScope();
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  Log* const outer_;
};

// printf-style, to the calling thread's log; lines beyond 1023 bytes are cut. Thread safe.
__attribute__((format(printf, 2, 3))) void Logf(LogLevel level, const char* format, ...);

}  // namespace moonlit
