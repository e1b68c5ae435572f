// SPDX-License-Identifier: Apache-2.0
// What a quantized cache costs a model on text: its predictions are held against the same model's with a cache in f16.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/accuracy/measure.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

// Measured means are 0.00026 and 0.021 (Zen 4, AVX-512 with BF16), 0.00029 and 0.021 (AVX2), with standard errors of a tenth.
struct Bound {
  const char* cache;
  double divergence;
};

class CachePerplexity : public testing::TestWithParam<Bound> {};

TEST_P(CachePerplexity, OfThePoetIsNearThatOfF16) {
  const std::string source = MOONLIT_SOURCE_DIR;
  const Windows windows = {ReadWholeFile(source + "/tests/data/poet_eval.txt"), 128, 8, 64};
  const Comparison all =
      Compare(source + "/models/poet/poet-Q4_0.gguf", windows, {.cache = GetParam().cache}, {.cache = "f16"});
  std::vector<double> differences;
  for (size_t i = 0; i < all.fast.size(); ++i) differences.push_back(all.fast[i] - all.exact[i]);
  EXPECT_NE(all.fast, all.exact) << "the cache's type makes no difference";
  const Mean loss = MeanOf(differences), divergence = MeanOf(all.divergence);
  std::printf("%s: perplexity %.4f, f16 %.4f: %+.3f%% +/- %.3f; divergence %.4f%% +/- %.4f\n", GetParam().cache,
              std::exp(MeanOf(all.fast).value), std::exp(MeanOf(all.exact).value), 100 * std::expm1(loss.value),
              100 * loss.error, 100 * divergence.value, 100 * divergence.error);
  EXPECT_LT(divergence.value, GetParam().divergence);
  // The text's own choice of tokens scatters around the divergence.
  EXPECT_LT(std::fabs(loss.value), GetParam().divergence + 2 * loss.error);
}

INSTANTIATE_TEST_SUITE_P(All, CachePerplexity, testing::Values(Bound{"q8_0", 5e-4}, Bound{"q4_0", 3e-2}),
                         [](const auto& info) { return std::string(info.param.cache); });

}  // namespace
}  // namespace moonlit
