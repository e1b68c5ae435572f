// SPDX-License-Identifier: Apache-2.0
// How many threads are worth having: physical cores in the affinity mask, core classes (big and little), and the CPU
// quota of the container. Reads /proc and /sys below a root that tests replace by fake trees.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace moonlit {

struct Cpu {
  int id;
  int core;           // physical core; SMT siblings share it
  unsigned capacity;  // relative speed: cpu_capacity, else the maximum frequency in MHz, else 0 (unknown)
};

struct Topology {
  std::vector<Cpu> cpus;  // in the affinity mask
  double quota = 0;  // CPUs' worth of time that the cgroup grants (v1 or v2, the tightest of the path); 0: no limit
};

struct TopologyRoot {
  std::string root;           // "" for the real machine; otherwise a folder with proc/ and sys/ in it
  std::vector<int> affinity;  // CPUs allowed; empty: ask sched_getaffinity (real machine only)
};
Topology ReadTopology(const TopologyRoot& root = {});

struct ThreadDefault {
  size_t threads;
  std::string reason;  // one sentence for `doctor` and the log
};
// min(physical cores worth using, floor(quota) but at least 1). Cores slower than half of the fastest class are left
// out unless they are the only ones; the pool's dynamic claiming copes with milder differences.
ThreadDefault DefaultThreadCount(const Topology& topology);

}  // namespace moonlit
