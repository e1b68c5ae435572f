// SPDX-License-Identifier: Apache-2.0
// Writing model files. Part of moonlit.hpp.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "expected.hpp"
#include "write.h"

namespace moonlit::api {

inline moonlit_write_options WriteOptions() {
  moonlit_write_options options;
  moonlit_write_options_init(&options, sizeof options);
  return options;
}

// See moonlit_quantize.
inline Expected<moonlit_write_result> Quantize(const std::string& in, const std::string& out,
                                               const moonlit_write_options& options = WriteOptions()) {
  moonlit_write_result result = {};
  result.size = sizeof result;
  moonlit_error error = {};
  if (moonlit_quantize(in.c_str(), out.c_str(), &options, &result, &error) != MOONLIT_OK) return MakeError(error);
  return result;
}

// See moonlit_convert.
inline Expected<moonlit_write_result> Convert(const std::string& folder, const std::string& out,
                                              const moonlit_write_options& options = WriteOptions()) {
  moonlit_write_result result = {};
  result.size = sizeof result;
  moonlit_error error = {};
  if (moonlit_convert(folder.c_str(), out.c_str(), &options, &result, &error) != MOONLIT_OK) return MakeError(error);
  return result;
}

// See moonlit_check_output.
inline Error CheckOutput(const std::string& out, std::span<const std::string> inputs) {
  std::vector<const char*> names;
  for (const std::string& input : inputs) names.push_back(input.c_str());
  moonlit_error error = {};
  moonlit_check_output(out.c_str(), names.data(), names.size(), &error);
  return MakeError(error);
}

// For a signal's handler; see moonlit_remove_unfinished_files.
inline void RemoveUnfinishedFiles() { moonlit_remove_unfinished_files(); }

}  // namespace moonlit::api
