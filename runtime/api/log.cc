// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/log.h"

#include "runtime/api/handles.h"

namespace moonlit::api {

static_assert(static_cast<int>(LogLevel::kDebug) == MOONLIT_LOG_DEBUG &&
                  static_cast<int>(LogLevel::kError) == MOONLIT_LOG_ERROR,
              "moonlit_log_level repeats LogLevel");

Log::Receiver ToReceiver(moonlit_log_fn receiver, void* user) {
  if (receiver == nullptr) return {};
  return [receiver, user](LogLevel level, const char* text) {
    receiver(user, static_cast<moonlit_log_level>(level), text);
  };
}

}  // namespace moonlit::api
