// SPDX-License-Identifier: Apache-2.0
// From tensor names to graph weights, with the shapes that the architecture expects.
//
//   WeightBinder bind(source, "llama", &graph);
//   WeightId norm = bind.Vector("output_norm.weight", d);
//   WeightId bias = bind.OptionalVector(LayerTensor(3, "attn_q.bias"), n);   // kNoWeight when the file has none
//   MOONLIT_RETURN_IF_ERROR(bind.status());
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/graph/graph.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

// "blk.3.ffn_up.weight"
std::string LayerTensor(size_t layer, const char* stem);

class WeightBinder {
 public:
  // Source and graph outlive the binder.
  WeightBinder(const WeightSource& source, std::string architecture, Graph* graph)
      : source_(source), architecture_(std::move(architecture)), graph_(graph) {}

  WeightId Matrix(const std::string& name, size_t outputs, size_t inputs) {
    return Bind(name, {outputs, inputs}, false);
  }
  // Rows [first, first + count) of a matrix or entries of a vector of the given shape, where a file keeps together what the graph has
  // apart. The vector is optional.
  WeightId MatrixRows(const std::string& name, size_t outputs, size_t inputs, size_t first, size_t count);
  WeightId OptionalVectorPart(const std::string& name, size_t size, size_t first, size_t count);
  // Several rows that are kept as floats, for what is no factor of a product.
  WeightId Table(const std::string& name, size_t rows, size_t columns);
  // One row of a table as a vector.
  WeightId Row(const std::string& name, size_t rows, size_t columns, size_t row);
  bool Has(const std::string& name) const { return source_.Find(name) != nullptr; }
  WeightId Vector(const std::string& name, size_t size) { return Bind(name, {size}, false); }
  // One matrix an expert: [experts, outputs, inputs].
  WeightId Experts(const std::string& name, size_t experts, size_t outputs, size_t inputs) {
    return Bind(name, {experts, outputs, inputs}, false);
  }
  WeightId OptionalMatrix(const std::string& name, size_t outputs, size_t inputs) {
    return Bind(name, {outputs, inputs}, true);
  }
  WeightId OptionalVector(const std::string& name, size_t size) { return Bind(name, {size}, true); }

  // Outermost dimensions of 1 may be missing in the file. Missing tensors: kUnsupported, reshaped ones alone: kCorrupt, with
  // architecture and, of the first kListedFaults, tensor, expected and found.
  Status status() const;
  static constexpr size_t kListedFaults = 8;
  // Tensors of the file that nobody asked for, in file order.
  std::vector<std::string> Unused() const;

 private:
  WeightId Bind(const std::string& name, Shape shape, bool optional);
  // Whether the file has the tensor in this shape; notes that it is used, or the fault.
  bool Check(const std::string& name, const Shape& shape, bool optional);
  const WeightSource& source_;
  std::string architecture_;
  Graph* graph_;
  void AddFault(const std::string& name, const Shape& shape, const std::string& found);
  std::set<std::string> used_, faulty_;
  std::string faults_;    // of the first ones, in the order of the graph
  bool missing_ = false;  // any of them is in the file not at all
};

}  // namespace moonlit
