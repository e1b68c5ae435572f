// SPDX-License-Identifier: Apache-2.0
// Problems of one head, ways to run the kernels on them, and what float64 says.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/linear_attention/linear_attention.h"
#include "tests/smallops/variants.h"

namespace moonlit {

enum class Kind { kLinear, kDelta };
inline constexpr Kind kKinds[] = {Kind::kLinear, Kind::kDelta};
const char* KindName(Kind kind);

struct Problem {
  Kind kind;
  size_t tokens, key_dim, value_dim;
  std::vector<float> q, k, v;      // dense rows
  std::vector<float> decay, beta;  // [tokens]; the delta rule's
  bool normalise = true;
  float scale, eps;
};

// Keys, queries and values in [-1, 1), decays in (-0.2, 0], beta in [0, 1).
Problem RandomProblem(Kind kind, size_t tokens, size_t key_dim, size_t value_dim, uint32_t seed);

struct Outcome {
  std::vector<float> out;    // [tokens, value_dim]
  std::vector<float> state;  // as the kernel has it
};

struct RunOptions {
  std::vector<size_t> cuts = {};  // tokens of the calls; what is left is one more call
  bool steps_only = false;
  int64_t position = 0;
  uint8_t scratch_byte = 0xFF;  // what the scratch is filled with before every call: NaNs
};
Outcome RunHead(Variant variant, const Problem& problem, const RunOptions& options = {});

struct Reference {
  std::vector<double> out;
  std::vector<double> state;  // [key_dim, value_dim]
};
Reference Expected(const Problem& problem);

struct Errors {
  double mean = 0, worst = 0;
};
// Of rows: |out - ref| over |ref| or, since a row may nearly vanish, over its usual size where that is larger: for the delta rule the root
// of the mean square of all |ref|, for linear attention that of a value over the root of how many are averaged. Infinite for
// an output that is not finite.
Errors OutputErrors(const Problem& problem, const std::vector<float>& out, const std::vector<double>& expected);
// |S - ref| / |ref| over the whole matrix.
double StateError(const Problem& problem, const std::vector<float>& state, const std::vector<double>& expected);
// The same between two outcomes.
double Difference(const Problem& problem, const Outcome& a, const Outcome& b);

// As many roundings as an output of a chunk depends on one after the other, each at its worst and none ever decayed: products with the keys,
// with the state, with the chunk's values, and some for exp, norm and weights.
double Bound(const Problem& problem);

// The numeric contract's bound between forms (docs/design.md).
inline constexpr double kBetweenForms = 1e-4;

std::string Describe(Variant variant, const Problem& problem);
bool SameBits(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace moonlit
