// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/measure.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "runtime/api/moonlit.hpp"
#include "runtime/gguf/gguf.h"
#include "runtime/gguf/gguf_writer.h"

namespace moonlit {
namespace {

// As llama.cpp's src/llama-quant.cpp does it for rows that are no multiple of 256.
Format Fallback(Format format) {
  switch (format) {
    case Format::kQ4_K:
      return Format::kQ5_0;
    case Format::kQ5_K:
      return Format::kQ5_1;
    case Format::kQ6_K:
      return Format::kQ8_0;
    default:
      return Format::kIQ4_NL;
  }
}

std::vector<float> Values(const GgufFile& file, const GgufTensor& tensor, size_t rows, size_t k) {
  const Format format = tensor.type->format;
  std::vector<uint8_t> bytes(rows * RowBytes(format, k));
  EXPECT_TRUE(file.ReadTensor(tensor, 0, bytes.data(), bytes.size()).ok());
  std::vector<float> values(rows * k);
  Traits(format).dequantize(bytes.data(), values.data(), values.size());
  return values;
}

// Rows are independent; half of them goes to a second thread, since the search of some formats takes long.
std::vector<uint8_t> Encode(const std::vector<float>& values, Format format, size_t rows, size_t k) {
  const size_t row_bytes = RowBytes(format, k), half = rows / 2;
  std::vector<uint8_t> bytes(rows * row_bytes);
  const auto encode = [&](size_t begin, size_t end) {
    if (begin == end) return;
    Traits(format).quantize(values.data() + begin * k, nullptr, bytes.data() + begin * row_bytes, (end - begin) * k);
  };
  std::thread other(encode, 0, half);
  encode(half, rows);
  other.join();
  return bytes;
}

double LogSumExp(std::span<const float> logits) {
  double total = 0;
  for (float x : logits) total += std::exp(double{x});
  return std::log(total);
}

// A model loaded for one path, and what it says of a window.
class Judged {
 public:
  Judged(const std::string& file, const Windows& windows, const Path& path) : windows_(windows) {
    moonlit_model_options options = api::Model::Options();
    options.exact = path.exact;
    options.n_ctx = static_cast<uint32_t>(windows.tokens);
    options.key_type = options.value_type = path.cache.c_str();
    auto model = api::Model::Load(file, options);
    EXPECT_TRUE(model) << model.error().message;
    model_ = std::make_unique<api::Model>(std::move(*model));
    auto session = model_->NewSession();
    EXPECT_TRUE(session) << session.error().message;
    session_ = std::make_unique<api::Session>(std::move(*session));
  }

  std::vector<int32_t> Tokenize() {
    auto ids = model_->Tokenize(windows_.text, MOONLIT_ADD_SPECIAL);
    EXPECT_TRUE(ids) << ids.error().message;
    EXPECT_GE(ids->size(), windows_.count * windows_.tokens);
    return *ids;
  }

  // Calls visit(index, logits) for the judged positions.
  template <typename Visit>
  void Read(std::span<const int32_t> window, Visit visit) {
    const auto error = session_->Eval(window, MOONLIT_OUTPUT_ALL, [&](size_t position, std::span<const float> logits) {
      if (position < windows_.first_judged || position + 1 >= windows_.tokens) return;
      visit(position - windows_.first_judged, logits);
    });
    EXPECT_EQ(error.code, MOONLIT_OK) << error.message;
    EXPECT_EQ(session_->Truncate(0).code, MOONLIT_OK);
  }

 private:
  const Windows& windows_;
  std::unique_ptr<api::Model> model_;
  std::unique_ptr<api::Session> session_;
};

}  // namespace

void WriteModelAs(const std::string& source, Format format, const std::string& target) {
  const auto file = GgufFile::Open(source);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  GgufWriter writer;
  for (const GgufValue& value : file->values()) writer.CopyValue(*file, value);
  std::vector<std::vector<uint8_t>> tensors;
  for (const GgufTensor& tensor : file->tensors()) {
    const size_t k = tensor.dims[tensor.rank - 1];
    const size_t rows = tensor.rank == 1 ? 1 : tensor.dims[0];
    Format to = tensor.rank == 1 ? Format::kF32 : format;
    if (k % Traits(to).block_values != 0) to = Fallback(to);
    tensors.push_back(Encode(Values(*file, tensor, rows, k), to, rows, k));
    writer.AddTensor(tensor.name, to, {tensor.dims.begin(), tensor.dims.begin() + tensor.rank});
  }
  ASSERT_TRUE(writer.Begin(target).ok());
  for (const auto& bytes : tensors) ASSERT_TRUE(writer.Append(bytes.data(), bytes.size()).ok());
  ASSERT_TRUE(writer.Finish().ok());
}

Comparison Compare(const std::string& model, const Windows& windows, const Path& fast_path, const Path& exact_path) {
  Judged fast(model, windows, fast_path), exact(model, windows, exact_path);
  const std::vector<int32_t> ids = fast.Tokenize();
  Comparison all;
  std::vector<std::vector<float>> expected(windows.tokens - windows.first_judged - 1);
  for (size_t w = 0; w < windows.count; ++w) {
    const auto window = std::span<const int32_t>(ids).subspan(w * windows.tokens, windows.tokens);
    exact.Read(window,
               [&](size_t i, std::span<const float> logits) { expected[i].assign(logits.begin(), logits.end()); });
    fast.Read(window, [&](size_t i, std::span<const float> logits) {
      const size_t next = static_cast<size_t>(window[windows.first_judged + i + 1]);
      const double sum = LogSumExp(logits), expected_sum = LogSumExp(expected[i]);
      double divergence = 0;
      for (size_t t = 0; t < logits.size(); ++t) {
        const double log_p = double{expected[i][t]} - expected_sum;
        divergence += std::exp(log_p) * (log_p - (double{logits[t]} - sum));
      }
      all.fast.push_back(sum - double{logits[next]});
      all.exact.push_back(expected_sum - double{expected[i][next]});
      all.divergence.push_back(divergence);
    });
  }
  EXPECT_EQ(all.fast.size(), windows.count * (windows.tokens - windows.first_judged - 1));
  return all;
}

Mean MeanOf(const std::vector<double>& values) {
  const double n = static_cast<double>(values.size());
  double sum = 0, squares = 0;
  for (double value : values) sum += value;
  for (double value : values) squares += (value - sum / n) * (value - sum / n);
  const double deviation = std::sqrt(squares / (n - 1));
  return {sum / n, deviation, deviation / std::sqrt(n)};
}

}  // namespace moonlit
