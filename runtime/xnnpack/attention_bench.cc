// SPDX-License-Identifier: Apache-2.0
// How long XNNPACK's scaled-dot-product operator takes for attention of `tokens` queries over `context` keys, causal, float32:
//
//   xnnpack_attention TOKENS CONTEXT HEADS KV_HEADS HEAD_DIM THREADS SECONDS COLD_MIB
//
// prints the best time in milliseconds. The operator knows one key head for all query heads or one for each, so a KV head and
// its query heads are a batch of it. The mask is a table of tokens x context floats that it adds. Copies of keys and values take
// turns until they are COLD_MIB MiB. tools/bench/compare_sdpa.py runs it.
#include <pthreadpool.h>
#include <xnnpack.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <vector>

namespace {

struct Shape {
  size_t tokens, context, heads, kv_heads, head_dim;
};

std::vector<float> Values(size_t count) {
  std::vector<float> values(count + XNN_EXTRA_BYTES / sizeof(float));
  uint32_t state = 1;
  for (float& v : values) {
    state = state * 1664525u + 1013904223u;
    v = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  return values;
}

std::vector<float> CausalMask(const Shape& s) {
  std::vector<float> mask(s.tokens * s.context, 0.0f);
  for (size_t t = 0; t < s.tokens; ++t) {
    const size_t visible = s.context - s.tokens + t + 1;
    std::fill(mask.begin() + static_cast<ptrdiff_t>(t * s.context + visible),
              mask.begin() + static_cast<ptrdiff_t>((t + 1) * s.context), -std::numeric_limits<float>::infinity());
  }
  return mask;
}

void Check(xnn_status status, const char* what) {
  if (status == xnn_status_success) return;
  std::fprintf(stderr, "xnnpack_attention: %s fails with status %d\n", what, static_cast<int>(status));
  std::exit(1);
}

double BestMilliseconds(const Shape& s, pthreadpool_t pool, double seconds, size_t cold_bytes) {
  xnn_operator_t op = nullptr;
  Check(xnn_create_scaled_dot_product_attention_nhtc_f32(xnn_attention_logits_cap_type_none, nullptr, 0, &op),
        "create");
  size_t workspace_bytes = 0, alignment = 0;
  Check(xnn_reshape_scaled_dot_product_attention_nhtc_f32(op, s.kv_heads, s.heads / s.kv_heads, s.tokens, 1, s.context,
                                                          s.head_dim, s.head_dim, &workspace_bytes, &alignment, pool),
        "reshape");
  void* workspace = std::aligned_alloc(std::max<size_t>(alignment, 64), (workspace_bytes + 4095) / 4096 * 4096);
  const size_t floats = s.kv_heads * s.context * s.head_dim;
  const size_t copies = std::max<size_t>(1, cold_bytes / (2 * floats * sizeof(float)));
  const std::vector<float> keys = Values(copies * floats), values = Values(copies * floats);
  const std::vector<float> query = Values(s.heads * s.tokens * s.head_dim), mask = CausalMask(s);
  const std::vector<float> scale(s.head_dim, 1.0f / std::sqrt(static_cast<float>(s.head_dim)));
  std::vector<float> out(s.heads * s.tokens * s.head_dim);
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::infinity();
  size_t copy = 0, runs = 0;
  for (const auto end = Clock::now() + std::chrono::duration<double>(seconds); Clock::now() < end || runs < 3; ++runs) {
    const size_t at = copy++ % copies * floats;
    Check(xnn_setup_scaled_dot_product_attention_nhtc_f32(op, workspace, query.data(), keys.data() + at,
                                                          values.data() + at, scale.data(), mask.data(), out.data()),
          "setup");
    const auto begin = Clock::now();
    Check(xnn_run_operator(op, pool), "run");
    best = std::min(best, std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  xnn_delete_operator(op);
  std::free(workspace);
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 9) {
    std::fprintf(stderr, "usage: xnnpack_attention TOKENS CONTEXT HEADS KV_HEADS HEAD_DIM THREADS SECONDS COLD_MIB\n");
    return 2;
  }
  size_t n[6];
  for (size_t i = 0; i < 6; ++i) n[i] = std::strtoull(argv[i + 1], nullptr, 10);
  const Shape shape = {n[0], n[1], n[2], n[3], n[4]};
  if (shape.tokens == 0 || shape.tokens > shape.context || shape.kv_heads == 0 || shape.heads % shape.kv_heads != 0) {
    std::fprintf(stderr, "xnnpack_attention: expected 1 <= TOKENS <= CONTEXT and HEADS a multiple of KV_HEADS\n");
    return 2;
  }
  Check(xnn_initialize(nullptr), "initialize");
  pthreadpool_t pool = n[5] > 1 ? pthreadpool_create(n[5]) : nullptr;
  std::printf("%.4f\n", BestMilliseconds(shape, pool, std::strtod(argv[7], nullptr),
                                         static_cast<size_t>(std::strtoull(argv[8], nullptr, 10)) << 20));
  pthreadpool_destroy(pool);
  return 0;
}
