// SPDX-License-Identifier: Apache-2.0
// F32 tensors that a program makes itself, for graphs that come from no file: lessons, examples, measurements.
//
//   MemoryWeights weights;
//   weights.Add("w_q", {8, 16}, values);   // row-major, [outputs, inputs]
//   Plan::Create(graph, weights, options);
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/weights/weight_source.h"

namespace moonlit {

// Not thread safe while tensors are added, afterwards as every WeightSource.
class MemoryWeights : public WeightSource {
 public:
  // Keeps a copy; the same name again replaces the tensor. kInvalidArgument: other than shape.elements() values.
  Status Add(const std::string& name, const Shape& shape, std::span<const float> values);

  const TensorInfo* Find(std::string_view name) const override;
  std::vector<const TensorInfo*> All() const override;  // by name
  Status Read(const TensorInfo& tensor, uint64_t offset, void* out, size_t size) const override;
  std::string description() const override { return "memory"; }

 private:
  struct Entry {
    TensorInfo info;
    std::vector<float> values;
  };
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace moonlit
