// SPDX-License-Identifier: Apache-2.0
// A folder of a test's own, removed with what is in it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace moonlit {

class TempFolder {
 public:
  TempFolder();
  ~TempFolder();
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  const std::string& path() const { return path_; }
  // Writes the file and returns its full path.
  std::string Write(const std::string& name, std::string_view bytes) const;
  size_t FileCount() const;

 private:
  std::string path_;
};

// The whole file; fails the program when it can't be read.
std::string ReadWholeFile(const std::string& path);

}  // namespace moonlit
