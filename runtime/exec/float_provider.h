// SPDX-License-Identifier: Apache-2.0
// Who multiplies with F32 weights: our own kernels (kernels/matmul) or XNNPACK (runtime/xnnpack). The choice is a checked-in table
// by kernel variant and shape, float_providers.inc, and so part of a variant's identity: nothing is measured when a program runs.
//
//   FloatProvider provider = ChooseFloatProvider(FloatProviderChoice::kTable, variant, n, k);
//
// XNNPACK is offered where it is built in and has proven its bits (FloatProduct::Available); elsewhere our own kernels stand in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "kernels/cpu/variant.h"
#include "runtime/base/status.h"

namespace moonlit {

enum class FloatProvider : uint8_t { kOwn, kXnnpack };
const char* FloatProviderName(FloatProvider provider);  // "own", "xnnpack"

// What a user may want: the table, or one provider wherever it can serve.
enum class FloatProviderChoice : uint8_t { kTable, kOwn, kXnnpack };

// One line of the table: XNNPACK carries weights [n, k] of this variant with n and k in these ranges, ends included.
struct FloatProviderRow {
  Variant variant;
  size_t least_outputs, most_outputs;  // n
  size_t least_inputs, most_inputs;    // k
  const char* reason;                  // what was measured, on which processor
  bool Fits(size_t n, size_t k) const {
    return n >= least_outputs && n <= most_outputs && k >= least_inputs && k <= most_inputs;
  }
};
std::span<const FloatProviderRow> FloatProviderTable();

// MOONLIT_FLOAT_PROVIDER's rule: an empty name means the environment's, else the table; "own" and "xnnpack" force one. Another
// name is kInvalidArgument; "xnnpack" where it is not offered is kUnsupported and says why.
Result<FloatProviderChoice> ResolveFloatProvider(const std::string& name);

// The provider of a matrix [n, k]. Pure but for Available. REQUIRES: kXnnpack is only asked for where it is available.
FloatProvider ChooseFloatProvider(FloatProviderChoice choice, Variant variant, size_t n, size_t k);

}  // namespace moonlit
