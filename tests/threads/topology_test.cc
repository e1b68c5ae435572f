// SPDX-License-Identifier: Apache-2.0
// Fake /proc and /sys trees of machines that people have.
#include "runtime/threads/topology.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <numeric>

namespace moonlit {
namespace {

class FakeMachine {
 public:
  FakeMachine() {
    std::string name = (std::filesystem::temp_directory_path() / "moonlit_topology_XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  ~FakeMachine() { std::filesystem::remove_all(root_); }

  FakeMachine& File(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
    return *this;
  }
  // CPUs first .. last. capacity 0: no such file; likewise mhz. siblings: "" for a core of its own.
  FakeMachine& Cpus(int first, int last, unsigned capacity, unsigned mhz, const std::string& siblings = "") {
    for (int cpu = first; cpu <= last; ++cpu) {
      const std::string folder = "sys/devices/system/cpu/cpu" + std::to_string(cpu);
      File(folder + "/topology/thread_siblings_list", siblings.empty() ? std::to_string(cpu) : siblings);
      if (capacity != 0) File(folder + "/cpu_capacity", std::to_string(capacity));
      if (mhz != 0) File(folder + "/cpufreq/cpuinfo_max_freq", std::to_string(mhz * 1000));
    }
    count_ = std::max(count_, last + 1);
    return *this;
  }
  Topology Read(std::vector<int> affinity = {}) {
    File("sys/devices/system/cpu/online", "0-" + std::to_string(count_ - 1));
    return ReadTopology({root_.string(), std::move(affinity)});
  }
  size_t Threads(std::vector<int> affinity = {}) { return DefaultThreadCount(Read(std::move(affinity))).threads; }

 private:
  std::filesystem::path root_;
  int count_ = 0;
};

TEST(Cores, RaspberryPi5) {
  FakeMachine machine;
  machine.Cpus(0, 3, 0, 2400);
  const Topology topology = machine.Read();
  ASSERT_EQ(topology.cpus.size(), 4u);
  EXPECT_EQ(topology.cpus[2].capacity, 2400u);
  EXPECT_EQ(topology.quota, 0);
  EXPECT_EQ(DefaultThreadCount(topology).threads, 4u);
  EXPECT_EQ(DefaultThreadCount(topology).reason, "4 physical cores");
}

TEST(Cores, Rk3588LeavesItsLittleCoresOut) {
  FakeMachine machine;
  machine.Cpus(0, 3, 414, 1800).Cpus(4, 7, 1024, 2400);
  const ThreadDefault chosen = DefaultThreadCount(machine.Read());
  EXPECT_EQ(chosen.threads, 4u);
  EXPECT_NE(chosen.reason.find("4 cores of less than half the speed left out"), std::string::npos) << chosen.reason;
  EXPECT_EQ(machine.Threads({0, 1, 2, 3}), 4u) << "little cores are used when they are all there is";
  EXPECT_EQ(machine.Threads({0, 1, 7}), 1u);
}

TEST(Cores, PhoneWithOneThreeFour) {
  FakeMachine machine;
  machine.Cpus(0, 3, 250, 1800).Cpus(4, 6, 790, 2400).Cpus(7, 7, 1024, 2800);
  EXPECT_EQ(machine.Threads(), 4u);
}

TEST(Cores, HybridX86CountsPhysicalCores) {
  FakeMachine machine;  // two P cores with two threads each, four E cores; no cpu_capacity before Linux 6.12
  machine.Cpus(0, 1, 0, 5200, "0-1").Cpus(2, 3, 0, 5200, "2-3").Cpus(4, 7, 0, 3900);
  EXPECT_EQ(machine.Threads(), 6u);
  EXPECT_EQ(machine.Threads({0, 1}), 1u) << "two siblings are one core";
  EXPECT_EQ(machine.Threads({0, 2, 3, 4}), 3u);
}

TEST(Cores, SiblingsFarApart) {
  FakeMachine machine;
  for (int cpu = 0; cpu < 4; ++cpu) machine.Cpus(cpu, cpu, 0, 0, std::to_string(cpu) + "," + std::to_string(cpu + 4));
  for (int cpu = 4; cpu < 8; ++cpu) machine.Cpus(cpu, cpu, 0, 0, std::to_string(cpu - 4) + "," + std::to_string(cpu));
  EXPECT_EQ(machine.Threads(), 4u);
  EXPECT_EQ(machine.Threads({4, 5, 1}), 2u);
}

TEST(Cores, CapacityOfSomeCpusOnlyFallsBackToTheClock) {
  FakeMachine machine;
  machine.Cpus(0, 1, 300, 2000).Cpus(2, 3, 0, 2100);
  EXPECT_EQ(machine.Threads(), 4u);
}

TEST(Cores, NothingKnown) {
  FakeMachine machine;
  const ThreadDefault chosen = DefaultThreadCount(ReadTopology({"/nonexistent/moonlit", {}}));
  EXPECT_GE(chosen.threads, 1u);
  EXPECT_NE(chosen.reason.find("unknown"), std::string::npos);
}

TEST(Cores, RubbishInTheFilesIsIgnored) {
  FakeMachine machine;
  machine.Cpus(0, 3, 0, 0, "x-y").File("sys/devices/system/cpu/cpu1/cpu_capacity", "-5");
  machine.File("proc/self/cgroup", "no colons here").File("sys/fs/cgroup/cpu.max", "many 1");
  EXPECT_EQ(machine.Threads(), 4u);
}

FakeMachine& Eight(FakeMachine& machine) { return machine.Cpus(0, 7, 0, 3000); }

TEST(Quota, V2Container) {
  FakeMachine machine;
  Eight(machine).File("proc/self/cgroup", "0::/").File("sys/fs/cgroup/cpu.max", "400000 100000");
  EXPECT_EQ(machine.Threads(), 4u);
  EXPECT_NE(DefaultThreadCount(machine.Read()).reason.find("4.00 CPUs"), std::string::npos);
}

TEST(Quota, FractionsAreRoundedDownButNotToZero) {
  FakeMachine machine;
  Eight(machine).File("proc/self/cgroup", "0::/").File("sys/fs/cgroup/cpu.max", "765000 100000");
  EXPECT_EQ(machine.Threads(), 7u);
  machine.File("sys/fs/cgroup/cpu.max", "50000 100000");
  EXPECT_EQ(machine.Threads(), 1u);
  machine.File("sys/fs/cgroup/cpu.max", "9900000 100000");
  EXPECT_EQ(machine.Threads(), 8u);
}

TEST(Quota, V2MaxIsNoLimit) {
  FakeMachine machine;
  Eight(machine).File("proc/self/cgroup", "0::/a").File("sys/fs/cgroup/a/cpu.max", "max 100000");
  EXPECT_EQ(machine.Read().quota, 0);
  EXPECT_EQ(machine.Threads(), 8u);
}

TEST(Quota, V2NestedTakesTheTightest) {
  FakeMachine machine;
  Eight(machine).File("proc/self/cgroup", "0::/system.slice/app.service/worker");
  machine.File("sys/fs/cgroup/system.slice/cpu.max", "600000 100000");
  machine.File("sys/fs/cgroup/system.slice/app.service/cpu.max", "60000 20000");
  machine.File("sys/fs/cgroup/system.slice/app.service/worker/cpu.max", "max 100000");
  EXPECT_EQ(machine.Read().quota, 3.0);
  machine.File("sys/fs/cgroup/system.slice/cpu.max", "200000 100000");
  EXPECT_EQ(machine.Threads(), 2u) << "a parent may be tighter";
}

TEST(Quota, V1) {
  FakeMachine machine;
  Eight(machine).File("proc/self/cgroup", "12:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/");
  machine.File("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "250000");
  machine.File("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000");
  machine.File("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1")
      .File("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000");
  EXPECT_EQ(machine.Read().quota, 2.5);
  EXPECT_EQ(machine.Threads(), 2u);
}

// Inside a container /proc shows the host's path, but the mount is the container's own group.
TEST(Quota, V1PathOfTheHost) {
  FakeMachine machine;
  Eight(machine).File("proc/self/cgroup", "4:cpuacct,cpu:/kubepods/pod1/abc");
  machine.File("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000").File("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(machine.Threads(), 3u);
}

TEST(Quota, V1MinusOneIsNoLimit) {
  FakeMachine machine;
  Eight(machine).File("proc/self/cgroup", "4:cpu:/");
  machine.File("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1").File("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000");
  EXPECT_EQ(machine.Threads(), 8u);
}

// "cpuset" is not "cpu".
TEST(Quota, OtherV1ControllersAreIgnored) {
  FakeMachine machine;
  Eight(machine).File("proc/self/cgroup", "4:cpuset:/a");
  machine.File("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "100000")
      .File("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000");
  EXPECT_EQ(machine.Threads(), 8u);
}

TEST(Quota, APathAboveTheNamespaceIsReadAtTheMountOnly) {
  FakeMachine machine;
  Eight(machine).File("proc/self/cgroup", "0::/../../other").File("sys/fs/cgroup/cpu.max", "200000 100000");
  EXPECT_EQ(machine.Threads(), 2u);
}

#ifdef __linux__
TEST(RealMachine, CountsTheAffinityMask) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(before), &before), 0);
  EXPECT_EQ(ReadTopology().cpus.size(), static_cast<size_t>(CPU_COUNT(&before)));
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  const Topology topology = ReadTopology();
  ASSERT_EQ(sched_setaffinity(0, sizeof(before), &before), 0);
  ASSERT_EQ(topology.cpus.size(), 1u);
  EXPECT_EQ(topology.cpus[0].id, first);
  EXPECT_EQ(DefaultThreadCount(topology).threads, 1u);
}
#endif

}  // namespace
}  // namespace moonlit
