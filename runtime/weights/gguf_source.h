// SPDX-License-Identifier: Apache-2.0
// A WeightSource over one GGUF file or a split set (name-00001-of-00003.gguf ...), and the metadata of its first file.
//
//   MOONLIT_ASSIGN_OR_RETURN(auto source, GgufSource::Open("model-00001-of-00003.gguf"));
//   const TensorInfo* tensor = source->Find("token_embd.weight");
//   MOONLIT_ASSIGN_OR_RETURN(uint64_t layers, source->metadata().GetUint("llama.block_count"));
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/gguf/gguf.h"
#include "runtime/weights/metadata.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

// Immutable after opening; every function may be called from several threads at once.
class GgufSource : public WeightSource {
 public:
  // Any part of a split set may be named; the others are looked for beside it, and all must be there. Errors are those of
  // GgufFile::Open, and: kNotFound (parts of the set are missing, naming them), kCorrupt (a part that belongs to another set or
  // place, a tensor in two parts, a wrong tensor count), kUnsupported (a tensor of a type that this build can't compute with).
  static Result<std::unique_ptr<GgufSource>> Open(const std::string& path);
  // A whole file in memory, which outlives the source. `name` stands for the path in messages.
  static Result<std::unique_ptr<GgufSource>> OpenMemory(const void* bytes, size_t size, const std::string& name);

  const TensorInfo* Find(std::string_view name) const override;
  std::vector<const TensorInfo*> All() const override;
  Status Read(const TensorInfo& tensor, uint64_t offset, void* out, size_t size) const override;
  std::string description() const override;
  std::vector<std::string> Files() const override;
  // Of every file: size, time of change, inode, header, and 64 blocks of 4 KiB. Reads less than 1 MiB.
  Result<uint64_t> Fingerprint() const override;

  // Of the first file. Lives as long as the source.
  const Metadata& metadata() const { return *metadata_; }
  // In order; at least one.
  const std::vector<GgufFile>& files() const { return files_; }

 private:
  struct Entry {
    TensorInfo info;
    uint32_t file;
    uint32_t index;  // in files_[file].tensors()
  };
  GgufSource() = default;
  Status OpenParts(const std::string& path, const GgufFile& named);
  Status CheckPart(size_t part, size_t count) const;
  Status AddTensors();
  Status CheckTensorCount() const;

  std::vector<GgufFile> files_;
  std::unique_ptr<Metadata> metadata_;
  std::vector<Entry> entries_;     // never grows after opening: TensorInfo pointers stay
  std::vector<uint32_t> by_name_;  // indices, sorted by name
};

// Metadata of one GGUF file, which outlives it.
class GgufMetadata : public Metadata {
 public:
  explicit GgufMetadata(const GgufFile* file) : file_(file) {}
  bool Has(std::string_view key) const override;
  bool IsArray(std::string_view key) const override;
  Result<uint64_t> GetUint(std::string_view key) const override;
  Result<int64_t> GetInt(std::string_view key) const override;
  Result<double> GetFloat(std::string_view key) const override;
  Result<bool> GetBool(std::string_view key) const override;
  Result<std::string> GetString(std::string_view key) const override;
  Result<std::vector<int64_t>> GetInts(std::string_view key) const override;
  Result<std::vector<float>> GetFloats(std::string_view key) const override;
  Result<std::vector<std::string>> GetStrings(std::string_view key) const override;

 private:
  const GgufFile* file_;
};

}  // namespace moonlit
