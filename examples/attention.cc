// SPDX-License-Identifier: Apache-2.0
// Fused attention over plain arrays, without the rest of the runtime: kernels/attention/strided.h alone. 300 tokens of 8 query
// heads on 2 KV heads, causal, shared out over two threads, beside the formula written as it reads.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "kernels/attention/strided.h"

namespace {

constexpr size_t kTokens = 300, kHeads = 8, kKvHeads = 2, kDim = 64;

std::vector<float> RandomRows(size_t heads, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> rows(kTokens * heads * kDim);
  for (float& x : rows) x = normal(generator);
  return rows;
}

// softmax(q . k / sqrt(dim)) v of one query, in double.
std::vector<double> Formula(const float* q, const float* k, const float* v, size_t keys) {
  std::vector<double> out(kDim);
  double sum = 0;
  for (size_t j = 0; j < keys; ++j) {
    double dot = 0;
    for (size_t i = 0; i < kDim; ++i) dot += static_cast<double>(q[i]) * k[j * kKvHeads * kDim + i];
    const double weight = std::exp(dot / std::sqrt(static_cast<double>(kDim)));
    sum += weight;
    for (size_t i = 0; i < kDim; ++i) out[i] += weight * v[j * kKvHeads * kDim + i];
  }
  for (double& x : out) x /= sum;
  return out;
}

}  // namespace

int main() {
  const std::vector<float> q = RandomRows(kHeads, 1), k = RandomRows(kKvHeads, 2), v = RandomRows(kKvHeads, 3);
  std::vector<float> out(q.size());

  moonlit::StridedAttentionArgs args = {};
  args.variant = moonlit::SelectVariant(moonlit::CpuFeatures());
  args.tokens = args.context = kTokens;
  args.heads = kHeads, args.kv_heads = kKvHeads;
  args.key_dim = args.value_dim = kDim;
  args.q = {q.data(), moonlit::ElementType::kF32, kHeads * kDim, kDim};
  args.k = {k.data(), moonlit::ElementType::kF32, kKvHeads * kDim, kDim};
  args.v = {v.data(), moonlit::ElementType::kF32, kKvHeads * kDim, kDim};
  args.out = out.data();
  args.out_token_stride = kHeads * kDim, args.out_head_stride = kDim;
  args.key_type = args.value_type = moonlit::CacheType::kF32;
  args.scale = 1 / std::sqrt(static_cast<float>(kDim));
  args.causal = true;
  if (const char* fault = moonlit::CheckStridedAttention(args)) return std::fprintf(stderr, "%s\n", fault), 1;

  // Every second task on a thread of its own, with scratch of its own.
  const auto run = [&](size_t first) {
    const size_t bytes = (moonlit::StridedAttentionScratchBytes(args) + 63) / 64 * 64;
    void* scratch = std::aligned_alloc(64, bytes);
    const size_t tasks = moonlit::StridedAttentionTasks(args);
    for (size_t task = first; scratch != nullptr && task < tasks; task += 2) {
      moonlit::RunStridedAttentionTask(args, task, scratch);
    }
    std::free(scratch);
  };
  std::thread other(run, 1);
  run(0);
  other.join();

  double error = 0, norm = 0;
  for (size_t t = 0; t < kTokens; ++t) {
    for (size_t h = 0; h < kHeads; ++h) {
      const size_t kv = h / (kHeads / kKvHeads) * kDim, at = (t * kHeads + h) * kDim;
      const std::vector<double> expected = Formula(&q[at], &k[kv], &v[kv], t + 1);
      for (size_t i = 0; i < kDim; ++i) {
        error += (out[at + i] - expected[i]) * (out[at + i] - expected[i]);
        norm += expected[i] * expected[i];
      }
    }
  }
  const double relative = std::sqrt(error / norm);
  std::printf("%s: %zu tokens, relative error %.2g: %s\n", moonlit::VariantName(args.variant), kTokens, relative,
              relative < 2e-6 ? "right" : "wrong");
  return relative < 2e-6 ? 0 : 1;
}
