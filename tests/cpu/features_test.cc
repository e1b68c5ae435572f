// SPDX-License-Identifier: Apache-2.0
// Decoding of CPUID and of the auxiliary vector: every needed bit is needed, and nothing else counts.
#include "kernels/cpu/features.h"

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>
#include <string>

#include "tests/cpu/machines.h"

namespace moonlit {
namespace {

const Machine& MachineNamed(const std::string& name) {
  for (const Machine& m : Machines()) {
    if (name == m.name) return m;
  }
  throw std::out_of_range(name);
}

// Features that are lost when one flag of the machine is masked, as hypervisors do.
FeatureMask LostWithout(const Machine& machine, const std::string& flag) {
  Machine masked = machine;
  masked.flags.clear();
  std::istringstream stream(machine.flags);
  for (std::string word; stream >> word;) {
    if (word != flag) masked.flags += word + " ";
  }
  return FeaturesOf(machine) & ~FeaturesOf(masked);
}

constexpr FeatureMask kAll512 = kAvx512 | kAvx512Vnni | kAvx512Bf16;
constexpr FeatureMask kAbove128 = kAvx2 | kAvxVnni | kAll512;

TEST(Features, EveryX86BitThatTheFlagsImplyIsNeeded) {
  const Machine& zen5 = MachineNamed("Zen 5");
  ASSERT_EQ(kSse41 | kAbove128, FeaturesOf(zen5));
  const struct {
    const char* flags;
    FeatureMask lost;
  } rows[] = {
      {"pni ssse3 sse4_1", kSse41 | kAbove128},
      {"sse4_2 popcnt pclmulqdq aes osxsave avx f16c fma bmi1 bmi2 avx2", kAbove128},
      {"avx_vnni", kAvxVnni},
      {"cx16 movbe abm lahf_lm 3dnowprefetch adx avx512f avx512bw avx512cd avx512dq avx512vl", kAll512},
      {"avx512ifma avx512vbmi avx512_vbmi2 avx512_bitalg avx512_vpopcntdq gfni vaes vpclmulqdq avx512_vnni",
       kAvx512Vnni},
      {"avx512_bf16", kAvx512Bf16},
      {"rdseed sha_ni", kNone},
  };
  for (const auto& row : rows) {
    std::istringstream stream(row.flags);
    for (std::string flag; stream >> flag;) EXPECT_EQ(row.lost, LostWithout(zen5, flag)) << flag;
  }
}

TEST(Features, TheSystemMustSaveTheRegisters) {
  Machine zen5 = MachineNamed("Zen 5");
  for (int bit : {1, 2}) {
    zen5.xcr0 = kXcr0Avx512 & ~(uint64_t{1} << bit);
    EXPECT_EQ(FeatureMask{kSse41}, FeaturesOf(zen5)) << bit;
  }
  for (int bit : {5, 6, 7}) {
    zen5.xcr0 = kXcr0Avx512 & ~(uint64_t{1} << bit);
    EXPECT_EQ(FeatureMask{kSse41 | kAvx2 | kAvxVnni}, FeaturesOf(zen5)) << bit;
  }
}

TEST(Features, EveryArm64BitThatTheFlagsImplyIsNeeded) {
  const Machine& v1 = MachineNamed("Graviton 3 (Neoverse V1)");
  ASSERT_EQ(FeatureMask{kNeon | kDotprod | kI8mm | kBf16}, FeaturesOf(v1));
  for (const char* flag : {"asimddp", "asimdhp", "fphp", "asimdrdm", "atomics", "crc32"}) {
    EXPECT_EQ(FeatureMask{kDotprod | kI8mm | kBf16}, LostWithout(v1, flag)) << flag;
  }
  EXPECT_EQ(FeatureMask{kI8mm}, LostWithout(v1, "i8mm"));
  EXPECT_EQ(FeatureMask{kBf16}, LostWithout(v1, "bf16"));
  EXPECT_EQ(FeaturesOf(v1), LostWithout(v1, "asimd"));
  for (const char* flag : {"sve", "svei8mm", "svebf16", "aes", "rng"})
    EXPECT_EQ(FeatureMask{kNone}, LostWithout(v1, flag)) << flag;
}

// Hwcap words are bit sets: a test with && instead of & passes for any non-zero word.
TEST(Features, HwcapWordsOfOtherBitsGiveNothing) {
  EXPECT_EQ(FeatureMask{kNone}, DecodeArm64Hwcap(~(uint64_t{1} << 1), ~uint64_t{0}));
  EXPECT_EQ(FeatureMask{kNone}, DecodeArm64Hwcap(0, ~uint64_t{0}));
  EXPECT_EQ(FeatureMask{kNeon}, DecodeArm64Hwcap(~(uint64_t{1} << 20), ~uint64_t{0}));
  EXPECT_EQ(FeatureMask{kNone}, DecodeArm32Hwcap(~(uint64_t{1} << 12), ~uint64_t{0}));
  EXPECT_EQ(FeatureMask{kNone}, DecodeArm32Hwcap(~(uint64_t{1} << 16), ~uint64_t{0}));
  EXPECT_EQ(FeatureMask{kNone}, DecodeX86Cpuid(X86Cpuid{}));
}

TEST(Features, NamesFollowTheBits) {
  char text[64];
  EXPECT_EQ(0u, FormatFeatures(kNone, text, sizeof(text)));
  EXPECT_STREQ("", text);
  EXPECT_EQ(19u, FormatFeatures(kSse41 | kAvx2 | kAvxVnni, text, sizeof(text)));
  EXPECT_STREQ("sse4.1 avx2 avxvnni", text);
  EXPECT_EQ(22u, FormatFeatures(kNeon | kDotprod | kI8mm | kBf16, text, 8));
  EXPECT_STREQ("neon do", text);
}

// The compiler's own detection as the second opinion.
#if defined(__x86_64__)
TEST(Features, AgreesWithTheCompilersDetection) {
  __builtin_cpu_init();
  const FeatureMask features = CpuFeatures();
  EXPECT_EQ(__builtin_cpu_supports("sse4.1") != 0, (features & kSse41) != 0);
  EXPECT_EQ(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"),
            (features & kAvx2) != 0);
  EXPECT_EQ(
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"),
      (features & kAvx512) != 0);
  EXPECT_EQ(__builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi2") &&
                __builtin_cpu_supports("vpclmulqdq"),
            (features & kAvx512Vnni) != 0);
}
#elif defined(__aarch64__)
TEST(Features, Arm64AlwaysHasNeon) { EXPECT_NE(0u, CpuFeatures() & kNeon); }
#endif

}  // namespace
}  // namespace moonlit
