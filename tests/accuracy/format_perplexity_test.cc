// SPDX-License-Identifier: Apache-2.0
// What integer products cost a model: its matrices are quantized to each block format, and the perplexity of a text by the fast path
// is held against the same file's by float arithmetic on dequantized weights. The difference is the activations' rounding to A8
// alone.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "runtime/api/find_model.h"
#include "tests/accuracy/measure.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

const char kSourceDir[] = MOONLIT_SOURCE_DIR;

class FormatPerplexity : public testing::TestWithParam<Format> {
 protected:
  // A perplexity within 0.3% is a mean difference of the tokens' surprises (fast - exact) within 0.003. Of few thousand tokens it
  // scatters by about 0.001, and is allowed its standard error. How much it would be over any number of tokens drawn from the model
  // itself is the mean divergence, whose own scatter is a twentieth of that: it gets no allowance.
  void ExpectSmallLoss(const std::string& source, const Windows& windows) {
    const TempFolder folder;
    const std::string path = folder.path() + "/model.gguf";
    WriteModelAs(source, GetParam(), path);
    if (HasFatalFailure()) return;
    const Comparison all = Compare(path, windows, {}, {.exact = true});
    std::vector<double> differences;
    for (size_t i = 0; i < all.fast.size(); ++i) differences.push_back(all.fast[i] - all.exact[i]);
    EXPECT_NE(all.fast, all.exact) << "one of the paths was not taken";
    const Mean loss = MeanOf(differences), divergence = MeanOf(all.divergence);
    std::printf("%s: perplexity %.4f, exact %.4f: %+.3f%% +/- %.3f; divergence %.3f%% +/- %.3f\n",
                Traits(GetParam()).name, std::exp(MeanOf(all.fast).value), std::exp(MeanOf(all.exact).value),
                100 * std::expm1(loss.value), 100 * loss.error, 100 * divergence.value, 100 * divergence.error);
    EXPECT_LT(divergence.value, 0.003);
    EXPECT_LT(std::fabs(loss.value), 0.003 + loss.error);
  }
};

TEST_P(FormatPerplexity, OfThePoetIsWithinThreeThousandthsOfFloatArithmetic) {
  const Windows windows = {ReadWholeFile(std::string(kSourceDir) + "/tests/data/poet_eval.txt"), 128, 32, 64};
  ExpectSmallLoss(std::string(kSourceDir) + "/models/poet/poet-Q4_0.gguf", windows);
}

TEST_P(FormatPerplexity, OfSmolLM2IsWithinThreeThousandthsOfFloatArithmetic) {
  // A format takes ten minutes of two cores, so that having the model is no reason to measure it in every run.
  if (std::getenv("MOONLIT_MODELS") == nullptr) {
    GTEST_SKIP() << "this takes hours: it runs where MOONLIT_MODELS names the folder that has smollm2.gguf";
  }
  const Result<std::string> model = FindModel("smollm2");
  if (!model.ok()) GTEST_SKIP() << "this needs SmolLM2-135M-Instruct: " << model.status().message();
  const Windows windows = {ReadWholeFile(std::string(kSourceDir) + "/tests/data/alice.txt"), 512, 22, 32};
  ExpectSmallLoss(*model, windows);
}

std::vector<Format> BlockFormats() {
  std::vector<Format> formats;
  for (Format format : kEncodedFormats) {
    if (Traits(format).block_values > 1) formats.push_back(format);
  }
  return formats;
}

INSTANTIATE_TEST_SUITE_P(All, FormatPerplexity, testing::ValuesIn(BlockFormats()),
                         [](const auto& info) { return std::string(Traits(info.param).name); });

}  // namespace
}  // namespace moonlit
