// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/bench_naive.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/round.h"
#include "tools/cli/bench_measure.h"

// The compiler may make these loops as wide as the machine. Clang, other systems and sanitizers get the baseline's width.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__GLIBC__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define MOONLIT_WIDEST __attribute__((target_clones("default", "avx2", "avx512f"), noinline))
#else
#define MOONLIT_WIDEST
#endif

namespace moonlit::cli {

// scores[j] += a[0] * k0[j] + ... + a[3] * k3[j], four rows of keys (or of values) at a time.
MOONLIT_WIDEST void AddFourRows(const float* a, const float* rows, size_t stride, size_t n, float* __restrict out) {
  const float a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
  const float *r0 = rows, *r1 = rows + stride, *r2 = rows + 2 * stride, *r3 = rows + 3 * stride;
  for (size_t j = 0; j < n; ++j) out[j] += a0 * r0[j] + a1 * r1[j] + a2 * r2[j] + a3 * r3[j];
}

namespace {

constexpr size_t kRowsPerTask = 8;
constexpr size_t kTablesBytes = size_t{64} << 20;

// out[j] = sum over i < count of a[i] * rows[i][j]
void Combine(const float* a, size_t count, const float* rows, size_t stride, size_t n, float* out) {
  std::fill(out, out + n, 0.0f);
  size_t i = 0;
  for (; i + 4 <= count; i += 4) AddFourRows(a + i, rows + i * stride, stride, n, out);
  for (; i < count; ++i) {
    for (size_t j = 0; j < n; ++j) out[j] += a[i] * rows[i * stride + j];
  }
}

void Softmax(float* row, size_t n, float scale) {
  const float most = *std::max_element(row, row + n);
  float sum = 0;
  for (size_t j = 0; j < n; ++j) sum += row[j] = std::exp(scale * (row[j] - most));
  for (size_t j = 0; j < n; ++j) row[j] /= sum;
}

}  // namespace

Result<NaiveAttention> NaiveAttention::Make(const NaiveShape& shape, const float* keys, const float* values) {
  NaiveAttention naive;
  naive.shape_ = shape;
  naive.values_ = values;
  naive.heads_at_once_ = std::clamp<size_t>(kTablesBytes / shape.table_bytes(), 1, shape.heads);
  MOONLIT_ASSIGN_OR_RETURN(naive.table_,
                           Buffer::Allocate(naive.heads_at_once_ * shape.table_bytes(), "the naive table of scores"));
  naive.keys_.resize(shape.kv_heads * shape.head_dim * shape.context);
  const size_t d = shape.head_dim, n = shape.context;
  for (size_t head = 0; head < shape.kv_heads; ++head) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t i = 0; i < d; ++i) naive.keys_[(head * d + i) * n + j] = keys[(head * n + j) * d + i];
    }
  }
  return naive;
}

void NaiveAttention::Run(ThreadPool& pool, const float* q, size_t q_rows, float scale, float* out) {
  const size_t d = shape_.head_dim, n = shape_.context, stride = shape_.heads * d;
  const size_t tasks = CeilDiv(shape_.tokens, kRowsPerTask);
  for (size_t first_head = 0; first_head < shape_.heads; first_head += heads_at_once_) {
    const size_t heads = std::min(heads_at_once_, shape_.heads - first_head);
    // body(head, i, visible keys, row of the table) for every query i of these heads
    const auto for_rows = [&](auto&& body) {
      ForTasks(pool, heads * tasks, [&](size_t task, size_t) {
        const size_t slot = task / tasks, begin = task % tasks * kRowsPerTask;
        const size_t end = std::min(shape_.tokens, begin + kRowsPerTask);
        float* table = table_.as<float>() + slot * shape_.tokens * n;
        for (size_t i = begin; i < end; ++i) body(first_head + slot, i, n - shape_.tokens + i + 1, table + i * n);
      });
    };
    const size_t group = shape_.heads / shape_.kv_heads;
    for_rows([&](size_t head, size_t i, size_t visible, float* row) {
      Combine(q + i % q_rows * stride + head * d, d, keys_.data() + head / group * d * n, n, visible, row);
    });
    for_rows([&](size_t, size_t, size_t visible, float* row) { Softmax(row, visible, scale); });
    for_rows([&](size_t head, size_t i, size_t visible, const float* row) {
      std::vector<float> result(d);
      Combine(row, visible, values_ + head / group * n * d, d, d, result.data());
      const bool last = i + q_rows >= shape_.tokens;
      if (last) std::copy(result.begin(), result.end(), out + i % q_rows * stride + head * d);
    });
  }
}

}  // namespace moonlit::cli
