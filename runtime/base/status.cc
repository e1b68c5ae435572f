// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/status.h"

#include <cstdarg>
#include <cstdio>

namespace moonlit {

const char* CodeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "ok";
    case Code::kInvalidArgument:
      return "invalid argument";
    case Code::kNotFound:
      return "not found";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kUnsupported:
      return "unsupported";
    case Code::kOutOfMemory:
      return "out of memory";
    case Code::kExhausted:
      return "exhausted";
    case Code::kCancelled:
      return "cancelled";
    case Code::kBusy:
      return "busy";
    case Code::kIo:
      return "input/output error";
    case Code::kInternal:
      return "internal error";
  }
  return "unknown";
}

std::string Status::ToString() const {
  if (ok()) return "ok";
  return std::string(CodeName(rep_->code)) + ": " + rep_->message;
}

Status Status::WithContext(std::string_view where) const {
  if (ok()) return *this;
  return Status(rep_->code, std::string(where) + ": " + rep_->message);
}

std::string FormatMessage(const char* format, va_list args) {
  va_list again;
  va_copy(again, args);
  const int length = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string message(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  if (length > 0) std::vsnprintf(message.data(), message.size() + 1, format, args);
  return message;
}

Status Errorf(Code code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string message = FormatMessage(format, args);
  va_end(args);
  return Status(code, std::move(message));
}

}  // namespace moonlit
