// SPDX-License-Identifier: Apache-2.0
#include "models/poet/poet.h"

#include <dlfcn.h>

#include <climits>
#include <cstdlib>
#include <vector>
#ifdef __APPLE__
#include <mach-o/dyld.h>
#else
#include <unistd.h>
#endif

#include "runtime/base/file.h"

namespace moonlit {
namespace {

constexpr const char* kFileName = "/poet-Q4_0.gguf";

// Empty where the path has none.
std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

// Empty when the system does not say.
std::string ProgramFolder() {
  char path[PATH_MAX + 1] = {};
#ifdef __APPLE__
  uint32_t size = PATH_MAX;
  if (_NSGetExecutablePath(path, &size) != 0) return std::string();
#else
  if (readlink("/proc/self/exe", path, PATH_MAX) <= 0) return std::string();
#endif
  return FolderOf(path);
}

// Of the file that holds this code, a shared library or the program; links are followed. Empty when the system does not say.
std::string LibraryFolder() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<const void*>(&FindPoet), &info) == 0 || info.dli_fname == nullptr) return std::string();
  char path[PATH_MAX];
  return realpath(info.dli_fname, path) == nullptr ? std::string() : FolderOf(path);
}

}  // namespace

Result<std::string> FindPoet() {
  std::vector<std::string> places;
  const char* data_folder = std::getenv("MOONLIT_DATA_DIR");
  if (data_folder != nullptr && data_folder[0] != '\0') places.push_back(data_folder);
  const std::string program_folder = ProgramFolder();
  const std::string library_folder = LibraryFolder();
  for (const std::string& folder :
       {program_folder, library_folder == program_folder ? std::string() : library_folder}) {
    if (folder.empty()) continue;
    places.push_back(folder + "/../share/moonlit");
    places.push_back(folder + "/../../share/moonlit");
  }
  std::string tried;
  for (const std::string& place : places) {
    if (File::Open(place + kFileName).ok()) return place + kFileName;
    tried += (tried.empty() ? "" : ", ") + place;
  }
  return Errorf(Code::kNotFound,
                "expected the poem model %s in one of these folders, found it in none: %s; set MOONLIT_DATA_DIR",
                kFileName + 1, tried.c_str());
}

}  // namespace moonlit
