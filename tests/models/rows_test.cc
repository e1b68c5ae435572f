// SPDX-License-Identifier: Apache-2.0
// What a step takes beside ids and gives beside logits, under real graphs: rows of embeddings, positions, hidden states.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "runtime/weights/rows.h"
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

// Rows of a tensor, decoded by the scalar code that defines its format; all of them where `ids` is empty.
std::vector<float> DecodeRows(const GgufSource& source, const char* name, std::vector<int32_t> ids = {}) {
  const TensorInfo& tensor = *source.Find(name);
  if (ids.empty()) {
    for (size_t r = 0; r < tensor.shape.rows(); ++r) ids.push_back(static_cast<int32_t>(r));
  }
  const size_t width = tensor.shape.columns();
  std::vector<uint8_t> bytes(TensorRowBytes(tensor));
  std::vector<float> values(ids.size() * width);
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto row = static_cast<size_t>(ids[i]);
    EXPECT_TRUE(ReadRows(source, tensor, row, row + 1, bytes.data(), bytes.size()).ok());
    Traits(tensor.format).dequantize(bytes.data(), values.data() + i * width, width);
  }
  return values;
}

// Keeps the hidden states of span 0.
class HiddenCollector : public LogitsConsumer {
 public:
  explicit HiddenCollector(size_t width) : width_(width) {}
  bool takes_hidden() const override { return true; }
  void Consume(size_t, size_t, size_t rows, const float* hidden, size_t stride) override {
    for (size_t r = 0; r < rows; ++r) values.insert(values.end(), hidden + r * stride, hidden + r * stride + width_);
  }
  std::vector<float> values;

 private:
  size_t width_;
};

std::vector<float> Hidden(LoadedModel& model, const std::vector<int32_t>& text, size_t chunk, Outputs outputs) {
  Sequence sequence(&model.pages());
  HiddenCollector hidden(model.plan().hidden_width());
  for (size_t at = 0; at < text.size(); at += chunk) {
    const auto tokens = std::span(text).subspan(at, std::min(chunk, text.size() - at));
    EXPECT_TRUE(sequence.Reserve(static_cast<int64_t>(at + tokens.size())).ok());
    const StepSpan span{.tokens = tokens,
                        .pages = sequence.pages(),
                        .first_slot = static_cast<int64_t>(at),
                        .outputs = outputs,
                        .runs = sequence.runs()};
    const Status ran = model.plan().Run({&span, 1}, &hidden);
    EXPECT_TRUE(ran.ok()) << ran.ToString();
    sequence.Commit(tokens);
  }
  return hidden.values;
}

class RowsTest : public testing::TestWithParam<const char*> {};

// The table's own rows in place of ids give the bits that the ids give; alone, and among ids.
TEST_P(RowsTest, RowsOfTheTableAreAsGoodAsTheirIds) {
  LoadedModel model(GetParam(), {});
  const std::vector<int32_t> text = Text(40);
  const std::vector<float> expected = model.Logits(text, 64);
  const std::vector<float> rows = DecodeRows(model.source(), "token_embd.weight", text);
  ASSERT_EQ(model.plan().input_width() * text.size(), rows.size());
  for (size_t each : {1u, 3u}) {
    std::vector<int32_t> mixed = text;
    for (size_t i = 0; i < mixed.size(); i += each) mixed[i] = kInputRow;
    model.inputs = rows.data();
    EXPECT_TRUE(SameBits(model.Logits(mixed, 64), expected)) << "every " << each << ". token";
  }
  std::vector<float> other = rows;
  other[other.size() - 1] += 0.5f;
  model.inputs = other.data();
  EXPECT_FALSE(SameBits(model.Logits(std::vector<int32_t>(40, kInputRow), 64), expected));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, RowsTest, testing::Values("llama", "llama-kquant", "gemma2", "gpt2", "qwen2moe"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(Rows, AreRefusedWhereThereIsNoRoomForThem) {
  const auto run = [](LoadedModel& model, const float* inputs) {
    Sequence sequence(&model.pages());
    EXPECT_TRUE(sequence.Reserve(1).ok());
    const int32_t token = kInputRow;
    const StepSpan span{.tokens = {&token, 1},
                        .pages = sequence.pages(),
                        .first_slot = 0,
                        .outputs = Outputs::kNone,
                        .runs = sequence.runs(),
                        .inputs = inputs};
    return model.plan().Run({&span, 1}, nullptr);
  };
  LoadedModel llama("llama", {}), gemma("gemma4", {});
  const std::vector<float> row(4096);
  EXPECT_EQ(run(llama, nullptr).code(), Code::kInvalidArgument) << "no rows are given";
  EXPECT_TRUE(run(llama, row.data()).ok());
  ASSERT_EQ(gemma.plan().input_width(), 0u) << "the fixture looks ids up in two tables";
  EXPECT_EQ(run(gemma, row.data()).code(), Code::kUnsupported);
}

// The judge turns every token by the position that it was given.
TEST(Positions, AreWhatTokensTurnBy) {
  LoadedModel model("llama", {});
  const std::vector<int32_t> text = Text(24);
  std::vector<int32_t> positions;
  for (size_t i = 0; i < text.size(); ++i) positions.push_back(static_cast<int32_t>((i * 11) % 37 + 2));
  const auto logits = [&](std::span<const int32_t> given, size_t chunk) {
    Sequence sequence(&model.pages());
    Collector collector(model.vocab(), 1);
    for (size_t at = 0; at < text.size(); at += chunk) {
      const auto tokens = std::span(text).subspan(at, std::min(chunk, text.size() - at));
      EXPECT_TRUE(sequence.Reserve(static_cast<int64_t>(at + tokens.size())).ok());
      const StepSpan span{.tokens = tokens,
                          .pages = sequence.pages(),
                          .first_slot = static_cast<int64_t>(at),
                          .positions = given.empty() ? given : given.subspan(at, tokens.size()),
                          .outputs = Outputs::kAll,
                          .runs = sequence.runs()};
      const Status ran = model.plan().Run({&span, 1}, &collector);
      EXPECT_TRUE(ran.ok()) << ran.ToString();
      sequence.Commit(tokens);
    }
    return collector.rows[0];
  };
  const std::vector<float> found = logits(positions, 64);
  EXPECT_TRUE(SameBits(found, logits(positions, 5)));
  const auto expected = reference::Forward(model.source().metadata(), model.source(), text, nullptr,
                                           [&](size_t, size_t key) { return int64_t{positions[key]}; });
  ASSERT_TRUE(expected.ok()) << expected.status().ToString();
  ASSERT_EQ(found.size(), expected->size());
  double largest = 0;
  for (size_t i = 0; i < found.size(); ++i) largest = std::max(largest, std::fabs(double{found[i]} - (*expected)[i]));
  EXPECT_LT(largest, 2e-4);

  std::vector<int32_t> slots;
  for (size_t i = 0; i < text.size(); ++i) slots.push_back(static_cast<int32_t>(i));
  EXPECT_TRUE(SameBits(logits(slots, 64), logits({}, 64)));
  EXPECT_FALSE(SameBits(logits({}, 64), found));
}

// Logits are the head's product with the hidden states: in float64, from the file.
class HiddenTest : public testing::TestWithParam<const char*> {};

TEST_P(HiddenTest, TheHeadOfThemGivesTheLogits) {
  LoadedModel model(GetParam(), {});
  const std::vector<int32_t> text = Text(40);
  const std::vector<float> logits = model.Logits(text, 64), hidden = Hidden(model, text, 64, Outputs::kAll);
  const size_t width = model.plan().hidden_width(), vocab = model.vocab();
  ASSERT_EQ(hidden.size(), text.size() * width);
  const char* name = model.source().Find("output.weight") != nullptr ? "output.weight" : "token_embd.weight";
  const std::vector<float> head = DecodeRows(model.source(), name);
  const Metadata& metadata = model.source().metadata();
  const std::string architecture = metadata.GetString("general.architecture").value();
  const auto number = [&](const char* suffix, double otherwise) {
    const std::string key = architecture + "." + suffix;
    return metadata.Has(key) ? metadata.GetFloat(key).value() : otherwise;
  };
  const double cap = number("final_logit_softcapping", 0), divisor = number("logit_scale", 1);
  for (size_t t = 0; t < text.size(); ++t) {
    for (size_t n = 0; n < vocab; ++n) {
      double sum = 0;
      for (size_t k = 0; k < width; ++k) sum += double{hidden[t * width + k]} * double{head[n * width + k]};
      sum /= divisor;
      if (cap != 0) sum = cap * std::tanh(sum / cap);
      ASSERT_NEAR(logits[t * vocab + n], sum, 1e-4 * (1 + std::fabs(sum))) << "token " << t << ", logit " << n;
    }
  }
}

TEST_P(HiddenTest, AreTheSameBitsHoweverTheTextIsCut) {
  LoadedModel model(GetParam(), {}), one(GetParam(), {.threads = 1});
  const std::vector<int32_t> text = Text(40);
  const std::vector<float> all = Hidden(model, text, 64, Outputs::kAll);
  EXPECT_TRUE(SameBits(Hidden(one, text, 7, Outputs::kAll), all));
  const std::vector<float> last = Hidden(model, text, 64, Outputs::kLast);
  const size_t width = model.plan().hidden_width();
  EXPECT_TRUE(SameBits(last, std::vector<float>(all.end() - static_cast<std::ptrdiff_t>(width), all.end())));
}

INSTANTIATE_TEST_SUITE_P(Fixtures, HiddenTest, testing::Values("llama", "gemma2", "granite", "gpt2"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace moonlit::test
