// SPDX-License-Identifier: Apache-2.0
// One head of the recurrent layers over texts of growing length: the time of a token must not depend on it. Operations are those of
// the recurrence as it is written, a product with S or with a row of it for each use: 6 * key_dim * value_dim a token for the
// delta rule, 4 for linear attention; the chunked form does about a third more.
#include <string>

#include "kernels/cpu/bench_main.h"
#include "kernels/linear_attention/linear_attention.h"

namespace moonlit {
namespace {

void Recur(benchmark::State& state, const LinearAttentionTable& table, bool delta, size_t dim, size_t tokens,
           bool steps_only) {
  const std::vector<float> q = BenchValues(tokens * dim), k = q, v = q, beta(tokens, 0.5f), decay(tokens, -0.05f);
  std::vector<float> out(tokens * dim), memory(LinearStateFloats(dim, dim));
  const AlignedBytes scratch(RecurrentScratchBytes(dim, dim));
  RecurrentArgs args = {};
  args.tokens = tokens, args.key_dim = args.value_dim = dim;
  args.q = q.data(), args.k = k.data(), args.v = v.data(), args.out = out.data();
  args.q_stride = args.k_stride = args.v_stride = args.out_stride = dim;
  args.decay = decay.data(), args.beta = beta.data(), args.gate_stride = 1;
  args.state = memory.data(), args.scratch = scratch.floats();
  args.steps_only = steps_only;
  args.eps = 1e-6f, args.normalise = true, args.scale = 0.1f;
  for (auto _ : state) {
    (delta ? table.gated_delta : table.linear_attention)(args);
    benchmark::ClobberMemory();
  }
  const double count = static_cast<double>(tokens), size = static_cast<double>(dim);
  ReportRates(state, {.operations = (delta ? 6.0 : 4.0) * size * size * count});
  state.counters["tokens/s"] = benchmark::Counter(count, benchmark::Counter::kIsIterationInvariantRate);
}

void Convolve(benchmark::State& state, const LinearAttentionTable& table, size_t tokens) {
  constexpr size_t kChannels = 2048, kWidth = 4;
  const std::vector<float> x = BenchValues(tokens * kChannels), weight = BenchValues(kWidth * kChannels);
  std::vector<float> out(tokens * kChannels), memory((kWidth - 1) * kChannels);
  ShortConvArgs args = {};
  args.tokens = tokens, args.channels = kChannels, args.width = kWidth;
  args.x = x.data(), args.weight = weight.data(), args.out = out.data(), args.state = memory.data();
  args.x_stride = args.weight_stride = args.out_stride = args.state_stride = kChannels;
  for (auto _ : state) {
    table.short_conv(args);
    benchmark::ClobberMemory();
  }
  const double elements = static_cast<double>(tokens * kChannels);
  ReportRates(state, {.operations = 2.0 * kWidth * elements, .bytes = 8.0 * elements});
}

}  // namespace

void RegisterBenchmarks(Variant variant) {
  using benchmark::State;
  const LinearAttentionTable& table = GetLinearAttentionTable(variant);
  for (const bool delta : {true, false}) {
    const std::string layer = delta ? "gated_delta" : "linear_attention";
    for (const size_t dim : {64, 128}) {
      for (const size_t tokens : {1, 16, 64, 512, 1024, 2048, 4096, 8192}) {
        for (const bool steps : {false, true}) {
          if (steps && tokens != 512) continue;
          const std::string name = layer + "/dim:" + std::to_string(dim) + "/tokens:" + std::to_string(tokens);
          benchmark::RegisterBenchmark(name + (steps ? "/steps" : ""),
                                       [=, &table](State& s) { Recur(s, table, delta, dim, tokens, steps); });
        }
      }
    }
  }
  for (const size_t tokens : {1, 64}) {
    benchmark::RegisterBenchmark("short_conv/tokens:" + std::to_string(tokens),
                                 [=, &table](State& s) { Convolve(s, table, tokens); });
  }
}

}  // namespace moonlit
