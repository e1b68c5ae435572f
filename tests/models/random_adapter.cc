// SPDX-License-Identifier: Apache-2.0
#include "tests/models/random_adapter.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/gguf/gguf_writer.h"

namespace moonlit::test {
namespace {

// Uniform in [-1, 1).
class Numbers {
 public:
  explicit Numbers(uint64_t seed) : state_(seed * 2 + 1) {}
  float Next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<int32_t>(state_ >> 32)) * 0x1p-31f;
  }

 private:
  uint64_t state_;
};

bool IsAdapted(const TensorInfo& tensor) {
  const std::string& name = tensor.name;
  const bool is_table = name.starts_with("token_") || name.starts_with("position_") || name.find("_norm") != name.npos;
  return tensor.shape.rank() == 2 && name.ends_with(".weight") && !is_table;
}

std::vector<uint64_t> Dims(const Shape& shape) {
  std::vector<uint64_t> dims;
  for (size_t i = 0; i < shape.rank(); ++i) dims.push_back(shape[i]);
  return dims;
}

}  // namespace

RandomAdapter::RandomAdapter(const GgufSource& source, size_t rank, float alpha, uint64_t seed)
    : rank_(rank), alpha_(alpha) {
  Numbers numbers(seed);
  for (const TensorInfo* tensor : source.All()) {
    if (!IsAdapted(*tensor)) continue;
    names_.push_back(tensor->name);
    Pair& pair = pairs_[tensor->name];
    pair.outputs = tensor->shape[0];
    pair.inputs = tensor->shape[1];
    pair.a.resize(rank * pair.inputs);
    pair.b.resize(rank * pair.outputs);
    for (float& x : pair.a) x = numbers.Next() / std::sqrt(static_cast<float>(pair.inputs));
    for (float& x : pair.b) x = numbers.Next() * 0.5f;
  }
}

MemoryWeights RandomAdapter::Tensors() const {
  MemoryWeights tensors;
  for (const auto& [name, pair] : pairs_) {
    EXPECT_TRUE(tensors.Add(name + ".lora_a", {rank_, pair.inputs}, pair.a).ok());
    EXPECT_TRUE(tensors.Add(name + ".lora_b", {pair.outputs, rank_}, pair.b).ok());
  }
  return tensors;
}

void RandomAdapter::Write(const std::string& path, const std::string& architecture) const {
  GgufWriter writer;
  writer.SetString("general.type", "adapter");
  writer.SetString("general.architecture", architecture);
  writer.SetString("adapter.type", "lora");
  writer.SetF32("adapter.lora.alpha", alpha_);
  for (const auto& [name, pair] : pairs_) {
    writer.AddTensor(name + ".lora_a", Format::kF32, {rank_, pair.inputs});
    writer.AddTensor(name + ".lora_b", Format::kF32, {pair.outputs, rank_});
  }
  EXPECT_TRUE(writer.Begin(path).ok());
  for (const auto& [name, pair] : pairs_) {
    EXPECT_TRUE(writer.Append(pair.a.data(), pair.a.size() * sizeof(float)).ok());
    EXPECT_TRUE(writer.Append(pair.b.data(), pair.b.size() * sizeof(float)).ok());
  }
  EXPECT_TRUE(writer.Finish().ok());
}

void RandomAdapter::MergeInto(const std::string& name, float scale, std::vector<double>& values) const {
  const Pair& pair = pairs_.at(name);
  const double factor = double{scale} * (alpha_ == 0 ? 1.0 : double{alpha_} / static_cast<double>(rank_));
  for (size_t n = 0; n < pair.outputs; ++n) {
    for (size_t j = 0; j < rank_; ++j) {
      const double b = factor * double{pair.b[n * rank_ + j]};
      for (size_t k = 0; k < pair.inputs; ++k) values[n * pair.inputs + k] += b * double{pair.a[j * pair.inputs + k]};
    }
  }
}

void WriteMerged(const GgufSource& source, const std::vector<ScaledAdapter>& adapters, const std::string& path) {
  const auto adapted = [&](const TensorInfo& tensor) { return !adapters.empty() && IsAdapted(tensor); };
  const GgufFile& file = source.files()[0];
  GgufWriter writer;
  for (const GgufValue& value : file.values()) writer.CopyValue(file, value);
  for (const TensorInfo* tensor : source.All()) {
    writer.AddTensor(tensor->name, adapted(*tensor) ? Format::kF32 : tensor->format, Dims(tensor->shape));
  }
  ASSERT_TRUE(writer.Begin(path).ok());
  for (const TensorInfo* tensor : source.All()) {
    std::vector<uint8_t> bytes(static_cast<size_t>(tensor->bytes));
    ASSERT_TRUE(source.Read(*tensor, 0, bytes.data(), bytes.size()).ok());
    if (!adapted(*tensor)) {
      ASSERT_TRUE(writer.Append(bytes.data(), bytes.size()).ok());
      continue;
    }
    std::vector<float> weights(tensor->shape.elements());
    const size_t columns = tensor->shape.columns(), row_bytes = RowBytes(tensor->format, columns);
    for (size_t r = 0; r < tensor->shape.rows(); ++r) {
      Traits(tensor->format).dequantize(bytes.data() + r * row_bytes, weights.data() + r * columns, columns);
    }
    std::vector<double> sums(weights.begin(), weights.end());
    for (const ScaledAdapter& scaled : adapters) scaled.adapter->MergeInto(tensor->name, scaled.scale, sums);
    for (size_t i = 0; i < sums.size(); ++i) weights[i] = static_cast<float>(sums[i]);
    ASSERT_TRUE(writer.Append(weights.data(), weights.size() * sizeof(float)).ok());
  }
  ASSERT_TRUE(writer.Finish().ok());
}

}  // namespace moonlit::test
