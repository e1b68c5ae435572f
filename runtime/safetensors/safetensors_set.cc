// SPDX-License-Identifier: Apache-2.0
#include "runtime/safetensors/safetensors_set.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/base/quote.h"
#include "runtime/json/json.h"
#include "runtime/safetensors/safetensors_header.h"

namespace moonlit {
namespace {

constexpr char kSingle[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr uint64_t kMostIndexBytes = uint64_t{64} << 20;

using Map = std::map<std::string, std::string>;  // tensor to file

Status BrokenIndex(const std::string& path, const std::string& why) {
  return Errorf(Code::kCorrupt, "file %s: %s; download it again", path.c_str(), why.c_str());
}

// A name inside the folder, and none that a path could hide in.
bool IsPlainName(const std::string& name) {
  return !name.empty() && name[0] != '.' && name.find('/') == std::string::npos &&
         name.find('\\') == std::string::npos && name.find('\0') == std::string::npos && name.ends_with(".safetensors");
}

Result<Map> ReadIndex(const std::string& path) {
  MOONLIT_ASSIGN_OR_RETURN(const std::string text, ReadText(path, kMostIndexBytes));
  const Result<Json> json = ParseJson(text);
  if (json.status().code() == Code::kOutOfMemory) return json.status();
  const Json files = json.ok() ? json->Get("weight_map") : Json();
  if (!files.is_object()) return BrokenIndex(path, "expected JSON with an object \"weight_map\"");
  Map map;
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string tensor(files.Key(i)), name(files[i].is_string() ? files[i].AsString() : "");
    if (!IsPlainName(name)) {
      return BrokenIndex(path, "weight_map: expected the name of a .safetensors file of this folder for tensor " +
                                   QuoteForMessage(tensor) + ", found " + QuoteForMessage(name));
    }
    map[tensor] = name;
  }
  if (map.empty()) return BrokenIndex(path, "weight_map names no tensor");
  return map;
}

bool Exists(const std::string& path) {
  const Result<File> file = File::Open(path);
  return file.ok() || file.status().code() != Code::kNotFound;
}

Status CheckPresent(const std::string& folder, const std::set<std::string>& names) {
  std::string missing;
  for (const std::string& name : names) {
    if (!Exists(folder + "/" + name)) missing += (missing.empty() ? "" : ", ") + name;
  }
  if (missing.empty()) return Status();
  return Errorf(Code::kNotFound, "folder %s: expected the %zu files that %s names, found no %s; download them",
                folder.c_str(), names.size(), kIndex, missing.c_str());
}

}  // namespace

Result<SafetensorsSet> SafetensorsSet::Open(const std::string& folder) {
  SafetensorsSet set;
  Map map;
  std::set<std::string> names = {kSingle};
  const std::string index = folder + "/" + kIndex;
  if (Exists(index)) {
    MOONLIT_ASSIGN_OR_RETURN(map, ReadIndex(index));
    names.clear();
    for (const auto& [tensor, name] : map) names.insert(name);
    MOONLIT_RETURN_IF_ERROR(CheckPresent(folder, names));
  } else if (!Exists(folder + "/" + kSingle)) {
    return Errorf(Code::kNotFound,
                  "folder %s: expected %s or %s, found neither; download the model's weights as safetensors",
                  folder.c_str(), kSingle, kIndex);
  }
  for (const std::string& name : names) {
    MOONLIT_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(folder + "/" + name));
    set.files_.push_back(std::move(file));
  }
  for (const SafetensorsFile& file : set.files_) {
    for (const SafetensorsTensor& tensor : file.tensors()) set.entries_.push_back({&tensor, &file});
  }
  std::sort(set.entries_.begin(), set.entries_.end(),
            [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return a.tensor->name < b.tensor->name; });
  for (size_t i = 1; i < set.entries_.size(); ++i) {
    if (set.entries_[i].tensor->name != set.entries_[i - 1].tensor->name) continue;
    return Errorf(Code::kCorrupt, "file %s: tensor %s stands in %s too; the files belong to different models",
                  set.entries_[i].file->path().c_str(), QuoteForMessage(set.entries_[i].tensor->name).c_str(),
                  set.entries_[i - 1].file->path().c_str());
  }
  for (const auto& [tensor, name] : map) {
    const SafetensorsEntry found = set.Find(tensor);
    if (found.file != nullptr && found.file->path() == folder + "/" + name) continue;
    return BrokenIndex(index,
                       "expected tensor " + QuoteForMessage(tensor) + " in " + name + ", which does not have it");
  }
  return set;
}

SafetensorsEntry SafetensorsSet::Find(std::string_view name) const {
  const auto found = std::lower_bound(
      entries_.begin(), entries_.end(), name,
      [](const SafetensorsEntry& entry, std::string_view wanted) { return entry.tensor->name < wanted; });
  if (found == entries_.end() || found->tensor->name != name) return {nullptr, nullptr};
  return *found;
}

}  // namespace moonlit
