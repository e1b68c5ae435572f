// SPDX-License-Identifier: Apache-2.0
#include "tests/linear_attention/fixture.h"

#include <math.h>
#include <string.h>

#include <algorithm>
#include <memory>

#include "kernels/linear_attention/reference.h"

namespace moonlit {
namespace {

// 64-byte aligned floats, filled with one byte.
class Scratch {
 public:
  Scratch(size_t bytes, uint8_t byte) : memory_(bytes + 63) {
    void* at = memory_.data();
    size_t space = memory_.size();
    data_ = std::align(64, bytes, at, space);
    memset(data_, byte, bytes);
  }
  float* floats() const { return static_cast<float*>(data_); }

 private:
  std::vector<uint8_t> memory_;
  void* data_;
};

double Norm(const std::vector<double>& x, size_t first, size_t n) {
  double squares = 0;
  for (size_t i = first; i < first + n; ++i) squares += x[i] * x[i];
  return sqrt(squares);
}

}  // namespace

const char* KindName(Kind kind) { return kind == Kind::kLinear ? "linear attention" : "gated delta rule"; }

Problem RandomProblem(Kind kind, size_t tokens, size_t key_dim, size_t value_dim, uint32_t seed) {
  Problem p;
  p.kind = kind;
  p.tokens = tokens;
  p.key_dim = key_dim;
  p.value_dim = value_dim;
  p.q = RandomFloats(tokens * key_dim, seed);
  p.k = RandomFloats(tokens * key_dim, seed + 1);
  p.v = RandomFloats(tokens * value_dim, seed + 2);
  p.decay = RandomFloats(tokens, seed + 3, 0.1f, -0.1f);
  p.beta = RandomFloats(tokens, seed + 4, 0.5f, 0.5f);
  p.scale = 1.0f / sqrtf(static_cast<float>(key_dim));
  p.eps = 1e-6f;
  return p;
}

Outcome RunHead(Variant variant, const Problem& p, const RunOptions& options) {
  Outcome outcome;
  outcome.out.resize(p.tokens * p.value_dim);
  const bool delta = p.kind == Kind::kDelta;
  outcome.state.resize(delta ? DeltaStateFloats(p.key_dim, p.value_dim) : LinearStateFloats(p.key_dim, p.value_dim));
  std::vector<size_t> calls = options.cuts;
  size_t named = 0;
  for (size_t call : calls) named += call;
  if (named < p.tokens) calls.push_back(p.tokens - named);
  const LinearAttentionTable& table = GetLinearAttentionTable(variant);
  size_t t = 0;
  for (size_t call : calls) {
    const Scratch scratch(RecurrentScratchBytes(p.key_dim, p.value_dim), options.scratch_byte);
    RecurrentArgs args = {};
    args.tokens = call;
    args.position = options.position + static_cast<int64_t>(t);
    args.key_dim = p.key_dim, args.value_dim = p.value_dim;
    args.q = p.q.data() + t * p.key_dim, args.q_stride = p.key_dim;
    args.k = p.k.data() + t * p.key_dim, args.k_stride = p.key_dim;
    args.v = p.v.data() + t * p.value_dim, args.v_stride = p.value_dim;
    args.out = outcome.out.data() + t * p.value_dim, args.out_stride = p.value_dim;
    args.state = outcome.state.data();
    args.scratch = scratch.floats();
    args.steps_only = options.steps_only;
    args.eps = p.eps;
    args.decay = p.decay.data() + t, args.beta = p.beta.data() + t, args.gate_stride = 1;
    args.normalise = p.normalise;
    args.scale = p.scale;
    (delta ? table.gated_delta : table.linear_attention)(args);
    t += call;
  }
  EXPECT_EQ(t, p.tokens);
  return outcome;
}

Reference Expected(const Problem& p) {
  Reference reference;
  reference.out.resize(p.tokens * p.value_dim);
  reference.state.resize(p.key_dim * p.value_dim);
  std::vector<double> sums(p.key_dim);
  const ReferenceRecurrence head = {.key_dim = p.key_dim,
                                    .value_dim = p.value_dim,
                                    .eps = static_cast<double>(p.eps),
                                    .normalise = p.normalise,
                                    .scale = static_cast<double>(p.scale),
                                    .state = reference.state.data(),
                                    .sums = sums.data()};
  if (p.kind == Kind::kDelta) {
    ReferenceGatedDelta(head, p.tokens, p.q.data(), p.k.data(), p.v.data(), p.decay.data(), p.beta.data(),
                        reference.out.data());
  } else {
    ReferenceLinearAttention(head, p.tokens, p.q.data(), p.k.data(), p.v.data(), reference.out.data());
  }
  return reference;
}

Errors OutputErrors(const Problem& p, const std::vector<float>& out, const std::vector<double>& expected) {
  Errors errors;
  const std::vector<double> values(p.v.begin(), p.v.end());
  const double tokens = static_cast<double>(p.tokens);
  for (size_t t = 0; t < p.tokens; ++t) {
    const double usual = p.kind == Kind::kDelta
                             ? Norm(expected, 0, expected.size()) / sqrt(tokens)
                             : Norm(values, 0, values.size()) / sqrt(tokens * static_cast<double>(t + 1));
    double squares = 0;
    for (size_t i = t * p.value_dim; i < (t + 1) * p.value_dim; ++i) {
      if (!isfinite(out[i])) return {kInf, kInf};
      squares += (static_cast<double>(out[i]) - expected[i]) * (static_cast<double>(out[i]) - expected[i]);
    }
    const double size = std::max(usual, Norm(expected, t * p.value_dim, p.value_dim));
    const double error = squares == 0 ? 0 : sqrt(squares) / size;
    errors.mean += error / tokens;
    errors.worst = std::max(errors.worst, error);
  }
  return errors;
}

double StateError(const Problem& p, const std::vector<float>& state, const std::vector<double>& expected) {
  double squares = 0;
  for (size_t d = 0; d < p.key_dim; ++d) {
    for (size_t j = 0; j < p.value_dim; ++j) {
      const double found = static_cast<double>(state[d * RecurrentPadded(p.value_dim) + j]);
      squares += (found - expected[d * p.value_dim + j]) * (found - expected[d * p.value_dim + j]);
    }
  }
  return squares == 0 ? 0 : sqrt(squares) / Norm(expected, 0, expected.size());
}

double Difference(const Problem& p, const Outcome& a, const Outcome& b) {
  const std::vector<double> out(b.out.begin(), b.out.end());
  return OutputErrors(p, a.out, out).worst;
}

double Bound(const Problem& p) { return static_cast<double>(2 * p.key_dim + 2 * kRecurrentChunk + 16) * kUnit; }

std::string Describe(Variant variant, const Problem& p) {
  return std::string(VariantName(variant)) + " " + KindName(p.kind) + " of " + std::to_string(p.tokens) +
         " tokens, heads of " + std::to_string(p.key_dim) + ", " + std::to_string(p.value_dim);
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace moonlit
