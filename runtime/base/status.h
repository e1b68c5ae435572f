// SPDX-License-Identifier: Apache-2.0
// The one way an error travels: Status for "done or why not", Result<T> for "a value or why not". The message is one sentence
// that names where (file, tensor, field), what was expected, what was found and what to do.
//
//   Result<GgufFile> file = GgufFile::Open(path);
//   if (!file.ok()) return file.status();
//   MOONLIT_RETURN_IF_ERROR(Load(file.value()));
//   MOONLIT_ASSIGN_OR_RETURN(auto plan, Plan::Create(graph));
//
// No exception crosses a room's public function: allocation failure becomes kOutOfMemory where memory is sized by input.
#pragma once

#include <cstdarg>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kernels/base/check.h"

namespace moonlit {

enum class Code {
  kOk = 0,
  kInvalidArgument,  // the caller's value is wrong
  kNotFound,         // a file, tensor, key, token that does not exist
  kCorrupt,          // a file breaks its own format
  kUnsupported,      // well formed, but not something this build can do
  kOutOfMemory,
  kExhausted,  // a fixed pool (cache pages, sessions, context) is full
  kCancelled,
  kBusy,      // a single-owner object is in use by another thread
  kIo,        // the operating system said no
  kInternal,  // a bug of ours that was caught
};
const char* CodeName(Code code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(Code code, std::string message) : rep_(std::make_unique<Rep>(Rep{code, std::move(message)})) {}
  Status(const Status& other) : rep_(other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr) {}
  Status& operator=(const Status& other) {
    rep_ = other.rep_ ? std::make_unique<Rep>(*other.rep_) : nullptr;
    return *this;
  }
  Status(Status&&) noexcept = default;
  Status& operator=(Status&&) noexcept = default;

  bool ok() const { return rep_ == nullptr; }
  Code code() const { return rep_ ? rep_->code : Code::kOk; }
  std::string_view message() const { return rep_ ? std::string_view(rep_->message) : std::string_view(); }
  // "not found: file x.gguf: ..." or "ok".
  std::string ToString() const;
  // The same code with "where: " put before the message.
  Status WithContext(std::string_view where) const;

 private:
  struct Rep {
    Code code;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
};

// What printf would print.
std::string FormatMessage(const char* format, va_list args);

// printf-style construction: Status s = Errorf(Code::kCorrupt, "tensor %s: ...", name);
__attribute__((format(printf, 2, 3))) Status Errorf(Code code, const char* format, ...);

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}                                         // NOLINT: implicit on purpose
  Result(Status status) : status_(std::move(status)) { MOONLIT_CHECK(!status_.ok()); }  // NOLINT
  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & {
    MOONLIT_CHECK(ok());
    return *value_;
  }
  const T& value() const& {
    MOONLIT_CHECK(ok());
    return *value_;
  }
  T&& value() && {
    MOONLIT_CHECK(ok());
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

#define MOONLIT_RETURN_IF_ERROR(expression)            \
  do {                                                 \
    ::moonlit::Status moonlit_status_ = (expression);  \
    if (!moonlit_status_.ok()) return moonlit_status_; \
  } while (0)

#define MOONLIT_CONCAT_INNER(a, b) a##b
#define MOONLIT_CONCAT(a, b) MOONLIT_CONCAT_INNER(a, b)
#define MOONLIT_ASSIGN_OR_RETURN(declaration, expression) \
  MOONLIT_ASSIGN_OR_RETURN_IMPL(MOONLIT_CONCAT(moonlit_result_, __LINE__), declaration, expression)
#define MOONLIT_ASSIGN_OR_RETURN_IMPL(result, declaration, expression) \
  auto result = (expression);                                          \
  if (!result.ok()) return result.status();                            \
  declaration = std::move(result).value()

}  // namespace moonlit
