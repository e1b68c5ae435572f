// SPDX-License-Identifier: Apache-2.0
// What who looks on sees of real graphs: the residual stream behind every layer against the scalar pass, every attention layer; and that
// nothing changes by it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "runtime/exec/step_tap.h"
#include "tests/models/loaded_model.h"
#include "tests/reference/forward.h"

namespace moonlit::test {
namespace {

std::vector<int32_t> Text(size_t count) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>((131 + i * 71) % 320));
  return tokens;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Takes everything.
class Everything : public StepTap {
 public:
  bool WantsStream(int) const override { return true; }
  bool WantsAttention(size_t) const override { return true; }
  Status TakeStream(const TappedStream& stream) override {
    streams.resize(std::max(streams.size(), static_cast<size_t>(stream.layer) + 1));
    auto& rows = streams[static_cast<size_t>(stream.layer)];
    for (size_t r = 0; r < stream.rows; ++r) {
      const float* row = stream.values + r * stream.stride;
      rows.insert(rows.end(), row, row + stream.width);
    }
    return Status();
  }
  Status TakeAttention(TappedAttention& attention) override {
    const size_t width = static_cast<size_t>(attention.first_slot) + attention.tokens;
    std::vector<float> table(attention.tokens * width);
    ++attentions;
    return attention.Weights(0, 0, attention.tokens, width, table.data());
  }
  std::vector<std::vector<float>> streams;  // [layers] [tokens, width]
  size_t attentions = 0;
};

// ||a - b|| / ||b||
double Apart(const std::vector<float>& a, const std::vector<double>& b) {
  EXPECT_EQ(a.size(), b.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    difference += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

class StreamsTest : public testing::TestWithParam<const char*> {};

TEST_P(StreamsTest, EveryLayerLeavesWhatTheScalarPassLeaves) {
  LoadedModel model(GetParam(), {.exact = true});
  const std::vector<int32_t> text = Text(21);
  std::vector<std::vector<double>> expected;
  const auto logits = reference::Forward(model.source().metadata(), model.source(), text, nullptr, {}, &expected);
  ASSERT_TRUE(logits.ok()) << logits.status().ToString();
  Everything tap;
  model.tap = &tap;
  model.Logits(text, 8);
  ASSERT_EQ(tap.streams.size(), expected.size());
  ASSERT_EQ(model.plan().stream_layers().size(), expected.size());
  for (size_t layer = 0; layer < expected.size(); ++layer) {
    EXPECT_EQ(model.plan().stream_layers()[layer], static_cast<int>(layer));
    // Float sums of a few hundred products a layer, as in the golden test's logits.
    EXPECT_LT(Apart(tap.streams[layer], expected[layer]), 1e-5) << "layer " << layer;
  }
  EXPECT_EQ(tap.attentions, 3 * model.plan().attention_layers().size()) << "three steps";
}

TEST_P(StreamsTest, NoBitChanges) {
  LoadedModel model(GetParam(), {});
  const std::vector<int32_t> text = Text(40);
  const std::vector<float> plain = model.Logits(text, 64);
  Everything tap;
  model.tap = &tap;
  for (size_t chunk : {64u, 7u, 1u}) EXPECT_TRUE(SameBits(model.Logits(text, chunk), plain)) << chunk;
  model.tap = nullptr;
  EXPECT_TRUE(SameBits(model.Logits(text, 64), plain)) << "as if nobody had looked";
}

// Without outputs the last layer would not be computed at all.
TEST_P(StreamsTest, TheLastLayerIsSeenWithoutOutputs) {
  LoadedModel model(GetParam(), {});
  const std::vector<int32_t> text = Text(9);
  Everything with, without;
  model.tap = &with;
  model.Logits(text, 9);
  model.tap = &without;
  Sequence sequence(&model.pages());
  model.Step(sequence, text, Outputs::kNone);
  ASSERT_EQ(without.streams.size(), with.streams.size());
  for (size_t layer = 0; layer < with.streams.size(); ++layer) {
    EXPECT_TRUE(SameBits(without.streams[layer], with.streams[layer])) << "layer " << layer;
  }
}

std::string Name(const testing::TestParamInfo<const char*>& info) {
  std::string name = info.param;
  for (char& c : name) c = c == '-' ? '_' : c;
  return name;
}
INSTANTIATE_TEST_SUITE_P(Families, StreamsTest,
                         testing::Values("llama", "mistral", "falcon", "gemma2", "gemma4", "mixtral", "qwen2moe",
                                         "granite", "olmo2", "phi2", "gpt2", "bloom", "cohere2", "llama-kquant"),
                         Name);

}  // namespace
}  // namespace moonlit::test
