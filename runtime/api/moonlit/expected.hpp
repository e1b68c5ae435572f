// SPDX-License-Identifier: Apache-2.0
// Errors, values that may be one instead, and the version. Part of moonlit.hpp.
#pragma once

#include <cstddef>
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

// The result of a function that writes into the caller's array and says how much there is: call(data, capacity, &count, &error), made
// again with as much room until all of it fits. `first`: elements to begin with.
template <typename Values, typename Call>
Expected<Values> Filled(size_t first, const Call& call) {
  Values values;
  for (size_t room = first;;) {
    values.resize(room);
    moonlit_error error = {};
    if (call(values.data(), values.size(), &room, &error) != MOONLIT_OK) return MakeError(error);
    const bool fits = room <= values.size();
    if (!fits) continue;
    values.resize(room);
    return values;
  }
}

inline const char* Version() { return moonlit_version(); }

}  // namespace moonlit::api
