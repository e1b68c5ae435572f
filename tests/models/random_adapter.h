// SPDX-License-Identifier: Apache-2.0
// A LoRA adapter of random numbers for a fixture model: as a file, and merged into the model's weights in float64, which is what
// adapted products are judged by.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/weights/gguf_source.h"
#include "runtime/weights/memory_weights.h"

namespace moonlit::test {

class RandomAdapter {
 public:
  // Of every matrix of the source that a product multiplies with (not of embeddings, nor of experts).
  RandomAdapter(const GgufSource& source, size_t rank, float alpha, uint64_t seed);

  // NAME.lora_a and NAME.lora_b in F32.
  MemoryWeights Tensors() const;
  void Write(const std::string& path, const std::string& architecture) const;
  float alpha() const { return alpha_; }
  const std::vector<std::string>& names() const { return names_; }

  // values [outputs, inputs] of tensor `name` += scale * (alpha / rank) * B A.
  void MergeInto(const std::string& name, float scale, std::vector<double>& values) const;

 private:
  struct Pair {
    size_t outputs, inputs;
    std::vector<float> a, b;  // [rank, inputs], [outputs, rank]
  };
  size_t rank_;
  float alpha_;
  std::vector<std::string> names_;
  std::map<std::string, Pair> pairs_;
};

struct ScaledAdapter {
  const RandomAdapter* adapter;
  float scale;
};

// The model with the adapters merged into its weights, which become F32 where they are adapted, as a GGUF file.
void WriteMerged(const GgufSource& source, const std::vector<ScaledAdapter>& adapters, const std::string& path);

}  // namespace moonlit::test
