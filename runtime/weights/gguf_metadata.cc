// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/quote.h"
#include "runtime/weights/gguf_source.h"

namespace moonlit {

bool GgufMetadata::Has(std::string_view key) const { return file_->Find(key) != nullptr; }
bool GgufMetadata::IsArray(std::string_view key) const {
  const GgufValue* value = file_->Find(key);
  return value != nullptr && value->type == GgufType::kArray;
}
Result<uint64_t> GgufMetadata::GetUint(std::string_view key) const { return file_->GetU64(key); }
Result<int64_t> GgufMetadata::GetInt(std::string_view key) const { return file_->GetI64(key); }
Result<double> GgufMetadata::GetFloat(std::string_view key) const { return file_->GetF64(key); }
Result<bool> GgufMetadata::GetBool(std::string_view key) const { return file_->GetBool(key); }
Result<std::vector<int64_t>> GgufMetadata::GetInts(std::string_view key) const {
  const GgufValue* value = file_->Find(key);
  if (value == nullptr || value->type != GgufType::kArray || value->element != GgufType::kBool)
    return file_->GetI64Array(key);
  std::vector<int64_t> flags;
  for (char byte : file_->ValueBytes(*value)) flags.push_back(byte != 0);
  return flags;
}
Result<std::vector<float>> GgufMetadata::GetFloats(std::string_view key) const { return file_->GetF32Array(key); }

Result<std::string> GgufMetadata::GetString(std::string_view key) const {
  MOONLIT_ASSIGN_OR_RETURN(std::string_view text, file_->GetString(key));
  return std::string(text);
}

Result<std::vector<std::string>> GgufMetadata::GetStrings(std::string_view key) const {
  MOONLIT_ASSIGN_OR_RETURN(GgufStrings strings, file_->GetStringArray(key));
  try {
    std::vector<std::string> copies;
    copies.reserve(strings.size());
    for (size_t i = 0; i < strings.size(); ++i) copies.emplace_back(strings[i]);
    return copies;
  } catch (const std::bad_alloc&) {
    return Errorf(Code::kOutOfMemory, "%s: not enough memory for the %zu strings of key %s", file_->path().c_str(),
                  strings.size(), QuoteForMessage(key).c_str());
  }
}

}  // namespace moonlit
