// SPDX-License-Identifier: Apache-2.0
#include "runtime/threads/topology.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <thread>

namespace moonlit {
namespace {

std::optional<std::string> ReadLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!file || !std::getline(file, line)) return std::nullopt;
  return line;
}

std::optional<long long> ReadNumber(const std::string& path) {
  const auto line = ReadLine(path);
  if (!line) return std::nullopt;
  char* end = nullptr;
  const long long value = std::strtoll(line->c_str(), &end, 10);
  if (end == line->c_str()) return std::nullopt;
  return value;
}

// "0-3,8,10-11" (Documentation/admin-guide/cputopology.rst). Anything odd ends the list.
std::vector<int> ParseCpuList(const std::string& text) {
  constexpr long kMostCpus = 65536;
  std::vector<int> cpus;
  const char* p = text.c_str();
  while (*p >= '0' && *p <= '9') {
    char* end = nullptr;
    const long first = std::strtol(p, &end, 10);
    long last = first;
    if (*end == '-') last = std::strtol(end + 1, &end, 10);
    if (first < 0 || last < first || last >= kMostCpus) break;
    for (long cpu = first; cpu <= last; ++cpu) cpus.push_back(static_cast<int>(cpu));
    if (*end != ',') break;
    p = end + 1;
  }
  return cpus;
}

std::vector<int> AllowedCpus(const TopologyRoot& root) {
  if (!root.affinity.empty()) return root.affinity;
  std::vector<int> cpus;
#ifdef __linux__
  if (root.root.empty()) {
    // The kernel refuses a set that is smaller than its own, so grow until it fits.
    for (int capacity = 1024; capacity <= 65536 && cpus.empty(); capacity *= 2) {
      cpu_set_t* set = CPU_ALLOC(static_cast<size_t>(capacity));
      if (set == nullptr) break;
      const size_t bytes = CPU_ALLOC_SIZE(static_cast<size_t>(capacity));
      if (sched_getaffinity(0, bytes, set) == 0) {
        for (int cpu = 0; cpu < capacity; ++cpu) {
          if (CPU_ISSET_S(static_cast<size_t>(cpu), bytes, set)) cpus.push_back(cpu);
        }
      }
      CPU_FREE(set);
    }
    if (!cpus.empty()) return cpus;
  }
#endif
  if (const auto online = ReadLine(root.root + "/sys/devices/system/cpu/online")) return ParseCpuList(*online);
  return cpus;
}

// The smallest sibling names the core.
int CoreOf(const std::string& cpu_folder, int cpu) {
  for (const char* name : {"/topology/core_cpus_list", "/topology/thread_siblings_list"}) {
    if (const auto line = ReadLine(cpu_folder + name)) {
      const std::vector<int> siblings = ParseCpuList(*line);
      if (!siblings.empty()) return *std::min_element(siblings.begin(), siblings.end());
    }
  }
  return cpu;
}

// cpu_capacity knows the core's design as well as its clock, so one CPU without it makes all fall back to the clock.
void ReadCapacities(const std::string& cpus_folder, std::vector<Cpu>& cpus) {
  struct Source {
    const char* file;
    long long unit;
  };
  for (const Source& source : {Source{"/cpu_capacity", 1}, Source{"/cpufreq/cpuinfo_max_freq", 1000}}) {
    std::vector<unsigned> values;
    for (const Cpu& cpu : cpus) {
      const auto value = ReadNumber(cpus_folder + "/cpu" + std::to_string(cpu.id) + source.file);
      if (!value || *value <= 0 || *value / source.unit > 0x7fffffff) break;
      values.push_back(static_cast<unsigned>(*value / source.unit));
    }
    if (values.size() != cpus.size()) continue;
    for (size_t i = 0; i < cpus.size(); ++i) cpus[i].capacity = values[i];
    return;
  }
}

// Both values in microseconds; a negative or zero quota is no limit.
std::optional<double> CpusOf(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return std::nullopt;
  return static_cast<double>(quota) / static_cast<double>(period);
}

// cgroup v2: "max 100000" or "765000 100000".
std::optional<double> ReadCpuMax(const std::string& folder) {
  const auto line = ReadLine(folder + "/cpu.max");
  if (!line) return std::nullopt;
  long long quota = 0, period = 0;
  if (std::sscanf(line->c_str(), "%lld %lld", &quota, &period) != 2) return std::nullopt;
  return CpusOf(quota, period);
}

// cgroup v1.
std::optional<double> ReadCfsQuota(const std::string& folder) {
  const auto quota = ReadNumber(folder + "/cpu.cfs_quota_us");
  const auto period = ReadNumber(folder + "/cpu.cfs_period_us");
  if (!quota || !period) return std::nullopt;
  return CpusOf(*quota, *period);
}

// The tightest limit on the way from the group up to the mount. Inside a container the path may be the host's and not
// exist here; then only the mount itself is found, which is the container's own group.
void Tighten(const std::string& mount, std::string path, std::optional<double> (*read)(const std::string&),
             double& quota) {
  if (path.find("..") != std::string::npos) path.clear();
  for (;;) {
    while (!path.empty() && path.back() == '/') path.pop_back();
    if (const auto limit = read(mount + path)) quota = quota == 0 ? *limit : std::min(quota, *limit);
    if (path.empty()) return;
    path.erase(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

// Lines "hierarchy:controllers:path" (man 7 cgroups); v2 has hierarchy 0 and no controllers.
double ReadQuota(const std::string& root) {
  double quota = 0;
  const std::string mounts = root + "/sys/fs/cgroup";
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (file && std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = std::string(",").append(line, first + 1, second - first - 1).append(",");
    const std::string path = line.substr(second + 1);
    if (line.compare(0, first, "0") == 0 && controllers == ",,") {
      Tighten(mounts, path, &ReadCpuMax, quota);
      Tighten(mounts + "/unified", path, &ReadCpuMax, quota);
    } else if (controllers.find(",cpu,") != std::string::npos) {
      for (const char* name : {"/cpu", "/cpu,cpuacct", "/cpuacct,cpu"})
        Tighten(mounts + name, path, &ReadCfsQuota, quota);
    }
  }
  return quota;
}

std::string Count(size_t n, const char* what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

}  // namespace

Topology ReadTopology(const TopologyRoot& root) {
  Topology topology;
  const std::string folder = root.root + "/sys/devices/system/cpu";
  for (int id : AllowedCpus(root)) {
    topology.cpus.push_back({id, CoreOf(folder + "/cpu" + std::to_string(id), id), 0});
  }
  ReadCapacities(folder, topology.cpus);
  topology.quota = ReadQuota(root.root);
  return topology;
}

ThreadDefault DefaultThreadCount(const Topology& topology) {
  std::map<int, unsigned> cores;  // core -> capacity
  unsigned fastest = 0;
  for (const Cpu& cpu : topology.cpus) {
    unsigned& capacity = cores[cpu.core];
    capacity = std::max(capacity, cpu.capacity);
    fastest = std::max(fastest, cpu.capacity);
  }
  size_t useful = 0;
  for (const auto& [core, capacity] : cores) useful += 2 * static_cast<uint64_t>(capacity) >= fastest ? 1 : 0;
  std::string reason;
  if (cores.empty()) {
    useful = std::max(1u, std::thread::hardware_concurrency());
    reason = Count(useful, "CPU") + " reported by the system, whose topology is unknown";
  } else {
    reason = Count(useful, "physical core");
    if (useful < topology.cpus.size()) reason += " of " + Count(topology.cpus.size(), "allowed CPU");
    if (useful < cores.size())
      reason += "; " + Count(cores.size() - useful, "core") + " of less than half the speed left out";
  }
  ThreadDefault result{useful, std::move(reason)};
  if (topology.quota > 0) {
    const double whole = std::max(1.0, std::floor(topology.quota));
    char text[64];
    std::snprintf(text, sizeof(text), "; the container's quota is %.2f CPUs", topology.quota);
    result.reason += text;
    if (whole < static_cast<double>(result.threads)) result.threads = static_cast<size_t>(whole);
  }
  return result;
}

}  // namespace moonlit
