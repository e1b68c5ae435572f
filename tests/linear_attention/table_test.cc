// SPDX-License-Identifier: Apache-2.0
// Prints the table of recurrent layers in docs/attention.md, and fails where a number is beyond its bound.
#include <stdio.h>

#include "tests/linear_attention/fixture.h"
#include "tests/support/slowed.h"

namespace moonlit {
namespace {

// Of the long text; what is slowed leaves the last three quarters to fast builds.
constexpr size_t kLongTokens = kSlowed ? 1024 : 4096;

// Each row's numbers: mean and worst error of outputs against float64.
TEST(RecurrentTable, IsWithinTheBounds) {
  printf("| variant | layer | form | 512 tokens: mean | worst | %zu tokens: mean | worst | g 0 and -20: worst |\n",
         kLongTokens);
  printf("|---|---|---|---|---|---|---|---|\n");
  for (Kind kind : kKinds) {
    const Problem medium = RandomProblem(kind, 512, 128, 128, 1),
                  long_text = RandomProblem(kind, kLongTokens, 64, 64, 2);
    Problem extreme = RandomProblem(kind, 512, 64, 64, 3);
    for (size_t t = 0; t < extreme.tokens; ++t) extreme.decay[t] = t % 5 == 0 ? -20.0f : 0.0f;
    const Reference references[] = {Expected(medium), Expected(long_text), Expected(extreme)};
    for (Variant variant : RunnableVariants()) {
      for (bool steps : {false, true}) {
        const RunOptions options = {.steps_only = steps};
        const Errors first = OutputErrors(medium, RunHead(variant, medium, options).out, references[0].out);
        const Errors second = OutputErrors(long_text, RunHead(variant, long_text, options).out, references[1].out);
        const Errors third = OutputErrors(extreme, RunHead(variant, extreme, options).out, references[2].out);
        printf("| %s | %s | %s | %.1e | %.1e | %.1e | %.1e | ", VariantName(variant), KindName(kind),
               steps ? "steps" : "chunks", first.mean, first.worst, second.mean, second.worst);
        kind == Kind::kDelta ? printf("%.1e |\n", third.worst) : printf("|\n");
        EXPECT_LE(first.mean, 1e-6) << Describe(variant, medium);
        EXPECT_LE(second.mean, 1e-6) << Describe(variant, long_text);
        EXPECT_LE(first.worst, Bound(medium)) << Describe(variant, medium);
        EXPECT_LE(second.worst, 2 * Bound(long_text)) << Describe(variant, long_text);
        EXPECT_LE(third.worst, Bound(extreme)) << Describe(variant, extreme);
      }
    }
  }
}

// A thread's scratch is a budget: what takes more shall be a decision.
TEST(RecurrentTable, ScratchIsWithinTheBudget) {
  EXPECT_LE(RecurrentScratchBytes(64, 64), size_t{120} << 10);
  EXPECT_LE(RecurrentScratchBytes(128, 128), size_t{200} << 10);
  EXPECT_LE(RecurrentScratchBytes(256, 256), size_t{360} << 10);
}

}  // namespace
}  // namespace moonlit
