// SPDX-License-Identifier: Apache-2.0
#include "models/common/weight_binder.h"

namespace moonlit {

std::string LayerTensor(size_t layer, const char* stem) { return "blk." + std::to_string(layer) + "." + stem; }

void WeightBinder::AddFault(const std::string& name, const Shape& shape, const std::string& found) {
  if (!faulty_.insert(name).second || faulty_.size() > kListedFaults) return;
  faults_ += (faults_.empty() ? "tensor " : "; ") + name + " " + shape.ToString() + ", the file has " + found;
}

Status WeightBinder::status() const {
  if (faulty_.empty()) return Status();
  const std::string more =
      faulty_.size() > kListedFaults ? "; and " + std::to_string(faulty_.size() - kListedFaults) + " more" : "";
  // A tensor that is missing is another model than this build knows under the name; one of another shape contradicts the sizes.
  return Errorf(missing_ ? Code::kUnsupported : Code::kCorrupt, "%s: architecture %s needs %s%s%s",
                source_.description().c_str(), architecture_.c_str(), faults_.c_str(), more.c_str(),
                missing_ ? "; the file looks complete" : "");
}

bool WeightBinder::Check(const std::string& name, const Shape& shape, bool optional) {
  const TensorInfo* tensor = source_.Find(name);
  if (tensor == nullptr) {
    if (optional) return false;
    missing_ = true;
    AddFault(name, shape, "none");
    return false;
  }
  used_.insert(name);
  if (!tensor->shape.Matches(shape)) AddFault(name, shape, tensor->shape.ToString());
  return true;
}

WeightId WeightBinder::Bind(const std::string& name, Shape shape, bool optional) {
  if (!Check(name, shape, optional) && optional) return kNoWeight;
  return graph_->Weight(name, shape);
}

WeightId WeightBinder::MatrixRows(const std::string& name, size_t outputs, size_t inputs, size_t first, size_t count) {
  Check(name, {outputs, inputs}, false);
  return graph_->Rows(name, {outputs, inputs}, first, count);
}

WeightId WeightBinder::OptionalVectorPart(const std::string& name, size_t size, size_t first, size_t count) {
  if (!Check(name, {size}, true)) return kNoWeight;
  return graph_->Rows(name, {size}, first, count);
}

WeightId WeightBinder::Table(const std::string& name, size_t rows, size_t columns) {
  Check(name, {rows, columns}, false);
  return graph_->Table(name, {rows, columns});
}

WeightId WeightBinder::Row(const std::string& name, size_t rows, size_t columns, size_t row) {
  Check(name, {rows, columns}, false);
  return graph_->Row(name, {rows, columns}, row);
}

std::vector<std::string> WeightBinder::Unused() const {
  std::vector<std::string> unused;
  for (const TensorInfo* tensor : source_.All()) {
    if (!used_.contains(tensor->name)) unused.push_back(tensor->name);
  }
  return unused;
}

}  // namespace moonlit
