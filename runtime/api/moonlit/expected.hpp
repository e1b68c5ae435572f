// SPDX-License-Identifier: Apache-2.0
// Errors, values that may be one instead, and the version. Part of moonlit.hpp.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base.h"

namespace moonlit::api {

// What a call that gives no value returns. True where there is an error:
//   if (const Error error = session.Truncate(0)) return Report(error);
struct [[nodiscard]] Error {
  moonlit_code code = MOONLIT_OK;
  std::string message;
  explicit operator bool() const { return code != MOONLIT_OK; }
};

// A value or an Error. True where there is a value, which * and -> need; false where there is an error, which error() says.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}      // NOLINT: implicit on purpose
  Expected(Error error) : error_(std::move(error)) {}  // NOLINT
  explicit operator bool() const { return value_.has_value(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Error& error() const { return error_; }

 private:
  std::optional<T> value_;
  Error error_;
};

inline Error MakeError(const moonlit_error& error) { return Error{error.code, error.message}; }

inline const char* Version() { return moonlit_version(); }

}  // namespace moonlit::api
