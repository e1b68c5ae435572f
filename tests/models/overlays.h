// SPDX-License-Identifier: Apache-2.0
// A file seen with one thing changed, so that what a reader refuses needs no file of its own.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/weights/metadata.h"
#include "runtime/weights/weight_source.h"

namespace moonlit::test {

// The metadata of a file, with some integers, numbers or strings replaced, or keys hidden.
class MetadataOverlay : public Metadata {
 public:
  explicit MetadataOverlay(const Metadata& base) : base_(base) {}
  std::map<std::string, std::vector<int64_t>, std::less<>> ints;
  std::map<std::string, double, std::less<>> numbers;
  std::map<std::string, std::string, std::less<>> strings;
  std::string hidden;

  bool Has(std::string_view key) const override {
    return key != hidden && (ints.contains(key) || numbers.contains(key) || strings.contains(key) || base_.Has(key));
  }
  bool IsArray(std::string_view key) const override {
    if (auto it = ints.find(key); it != ints.end()) return it->second.size() != 1;
    return base_.IsArray(key);
  }
  Result<uint64_t> GetUint(std::string_view key) const override {
    const std::string name(key);
    if (strings.contains(key)) return Errorf(Code::kCorrupt, "%s is a string", name.c_str());
    if (auto it = ints.find(key); it != ints.end()) {
      if (it->second[0] < 0) return Errorf(Code::kCorrupt, "%s is negative", name.c_str());
      return static_cast<uint64_t>(it->second[0]);
    }
    return base_.GetUint(key);
  }
  Result<int64_t> GetInt(std::string_view key) const override {
    if (auto it = ints.find(key); it != ints.end()) return it->second[0];
    return base_.GetInt(key);
  }
  Result<double> GetFloat(std::string_view key) const override {
    if (auto it = numbers.find(key); it != numbers.end()) return it->second;
    return base_.GetFloat(key);
  }
  Result<bool> GetBool(std::string_view key) const override {
    if (auto it = ints.find(key); it != ints.end()) return it->second[0] != 0;
    return base_.GetBool(key);
  }
  Result<std::string> GetString(std::string_view key) const override {
    if (auto it = strings.find(key); it != strings.end()) return it->second;
    return base_.GetString(key);
  }
  Result<std::vector<int64_t>> GetInts(std::string_view key) const override {
    if (auto it = ints.find(key); it != ints.end()) return it->second;
    return base_.GetInts(key);
  }
  Result<std::vector<float>> GetFloats(std::string_view key) const override { return base_.GetFloats(key); }
  Result<std::vector<std::string>> GetStrings(std::string_view key) const override { return base_.GetStrings(key); }

 private:
  const Metadata& base_;
};

// The tensors of a file, with one hidden or of another shape, or one more.
class SourceOverlay : public WeightSource {
 public:
  explicit SourceOverlay(const WeightSource& base) : base_(base) {}
  std::string hidden;
  std::optional<TensorInfo> replaced;

  const TensorInfo* Find(std::string_view name) const override {
    if (replaced && replaced->name == name) return &*replaced;
    return name == hidden ? nullptr : base_.Find(name);
  }
  std::vector<const TensorInfo*> All() const override {
    std::vector<const TensorInfo*> all = base_.All();
    std::erase_if(all, [&](const TensorInfo* tensor) { return tensor->name == hidden; });
    if (replaced && base_.Find(replaced->name) == nullptr) all.push_back(&*replaced);
    return all;
  }
  Status Read(const TensorInfo& tensor, uint64_t offset, void* out, size_t size) const override {
    return base_.Read(tensor, offset, out, size);
  }
  std::string description() const override { return "fixture"; }

 private:
  const WeightSource& base_;
};

}  // namespace moonlit::test
