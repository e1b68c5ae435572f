// SPDX-License-Identifier: Apache-2.0
// What integer products cost a model: the poem model's matrices are quantized to each block format, and the perplexity of its
// evaluation text by the fast path is held against the same file's by float arithmetic on dequantized weights. The
// difference is the activations' rounding to A8 alone.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <vector>

#include "kernels/quant/format.h"
#include "runtime/api/moonlit.hpp"
#include "runtime/gguf/gguf.h"
#include "runtime/gguf/gguf_writer.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

constexpr size_t kWindow = 128, kWindows = 8;

std::vector<float> Values(const GgufFile& file, const GgufTensor& tensor, Format format, size_t rows, size_t k) {
  std::vector<uint8_t> bytes(rows * RowBytes(format, k));
  EXPECT_TRUE(file.ReadTensor(tensor, 0, bytes.data(), bytes.size()).ok());
  std::vector<float> values(rows * k);
  Traits(format).dequantize(bytes.data(), values.data(), values.size());
  return values;
}

// The poem model with every matrix in `format`.
std::string WritePoetAs(Format format, const TempFolder& folder) {
  const auto poet = GgufFile::Open(MOONLIT_SOURCE_DIR "/models/poet/poet-Q4_0.gguf");
  EXPECT_TRUE(poet.ok()) << poet.status().ToString();
  GgufWriter writer;
  for (const GgufValue& value : poet->values()) writer.CopyValue(*poet, value);
  std::vector<std::vector<uint8_t>> tensors;
  for (const GgufTensor& tensor : poet->tensors()) {
    const size_t k = tensor.dims[tensor.rank - 1];
    const size_t rows = tensor.rank == 1 ? 1 : tensor.dims[0];
    const Format to = tensor.rank == 1 ? Format::kF32 : format;
    const std::vector<float> values = Values(*poet, tensor, tensor.type->format, rows, k);
    std::vector<uint8_t> bytes(rows * RowBytes(to, k));
    Traits(to).quantize(values.data(), nullptr, bytes.data(), values.size());
    writer.AddTensor(tensor.name, to, {tensor.dims.begin(), tensor.dims.begin() + tensor.rank});
    tensors.push_back(std::move(bytes));
  }
  const std::string path = folder.path() + "/poet.gguf";
  EXPECT_TRUE(writer.Begin(path).ok());
  for (const auto& bytes : tensors) EXPECT_TRUE(writer.Append(bytes.data(), bytes.size()).ok());
  EXPECT_TRUE(writer.Finish().ok());
  return path;
}

double Surprise(std::span<const float> logits, int32_t next) {
  double total = 0;
  for (float x : logits) total += std::exp(double{x});
  return std::log(total) - double{logits[static_cast<size_t>(next)]};
}

// Mean of -log p over the second half of each window.
double MeanSurprise(const std::string& path, bool exact) {
  moonlit_model_options options = api::Model::Options();
  options.exact = exact;
  options.n_ctx = kWindow;
  options.key_type = options.value_type = "f32";
  auto model = api::Model::Load(path, options);
  EXPECT_TRUE(model) << model.error().message;
  std::ifstream file(MOONLIT_SOURCE_DIR "/tests/data/poet_eval.txt");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  auto ids = model->Tokenize(text, MOONLIT_ADD_SPECIAL);
  auto session = model->NewSession();
  EXPECT_TRUE(ids && session);
  double sum = 0;
  size_t count = 0;
  for (size_t w = 0; w < kWindows; ++w) {
    const std::span<const int32_t> window = std::span<const int32_t>(*ids).subspan(w * kWindow, kWindow);
    const auto error = session->Eval(window, MOONLIT_OUTPUT_ALL, [&](size_t position, std::span<const float> logits) {
      if (position < kWindow / 2 || position + 1 >= kWindow) return;
      sum += Surprise(logits, window[position + 1]);
      ++count;
    });
    EXPECT_EQ(error.code, MOONLIT_OK) << error.message;
    EXPECT_EQ(session->Truncate(0).code, MOONLIT_OK);
  }
  EXPECT_EQ(count, kWindows * (kWindow / 2 - 1));
  return sum / static_cast<double>(count);
}

class FormatPerplexity : public testing::TestWithParam<Format> {};

TEST_P(FormatPerplexity, IsWithinThreeThousandthsOfFloatArithmetic) {
  const TempFolder folder;
  const std::string path = WritePoetAs(GetParam(), folder);
  const double fast = MeanSurprise(path, false), exact = MeanSurprise(path, true);
  EXPECT_NE(fast, exact) << "one of the paths was not taken";
  EXPECT_NEAR(std::exp(fast - exact), 1.0, 0.003);
  RecordProperty("perplexity_ratio", std::to_string(std::exp(fast - exact)));
}

std::vector<Format> BlockFormats() {
  std::vector<Format> formats;
  for (Format format : kAllFormats) {
    if (Traits(format).block_values > 1) formats.push_back(format);
  }
  return formats;
}

INSTANTIATE_TEST_SUITE_P(All, FormatPerplexity, testing::ValuesIn(BlockFormats()),
                         [](const auto& info) { return std::string(Traits(info.param).name); });

}  // namespace
}  // namespace moonlit
