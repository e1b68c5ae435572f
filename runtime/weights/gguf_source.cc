// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/gguf_source.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <new>

#include "runtime/base/quote.h"
#include "runtime/weights/fingerprint.h"

namespace moonlit {
namespace {

// "folder/model-00002-of-00005.gguf" -> "folder/model", 2, 5. The naming of the tool that makes split sets (llama.cpp's gguf-split).
struct SplitName {
  std::string prefix;
  size_t part = 0;  // from 1
  size_t count = 0;
};

bool ParseDigits(std::string_view text, size_t* value) {
  *value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return false;
    *value = *value * 10 + static_cast<size_t>(c - '0');
  }
  return true;
}

bool ParseSplitName(const std::string& path, SplitName* name) {
  constexpr std::string_view kPattern = "-00000-of-00000.gguf";
  if (path.size() <= kPattern.size()) return false;
  const std::string_view tail = std::string_view(path).substr(path.size() - kPattern.size());
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || tail.substr(15) != ".gguf") return false;
  if (!ParseDigits(tail.substr(1, 5), &name->part) || !ParseDigits(tail.substr(10, 5), &name->count)) return false;
  name->prefix = path.substr(0, path.size() - kPattern.size());
  return true;
}

std::string PartPath(const std::string& prefix, size_t part, size_t count) {
  char tail[64];
  std::snprintf(tail, sizeof(tail), "-%05zu-of-%05zu.gguf", part, count);
  return prefix + tail;
}

// The first few names and how many more.
std::string ListNames(const std::vector<std::string>& names) {
  constexpr size_t kShown = 4;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kShown) text += " and " + std::to_string(names.size() - kShown) + " more";
  return text;
}

// What all parts lack, found before any is opened so that one message names them all.
Status CheckPresent(const SplitName& name) {
  std::vector<std::string> missing;
  for (size_t part = 1; part <= name.count; ++part) {
    std::string path = PartPath(name.prefix, part, name.count);
    Result<File> file = File::Open(path);
    if (file.ok()) continue;
    if (file.status().code() != Code::kNotFound) return file.status();
    missing.push_back(std::move(path));
  }
  if (missing.empty()) return Status();
  return Errorf(
      Code::kNotFound, "%s: expected all %zu parts of the model in one folder, %zu missing: %s; download the rest",
      PartPath(name.prefix, name.part, name.count).c_str(), name.count, missing.size(), ListNames(missing).c_str());
}

Result<TensorInfo> MakeInfo(const GgufFile& file, const GgufTensor& tensor) {
  if (!tensor.type->supported) {
    return Errorf(Code::kUnsupported,
                  "%s: tensor %s: expected a type that this build computes with, found %s; use a file of the model "
                  "in another format, for example Q4_0, Q4_K or Q8_0",
                  file.path().c_str(), QuoteForMessage(tensor.name).c_str(), tensor.type->name);
  }
  TensorInfo info;
  info.name = std::string(tensor.name);
  info.format = tensor.type->format;
  info.bytes = tensor.bytes;
  uint64_t elements = 1;
  for (size_t i = 0; i < tensor.rank; ++i) {
    elements *= tensor.dims[i];  // the reader proved that it fits 63 bits
    info.shape.Append(static_cast<size_t>(tensor.dims[i]));
  }
  if (elements > std::numeric_limits<size_t>::max() || tensor.bytes > std::numeric_limits<size_t>::max()) {
    return Errorf(Code::kUnsupported, "%s: tensor %s has %" PRIu64 " elements, more than this build's addresses reach",
                  file.path().c_str(), QuoteForMessage(tensor.name).c_str(), elements);
  }
  return info;
}

}  // namespace

Result<std::unique_ptr<GgufSource>> GgufSource::Open(const std::string& path) {
  MOONLIT_ASSIGN_OR_RETURN(GgufFile named, GgufFile::Open(path));
  std::unique_ptr<GgufSource> source(new GgufSource);
  const GgufValue* split = named.Find("split.count");
  uint32_t parts = 1;
  if (split != nullptr) {
    MOONLIT_ASSIGN_OR_RETURN(parts, named.GetU32("split.count"));
  }
  if (parts == 1) {
    source->files_.push_back(std::move(named));
  } else {
    MOONLIT_RETURN_IF_ERROR(source->OpenParts(path, named));
  }
  MOONLIT_RETURN_IF_ERROR(source->AddTensors());
  MOONLIT_RETURN_IF_ERROR(source->CheckTensorCount());
  source->metadata_ = std::make_unique<GgufMetadata>(&source->files_[0]);
  return source;
}

Result<std::unique_ptr<GgufSource>> GgufSource::OpenMemory(const void* bytes, size_t size, const std::string& name) {
  MOONLIT_ASSIGN_OR_RETURN(GgufFile file, GgufFile::OpenMemory(bytes, size, name));
  std::unique_ptr<GgufSource> source(new GgufSource);
  source->files_.push_back(std::move(file));
  MOONLIT_RETURN_IF_ERROR(source->AddTensors());
  source->metadata_ = std::make_unique<GgufMetadata>(&source->files_[0]);
  return source;
}

Status GgufSource::OpenParts(const std::string& path, const GgufFile& named) {
  MOONLIT_ASSIGN_OR_RETURN(const uint32_t count, named.GetU32("split.count"));
  SplitName name;
  if (!ParseSplitName(path, &name) || name.count != count || name.part < 1 || name.part > name.count) {
    return Errorf(Code::kCorrupt,
                  "%s: expected a name that ends in -NNNNN-of-%05" PRIu32
                  ".gguf, because split.count says that it is "
                  "one of %" PRIu32 " parts, found another; give the parts their original names",
                  path.c_str(), count, count);
  }
  MOONLIT_RETURN_IF_ERROR(CheckPresent(name));
  for (size_t part = 1; part <= name.count; ++part) {
    MOONLIT_ASSIGN_OR_RETURN(GgufFile file, GgufFile::Open(PartPath(name.prefix, part, name.count)));
    files_.push_back(std::move(file));
    MOONLIT_RETURN_IF_ERROR(CheckPart(part, name.count));
  }
  return Status();
}

// files_.back() says of itself that it is part `part` (from 1) of `count`.
Status GgufSource::CheckPart(size_t part, size_t count) const {
  const GgufFile& file = files_.back();
  MOONLIT_ASSIGN_OR_RETURN(const uint32_t own_count, file.GetU32("split.count"));
  MOONLIT_ASSIGN_OR_RETURN(const uint32_t own_number, file.GetU32("split.no"));
  if (own_count == count && own_number == part - 1) return Status();
  return Errorf(Code::kCorrupt,
                "%s: expected split.no %zu of %zu, found %" PRIu32 " of %" PRIu32
                "; the file was renamed or belongs to "
                "another model, download it again",
                file.path().c_str(), part - 1, count, own_number, own_count);
}

Status GgufSource::AddTensors() {
  for (uint32_t f = 0; f < files_.size(); ++f) {
    const std::vector<GgufTensor>& tensors = files_[f].tensors();
    for (uint32_t i = 0; i < tensors.size(); ++i) {
      MOONLIT_ASSIGN_OR_RETURN(TensorInfo info, MakeInfo(files_[f], tensors[i]));
      entries_.push_back(Entry{std::move(info), f, i});
    }
  }
  by_name_.resize(entries_.size());
  for (size_t i = 0; i < entries_.size(); ++i) by_name_[i] = static_cast<uint32_t>(i);
  std::sort(by_name_.begin(), by_name_.end(),
            [this](uint32_t a, uint32_t b) { return entries_[a].info.name < entries_[b].info.name; });
  for (size_t i = 1; i < by_name_.size(); ++i) {
    const Entry& a = entries_[by_name_[i - 1]];
    const Entry& b = entries_[by_name_[i]];
    if (a.info.name != b.info.name) continue;
    return Errorf(Code::kCorrupt,
                  "%s: expected every tensor in one part, found %s in %s too; the parts belong to different models",
                  files_[std::max(a.file, b.file)].path().c_str(), QuoteForMessage(a.info.name).c_str(),
                  files_[std::min(a.file, b.file)].path().c_str());
  }
  return Status();
}

Status GgufSource::CheckTensorCount() const {
  if (files_[0].Find("split.tensors.count") == nullptr) return Status();
  MOONLIT_ASSIGN_OR_RETURN(const uint64_t count, files_[0].GetU64("split.tensors.count"));
  if (count == entries_.size()) return Status();
  return Errorf(Code::kCorrupt,
                "%s: expected %" PRIu64
                " tensors in all parts (split.tensors.count), found %zu; download the parts again",
                files_[0].path().c_str(), count, entries_.size());
}

const TensorInfo* GgufSource::Find(std::string_view name) const {
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), name,
                       [this](uint32_t i, std::string_view wanted) { return entries_[i].info.name < wanted; });
  if (found == by_name_.end() || entries_[*found].info.name != name) return nullptr;
  return &entries_[*found].info;
}

std::vector<const TensorInfo*> GgufSource::All() const {
  std::vector<const TensorInfo*> all;
  for (const Entry& entry : entries_) all.push_back(&entry.info);
  return all;
}

Status GgufSource::Read(const TensorInfo& tensor, uint64_t offset, void* out, size_t size) const {
  // By name, not by address: a caller may hold a copy of the TensorInfo.
  const auto found =
      std::lower_bound(by_name_.begin(), by_name_.end(), tensor.name,
                       [this](uint32_t i, const std::string& wanted) { return entries_[i].info.name < wanted; });
  if (found == by_name_.end() || entries_[*found].info.name != tensor.name) {
    return Errorf(Code::kInvalidArgument, "%s has no tensor %s to read", description().c_str(),
                  QuoteForMessage(tensor.name).c_str());
  }
  const Entry& entry = entries_[*found];
  return files_[entry.file].ReadTensor(files_[entry.file].tensors()[entry.index], offset, out, size);
}

Result<uint64_t> WeightSource::Fingerprint() const {
  return Errorf(Code::kUnsupported, "%s is no file that could be known again", description().c_str());
}

Result<uint64_t> GgufSource::Fingerprint() const {
  Checksum sum;
  for (const GgufFile& part : files_) {
    if (part.file() == nullptr) return WeightSource::Fingerprint();
    MOONLIT_RETURN_IF_ERROR(AddFingerprint(*part.file(), part.header().data(), part.header().size(), &sum));
  }
  return sum.Value();
}

std::vector<std::string> GgufSource::Files() const {
  std::vector<std::string> paths;
  for (const GgufFile& part : files_) {
    if (part.file() != nullptr) paths.push_back(part.path());
  }
  return paths;
}

std::string GgufSource::description() const {
  if (files_.size() == 1) return files_[0].path();
  return files_[0].path() + " and its " + std::to_string(files_.size() - 1) + " other parts";
}

}  // namespace moonlit
