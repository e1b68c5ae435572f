// SPDX-License-Identifier: Apache-2.0
// Free memory, read from made-up trees of /proc and /sys.
#include "tools/cli/inspect_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temp_folder.h"

namespace moonlit::cli {
namespace {

class FreeMemoryTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = folder_.path() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  std::optional<FreeMemory> Read() const { return ReadFreeMemory(folder_.path()); }
  TempFolder folder_;
};

TEST_F(FreeMemoryTest, IsUnknownWhereNothingSays) { EXPECT_FALSE(Read()); }

TEST_F(FreeMemoryTest, IsWhatTheSystemSays) {
  Write("/proc/meminfo", "MemTotal:  9000 kB\nMemFree:   10 kB\nMemAvailable:   3000 kB\n");
  ASSERT_TRUE(Read());
  EXPECT_EQ(Read()->bytes, 3000u * 1024);
  EXPECT_EQ(Read()->reason, "available by /proc/meminfo");
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/memory.max", "max\n");
  Write("/sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(Read()->bytes, 3000u * 1024) << "no limit";
}

TEST_F(FreeMemoryTest, IsLessInAContainer) {
  Write("/proc/meminfo", "MemAvailable:   3000 kB\n");
  Write("/proc/self/cgroup", "0::/outer/inner\n");
  Write("/sys/fs/cgroup/outer/memory.max", "900000\n");
  Write("/sys/fs/cgroup/outer/memory.current", "300000\n");
  Write("/sys/fs/cgroup/outer/inner/memory.max", "800000\n");
  Write("/sys/fs/cgroup/outer/inner/memory.current", "100000\n");
  EXPECT_EQ(Read()->bytes, 600000u) << "the group above has less left";
  EXPECT_EQ(Read()->reason, "left of the container's limit");
  Write("/sys/fs/cgroup/outer/memory.current", "1000000\n");
  EXPECT_EQ(Read()->bytes, 0u);
  Write("/sys/fs/cgroup/outer/memory.max", "90000000000\n");
  Write("/sys/fs/cgroup/outer/inner/memory.max", "80000000000\n");
  EXPECT_EQ(Read()->bytes, 3000u * 1024) << "a limit above what there is";
}

TEST_F(FreeMemoryTest, KnowsTheFirstVersionOfControlGroups) {
  Write("/proc/meminfo", "MemAvailable:   3000 kB\n");
  Write("/proc/self/cgroup", "7:cpu,cpuacct:/x\n5:memory:/box\n");
  Write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "500000\n");
  Write("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "200000\n");
  EXPECT_EQ(Read()->bytes, 300000u);
}

}  // namespace
}  // namespace moonlit::cli
