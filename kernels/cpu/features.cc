// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/features.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#elif defined(__linux__) && (defined(__aarch64__) || defined(__arm__))
#include <sys/auxv.h>
#elif defined(__APPLE__) && defined(__aarch64__)
#include <sys/sysctl.h>
#endif

namespace moonlit {
namespace {

constexpr uint64_t Bits() { return 0; }
template <typename... Rest>
constexpr uint64_t Bits(int first, Rest... rest) {
  return (uint64_t{1} << first) | Bits(rest...);
}
constexpr bool HasAll(uint64_t word, uint64_t bits) { return (word & bits) == bits; }

// A feature stands for everything that its variant's compiler flags let the compiler, or Highway, emit without being
// asked by name. Flags imply more (CLWB, RDSEED, FSGSBASE, SHA, ...), but those come from intrinsics that no kernel may
// use, and hypervisors like to mask them.
constexpr uint64_t kLeaf1Sse41 = Bits(0, 9, 19);  // SSE3, SSSE3, SSE4.1
constexpr uint64_t kLeaf1Avx2 =
    Bits(1, 12, 20, 23, 25, 27, 28, 29);           // PCLMUL, FMA, SSE4.2, POPCNT, AES, OSXSAVE, AVX, F16C
constexpr uint64_t kLeaf7EbxAvx2 = Bits(3, 5, 8);  // BMI1, AVX2, BMI2
constexpr uint64_t kXcr0Ymm = Bits(1, 2);          // xmm, ymm
constexpr uint64_t kLeaf1Avx512 = Bits(13, 22);    // CMPXCHG16B, MOVBE
constexpr uint64_t kLeaf7EbxAvx512 = Bits(16, 17, 19, 28, 30, 31);  // F, DQ, ADX, CD, BW, VL
constexpr uint64_t kExtended1Avx512 = Bits(0, 5, 8);                // LAHF, LZCNT, PREFETCHW
constexpr uint64_t kXcr0Zmm = Bits(1, 2, 5, 6, 7);                  // and opmask, upper halves, upper registers
constexpr uint64_t kLeaf7EbxIceLake = Bits(21);                     // IFMA
constexpr uint64_t kLeaf7EcxIceLake =
    Bits(1, 6, 8, 9, 10, 11, 12, 14);  // VBMI, VBMI2, GFNI, VAES, VPCLMULQDQ, VNNI, BITALG, VPOPCNTDQ
constexpr uint64_t kLeaf7_1AvxVnni = Bits(4);
constexpr uint64_t kLeaf7_1Avx512Bf16 = Bits(5);

// Linux, arch/arm64/include/uapi/asm/hwcap.h.
constexpr uint64_t kArm64Asimd = Bits(1);
constexpr uint64_t kArm64Dotprod = Bits(7, 8, 9, 10, 12, 20);  // CRC32, ATOMICS, FPHP, ASIMDHP, ASIMDRDM, ASIMDDP
constexpr uint64_t kArm64I8mm = Bits(13);                      // of the second word
constexpr uint64_t kArm64Bf16 = Bits(14);                      // of the second word
// Linux, arch/arm/include/uapi/asm/hwcap.h.
constexpr uint64_t kArm32Neon = Bits(12, 16, 19);  // NEON, VFPv4, VFPD32

#if defined(__x86_64__) || defined(__i386__)
uint64_t ReadXcr0() {
  uint32_t low, high;
  // The intrinsic would need -mxsave for this whole file.
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

FeatureMask Detect() {
  X86Cpuid words = {};
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) words.leaf1_ecx = ecx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
    words.leaf7_ebx = ebx;
    words.leaf7_ecx = ecx;
    const uint32_t last_subleaf = eax;
    if (last_subleaf >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) words.leaf7_1_eax = eax;
  }
  if (__get_cpuid(0x80000001u, &eax, &ebx, &ecx, &edx)) words.extended1_ecx = ecx;
  if (HasAll(words.leaf1_ecx, Bits(27))) words.xcr0 = ReadXcr0();
  return DecodeX86Cpuid(words);
}
#elif defined(__linux__) && defined(__aarch64__)
FeatureMask Detect() { return DecodeArm64Hwcap(getauxval(AT_HWCAP), getauxval(AT_HWCAP2)); }
#elif defined(__linux__) && defined(__arm__)
FeatureMask Detect() { return DecodeArm32Hwcap(getauxval(AT_HWCAP), getauxval(AT_HWCAP2)); }
#elif defined(__APPLE__) && defined(__aarch64__)
bool Sysctl(const char* name) {
  int value = 0;
  size_t size = sizeof(value);
  return sysctlbyname(name, &value, &size, nullptr, 0) == 0 && value == 1;
}

FeatureMask Detect() {
  FeatureMask features = kNeon;
  if (Sysctl("hw.optional.arm.FEAT_DotProd") && Sysctl("hw.optional.arm.FEAT_FP16")) features |= kDotprod;
  if ((features & kDotprod) && Sysctl("hw.optional.arm.FEAT_I8MM")) features |= kI8mm;
  if ((features & kDotprod) && Sysctl("hw.optional.arm.FEAT_BF16")) features |= kBf16;
  return features;
}
#else
FeatureMask Detect() { return kNone; }
#endif

struct FeatureName {
  Feature feature;
  const char* name;
};
constexpr FeatureName kFeatureNames[] = {
    {kSse41, "sse4.1"},
    {kAvx2, "avx2"},
    {kAvxVnni, "avxvnni"},
    {kAvx512, "avx512"},
    {kAvx512Vnni, "avx512_vnni"},
    {kAvx512Bf16, "avx512_bf16"},
    {kNeon, "neon"},
    {kDotprod, "dotprod"},
    {kI8mm, "i8mm"},
    {kBf16, "bf16"},
};

}  // namespace

FeatureMask DecodeX86Cpuid(const X86Cpuid& words) {
  FeatureMask features = kNone;
  if (!HasAll(words.leaf1_ecx, kLeaf1Sse41)) return features;
  features |= kSse41;
  if (!HasAll(words.leaf1_ecx, kLeaf1Avx2) || !HasAll(words.leaf7_ebx, kLeaf7EbxAvx2) ||
      !HasAll(words.xcr0, kXcr0Ymm)) {
    return features;
  }
  features |= kAvx2;
  if (HasAll(words.leaf7_1_eax, kLeaf7_1AvxVnni)) features |= kAvxVnni;
  if (!HasAll(words.leaf1_ecx, kLeaf1Avx512) || !HasAll(words.leaf7_ebx, kLeaf7EbxAvx512) ||
      !HasAll(words.extended1_ecx, kExtended1Avx512) || !HasAll(words.xcr0, kXcr0Zmm)) {
    return features;
  }
  features |= kAvx512;
  if (HasAll(words.leaf7_ebx, kLeaf7EbxIceLake) && HasAll(words.leaf7_ecx, kLeaf7EcxIceLake)) features |= kAvx512Vnni;
  if (HasAll(words.leaf7_1_eax, kLeaf7_1Avx512Bf16)) features |= kAvx512Bf16;
  return features;
}

FeatureMask DecodeArm64Hwcap(uint64_t hwcap, uint64_t hwcap2) {
  if (!HasAll(hwcap, kArm64Asimd)) return kNone;
  FeatureMask features = kNeon;
  if (!HasAll(hwcap, kArm64Dotprod)) return features;
  features |= kDotprod;
  if (HasAll(hwcap2, kArm64I8mm)) features |= kI8mm;
  if (HasAll(hwcap2, kArm64Bf16)) features |= kBf16;
  return features;
}

FeatureMask DecodeArm32Hwcap(uint64_t hwcap, uint64_t /*hwcap2*/) { return HasAll(hwcap, kArm32Neon) ? kNeon : kNone; }

FeatureMask CpuFeatures() {
  static const FeatureMask features = Detect();
  return features;
}

size_t FormatFeatures(FeatureMask features, char* text, size_t size) {
  size_t length = 0;
  const auto append = [&](const char* part) {
    for (; *part != '\0'; ++part, ++length) {
      if (length + 1 < size) text[length] = *part;
    }
  };
  for (const FeatureName& row : kFeatureNames) {
    if ((features & row.feature) == 0) continue;
    if (length > 0) append(" ");
    append(row.name);
  }
  text[length < size ? length : size - 1] = '\0';
  return length;
}

}  // namespace moonlit
