// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/bench_main.h"

#include <stdio.h>
#include <stdlib.h>

#include "kernels/cpu/features.h"

namespace moonlit {
namespace {

// MOONLIT_VARIANT, or the one that this CPU gets; ends the program if it can't be had.
Variant ChooseVariant() {
  const FeatureMask features = CpuFeatures();
  Variant variant = SelectVariant(features);
  const char* forced = getenv("MOONLIT_VARIANT");
  const bool wanted = forced != nullptr && forced[0] != '\0';
  if ((wanted && !FindVariant(forced, &variant)) || !IsBuilt(variant) || !CanRun(variant, features)) {
    fprintf(stderr, "MOONLIT_VARIANT: expected a variant of this build that this CPU runs, found %s\n",
            wanted ? forced : VariantName(variant));
    exit(2);
  }
  return variant;
}

}  // namespace

void ReportRates(benchmark::State& state, const Work& work) {
  using benchmark::Counter;
  const auto flags = static_cast<Counter::Flags>(Counter::kIsRate | Counter::kIsIterationInvariant);
  if (work.operations > 0) state.counters["GOPS"] = Counter(1e-9 * work.operations, flags);
  if (work.bytes > 0) state.counters["GB/s"] = Counter(1e-9 * work.bytes, flags);
}

std::vector<float> BenchValues(size_t n) {
  std::vector<float> values(n);
  uint64_t state = 1;
  for (float& value : values) {
    // A linear congruential generator (Knuth's MMIX constants); its high bits as four numbers of 0 .. 255.
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint64_t bits = state >> 32;
    const uint64_t sum = (bits & 255) + (bits >> 8 & 255) + (bits >> 16 & 255) + (bits >> 24);
    value = (static_cast<float>(sum) - 510.0f) / 148.0f;
  }
  return values;
}

}  // namespace moonlit

int main(int argc, char** argv) {
  const moonlit::Variant variant = moonlit::ChooseVariant();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::AddCustomContext("variant", moonlit::VariantName(variant));
  moonlit::RegisterBenchmarks(variant);
  const size_t run = benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return run == 0 ? 1 : 0;
}
