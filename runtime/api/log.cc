// SPDX-License-Identifier: Apache-2.0
// moonlit_set_log: the C face of the one log sink.
#include "runtime/base/log.h"

#include <mutex>

#include "runtime/api/moonlit.h"

namespace moonlit {
namespace {

static_assert(static_cast<int>(LogLevel::kDebug) == MOONLIT_LOG_DEBUG &&
                  static_cast<int>(LogLevel::kError) == MOONLIT_LOG_ERROR,
              "moonlit_log_level repeats LogLevel");

struct Receiver {
  moonlit_log_fn call = nullptr;
  void* user = nullptr;
};

// Only changed while no sink is set, only read by the sink.
Receiver receiver;
std::mutex setting;

void Forward(void*, LogLevel level, const char* text) {
  receiver.call(receiver.user, static_cast<moonlit_log_level>(level), text);
}

}  // namespace
}  // namespace moonlit

extern "C" void moonlit_set_log(moonlit_log_fn call, void* user) {
  const std::lock_guard<std::mutex> lock(moonlit::setting);
  moonlit::SetLogSink(nullptr, nullptr);
  moonlit::receiver = {call, user};
  if (call != nullptr) moonlit::SetLogSink(&moonlit::Forward, nullptr);
}
