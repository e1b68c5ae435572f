// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/memory_weights.h"

#include <cstring>

namespace moonlit {

Status MemoryWeights::Add(const std::string& name, const Shape& shape, std::span<const float> values) {
  if (values.size() != shape.elements() || values.empty()) {
    return Errorf(Code::kInvalidArgument, "tensor %s: expected %s, and at least one value, it was given %zu values",
                  name.c_str(), shape.ToString().c_str(), values.size());
  }
  const TensorInfo info{name, Format::kF32, shape, uint64_t{values.size()} * sizeof(float)};
  entries_.insert_or_assign(name, Entry{info, {values.begin(), values.end()}});
  return Status();
}

const TensorInfo* MemoryWeights::Find(std::string_view name) const {
  const auto entry = entries_.find(name);
  return entry == entries_.end() ? nullptr : &entry->second.info;
}

std::vector<const TensorInfo*> MemoryWeights::All() const {
  std::vector<const TensorInfo*> all;
  for (const auto& [name, entry] : entries_) all.push_back(&entry.info);
  return all;
}

Status MemoryWeights::Read(const TensorInfo& tensor, uint64_t offset, void* out, size_t size) const {
  const auto entry = entries_.find(tensor.name);
  if (entry == entries_.end() || offset > tensor.bytes || size > tensor.bytes - offset) {
    return Errorf(Code::kCorrupt, "tensor %s: bytes %llu to %llu are wanted, it has %llu", tensor.name.c_str(),
                  static_cast<unsigned long long>(offset), static_cast<unsigned long long>(offset + size),
                  static_cast<unsigned long long>(entry == entries_.end() ? 0 : tensor.bytes));
  }
  const auto* bytes = reinterpret_cast<const uint8_t*>(entry->second.values.data());
  std::memcpy(out, bytes + static_cast<size_t>(offset), size);
  return Status();
}

}  // namespace moonlit
