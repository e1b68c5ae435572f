// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/inspect_memory.h"

#include <cinttypes>
#include <cstdio>
#include <fstream>

namespace moonlit::cli {
namespace {

// "max" is no number, and no limit.
std::optional<uint64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

std::optional<uint64_t> ReadAvailable(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    uint64_t kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %" SCNu64 " kB", &kib) == 1) return kib * 1024;
  }
  return std::nullopt;
}

struct LimitFiles {
  const char* limit;
  const char* used;
};

// The least that is left on the way from the group up to the mount. Inside a container the path may be the host's and not exist here;
// then only the mount itself is found, which is the container's own group.
void Tighten(const std::string& mount, std::string path, const LimitFiles& files, std::optional<uint64_t>& left) {
  if (path.find("..") != std::string::npos) path.clear();
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    const auto limit = ReadNumber(mount + path + files.limit), used = ReadNumber(mount + path + files.used);
    if (limit && used) {
      const uint64_t here = *limit > *used ? *limit - *used : 0;
      if (!left || here < *left) left = here;
    }
    if (path.empty()) return;
    const size_t parent = path.find_last_of('/');
    path.erase(parent == std::string::npos ? 0 : parent);
  }
}

// Lines "hierarchy:controllers:path" (man 7 cgroups); v2 has hierarchy 0 and no controllers.
std::optional<uint64_t> ReadGroupsLeft(const std::string& root) {
  constexpr LimitFiles kV2 = {"/memory.max", "/memory.current"};
  constexpr LimitFiles kV1 = {"/memory.limit_in_bytes", "/memory.usage_in_bytes"};
  std::optional<uint64_t> left;
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (line.compare(0, first, "0") == 0 && controllers == ",,") {
      Tighten(mounts, path, kV2, left);
      Tighten(mounts + "/unified", path, kV2, left);
    } else if (controllers.find(",memory,") != std::string::npos) {
      Tighten(mounts + "/memory", path, kV1, left);
    }
  }
  return left;
}

}  // namespace

std::optional<FreeMemory> ReadFreeMemory(const std::string& root) {
  const std::optional<uint64_t> available = ReadAvailable(root), left = ReadGroupsLeft(root);
  if (left && (!available || *left < *available)) return FreeMemory{*left, "left of the container's limit"};
  if (available) return FreeMemory{*available, "available by /proc/meminfo"};
  return std::nullopt;
}

}  // namespace moonlit::cli
