// SPDX-License-Identifier: Apache-2.0
#include "models/common/weight_binder.h"

namespace moonlit {

std::string LayerTensor(size_t layer, const char* stem) { return "blk." + std::to_string(layer) + "." + stem; }

WeightId WeightBinder::Bind(const std::string& name, Shape shape, bool optional) {
  const TensorInfo* tensor = source_.Find(name);
  if (tensor == nullptr) {
    if (!optional && status_.ok()) {
      status_ =
          Errorf(Code::kCorrupt, "%s: architecture %s needs tensor %s %s, the file has none; the file looks complete",
                 source_.description().c_str(), architecture_.c_str(), name.c_str(), shape.ToString().c_str());
    }
    if (optional) return kNoWeight;
  } else {
    used_.insert(name);
    if (!tensor->shape.Matches(shape) && status_.ok()) {
      status_ = Errorf(Code::kCorrupt, "%s: architecture %s needs tensor %s %s, the file has %s",
                       source_.description().c_str(), architecture_.c_str(), name.c_str(), shape.ToString().c_str(),
                       tensor->shape.ToString().c_str());
    }
  }
  return graph_->Weight(name, shape);
}

std::vector<std::string> WeightBinder::Unused() const {
  std::vector<std::string> unused;
  for (const TensorInfo* tensor : source_.All()) {
    if (!used_.contains(tensor->name)) unused.push_back(tensor->name);
  }
  return unused;
}

}  // namespace moonlit
