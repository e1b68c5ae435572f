// SPDX-License-Identifier: Apache-2.0
// BERT's hidden states, token by token, against the scalar pass: float weights, and quantized ones by the fast path and exactly. What
// transformers makes of the same model is in tests/api/embed_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "runtime/convert/quantize.h"
#include "tests/models/loaded_model.h"
#include "tests/models/recorder.h"
#include "tests/reference/forward.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

constexpr double kTolerance = 1e-3;
constexpr double kSeenMargin = 1.0 / (1 << 18);  // as golden_test's

struct EncoderCase {
  const char* type;  // that the fixture is quantized to; null: as it is
  bool exact;
};

class EncoderTest : public testing::TestWithParam<EncoderCase> {};

TEST_P(EncoderTest, AgreesWithTheScalarPass) {
  const EncoderCase& c = GetParam();
  const TempFolder folder;
  std::string file = FixturePath("bert-cls", "model.gguf");
  if (c.type != nullptr) {
    const std::string quantized = folder.path() + "/model.gguf";
    const auto report = QuantizeFile(file, quantized, {.type = c.type});
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    file = quantized;
  }
  Recorder recorder(TestVariant());
  LoadedModel model("", {.exact = c.exact, .products = recorder.table(), .file = file});
  if (c.type != nullptr) {
    EXPECT_NE(model.source().Find("blk.0.attn_q.weight")->format, Format::kF32);
    EXPECT_NE(model.source().Find("blk.1.ffn_down.weight")->format, Format::kF32);
  }
  std::ifstream golden(FixturePath("bert-cls", "golden.json"));
  const std::vector<int32_t> tokens = nlohmann::json::parse(golden)["inputs"][0]["tokens"];
  const std::vector<float> found = model.Hidden(tokens);
  reference::Rounding rounding = {.seen = &recorder.seen(), .seen_margin = kSeenMargin};
  const auto expected = reference::Forward(model.source().metadata(), model.source(), tokens,
                                           c.exact || c.type == nullptr ? nullptr : &rounding);
  ASSERT_TRUE(expected.ok()) << expected.status().ToString();
  EXPECT_EQ(rounding.unseen, 0u) << "activations that the fast path did not have";
  ASSERT_EQ(found.size(), expected->size());
  ASSERT_EQ(found.size(), tokens.size() * 64);
  double largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_NEAR(found[i], (*expected)[i], c.type == nullptr || c.exact ? 1e-5 : kTolerance) << i;
    largest = std::max(largest, std::fabs((*expected)[i]));
  }
  EXPECT_GT(largest, 1);
}

INSTANTIATE_TEST_SUITE_P(Types, EncoderTest,
                         testing::Values(EncoderCase{nullptr, false}, EncoderCase{"Q4_0", false},
                                         EncoderCase{"Q5_1", false}, EncoderCase{"Q8_0", false},
                                         EncoderCase{"Q4_0", true}),
                         [](const auto& info) {
                           const char* type = info.param.type;
                           return std::string(type == nullptr ? "F32" : type) + (info.param.exact ? "_exact" : "");
                         });

}  // namespace
}  // namespace moonlit::test
