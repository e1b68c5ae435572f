// SPDX-License-Identifier: Apache-2.0
// Errors, and values that may be one instead. Part of moonlit.hpp.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "base.h"

namespace moonlit::api {

struct Error {
  moonlit_code code = MOONLIT_OK;
  std::string message;
};

// A value or an Error.
template <typename T>
class [[nodiscard]] Expected {
 public:
  Expected(T value) : value_(std::move(value)) {}      // NOLINT: implicit on purpose
  Expected(Error error) : error_(std::move(error)) {}  // NOLINT
  explicit operator bool() const { return value_.has_value(); }
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }
  const Error& error() const { return error_; }

 private:
  std::optional<T> value_;
  Error error_;
};

inline Error MakeError(const moonlit_error& error) { return Error{error.code, error.message}; }

}  // namespace moonlit::api
