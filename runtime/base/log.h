// SPDX-License-Identifier: Apache-2.0
// The library never prints. What a user may want to know but that is no error (a file that bends a rule, a variant chosen) goes
// to one sink, which the program sets; until then it is dropped.
//
//   SetLogSink([](void*, LogLevel level, const char* text) { fprintf(stderr, "%s: %s\n", LogLevelName(level), text); }, nullptr);
//   Logf(LogLevel::kWarning, "%s: tensor %s is not aligned", path, name);
#pragma once

namespace moonlit {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
const char* LogLevelName(LogLevel level);  // "debug", "info", "warning", "error"

// `text` is one line without a newline, valid during the call. Calls come one at a time, from any thread; a sink must not log.
using LogSink = void (*)(void* user, LogLevel level, const char* text);

// Null drops everything (the default). When it returns, no call into the old sink is running or will start. Thread safe.
void SetLogSink(LogSink sink, void* user);

// printf-style; lines beyond 1023 bytes are cut. Thread safe.
__attribute__((format(printf, 2, 3))) void Logf(LogLevel level, const char* format, ...);

}  // namespace moonlit
