// SPDX-License-Identifier: Apache-2.0
#include "tests/support/temp_folder.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "kernels/base/check.h"

namespace moonlit {

TempFolder::TempFolder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "moonlit_test_XXXXXX").string();
  MOONLIT_CHECK(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempFolder::~TempFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempFolder::Write(const std::string& name, std::string_view bytes) const {
  const std::string path = path_ + "/" + name;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  MOONLIT_CHECK(out.good());
  return path;
}

size_t TempFolder::FileCount() const {
  return static_cast<size_t>(
      std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator()));
}

std::string ReadWholeFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  MOONLIT_CHECK(in.good());
  return std::string(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
}

}  // namespace moonlit
