// SPDX-License-Identifier: Apache-2.0
// The weights of a Hugging Face folder under GGUF's names, with rows where GGUF has them. Matrices keep the folder's type (F32, F16 or
// BF16); vectors, norms and routers are F32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "models/common/hugging_face.h"
#include "runtime/base/status.h"
#include "runtime/safetensors/safetensors_set.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

// Immutable after opening; every function may be called from several threads at once.
class HuggingFaceSource : public WeightSource {
 public:
  // kUnsupported: a tensor of a type that this build can't compute with; kCorrupt: one that is empty, or whose rows do not divide
  // as heads and experts need.
  static Result<std::unique_ptr<HuggingFaceSource>> Create(SafetensorsSet set, const std::vector<MappedTensor>& tensors,
                                                           std::vector<MadeTensor> made, const std::string& folder);

  const TensorInfo* Find(std::string_view name) const override;
  std::vector<const TensorInfo*> All() const override;
  Status Read(const TensorInfo& tensor, uint64_t offset, void* out, size_t size) const override;
  std::string description() const override { return folder_; }
  // What a model may have in its folder: *.safetensors, *.json, *.jinja.
  std::vector<std::string> Files() const override;
  // Of every file: size, time of change, inode, header and 64 blocks; and what config.json makes of the tensors.
  Result<uint64_t> Fingerprint() const override;

 private:
  struct Entry {
    TensorInfo info;
    std::vector<SafetensorsEntry> parts;  // stacked one on the other; none: `made`
    std::vector<float> made;
    RowMap rows;       // of a part
    size_t part_rows;  // rows of `info` in a part
    bool add_one;
    bool widen;  // to F32
  };
  HuggingFaceSource() = default;
  Status AddTensor(const MappedTensor& tensor);
  Status OrderRows(const MappedTensor& tensor, std::vector<uint64_t>* dims, Entry* entry) const;
  Status SetShape(const MappedTensor& tensor, Entry* entry) const;
  Status ReadColumns(const Entry& entry, size_t first, size_t count, uint8_t* out) const;
  Status ReadVector(const Entry& entry, uint8_t* out) const;
  Status ReadRows(const Entry& entry, size_t first, size_t count, uint8_t* out) const;

  SafetensorsSet set_;
  std::string folder_;
  std::vector<Entry> entries_;  // never grows after opening
  std::unordered_map<std::string_view, size_t> by_name_;
};

}  // namespace moonlit
