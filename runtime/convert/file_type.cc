// SPDX-License-Identifier: Apache-2.0
#include "runtime/convert/file_type.h"

#include <algorithm>

namespace moonlit {
namespace {

struct Row {
  const char* name;
  Mixture mixture;
  Format format;
  int32_t number;
};
constexpr Row kRows[] = {
#define MOONLIT_FILE_TYPE(enumerator, name, number, format) {name, Mixture::enumerator, Format::format, number},
#include "runtime/convert/file_types.inc"
#undef MOONLIT_FILE_TYPE
};

std::string Upper(std::string_view name) {
  std::string upper(name);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return upper;
}

bool HasRow(const char* name) {
  return std::any_of(std::begin(kRows), std::end(kRows), [&](const Row& row) { return Upper(row.name) == name; });
}

}  // namespace

Result<FileType> FindFileType(std::string_view name) {
  const std::string upper = Upper(name);
  for (const Row& row : kRows) {
    if (upper == row.name) return FileType{upper, row.mixture, row.format, row.number};
  }
  Format format;
  if (!FindFormatByName(upper.c_str(), &format)) {
    return Errorf(Code::kInvalidArgument, "there is no type \"%s\": expected one of %s", std::string(name).c_str(),
                  FileTypeNames().c_str());
  }
  if (Traits(format).quantize == nullptr) {
    return Errorf(Code::kUnsupported, "%s can be read but not written: expected one of %s", upper.c_str(),
                  FileTypeNames().c_str());
  }
  return FileType{upper, Mixture::kOther, format, -1};
}

std::string FileTypeNames() {
  std::string names;
  for (const Row& row : kRows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  for (Format format : kAllFormats) {
    if (!HasRow(Traits(format).name) && Traits(format).quantize != nullptr)
      names += ", " + std::string(Traits(format).name);
  }
  return names;
}

}  // namespace moonlit
