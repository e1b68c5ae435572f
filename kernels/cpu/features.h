// SPDX-License-Identifier: Apache-2.0
// What the processor we run on can do, as a bit mask. Kernel selection takes the mask as an argument, so a laptop can
// ask what a Raspberry Pi would choose.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace moonlit {

using FeatureMask = uint32_t;

enum Feature : FeatureMask {
  kNone = 0,
  kSse41 = 1u << 0,       // SSSE3 and SSE4.1
  kAvx2 = 1u << 1,        // AVX2, FMA, F16C, BMI1, BMI2, AES, PCLMUL, and an OS that saves ymm
  kAvxVnni = 1u << 2,     // AVX-VNNI (VEX vpdpbusd)
  kAvx512 = 1u << 3,      // AVX-512 F, BW, CD, DQ, VL, also LZCNT, MOVBE, PREFETCHW, and an OS that saves zmm
  kAvx512Vnni = 1u << 4,  // Ice Lake's set: VNNI, VBMI, VBMI2, BITALG, VPOPCNTDQ, GFNI, VAES, VPCLMULQDQ, IFMA
  kAvx512Bf16 = 1u << 5,
  kNeon = 1u << 8,     // ARMv7 with VFPv4 NEON, or any ARMv8
  kDotprod = 1u << 9,  // sdot, udot; counted only together with fp16 and ARMv8.2-A's base (every core with one has all)
  kI8mm = 1u << 10,
  kBf16 = 1u << 11,
};

// Detected once, then cached. Thread safe.
FeatureMask CpuFeatures();

// What the CPUID and XGETBV instructions said; words of leaves that the processor does not have are 0.
// Source: Intel SDM volume 2A, CPUID; AMD APM volume 3, appendix E.
struct X86Cpuid {
  uint32_t leaf1_ecx;
  uint32_t leaf7_ebx, leaf7_ecx;  // sub-leaf 0
  uint32_t leaf7_1_eax;           // sub-leaf 1
  uint32_t extended1_ecx;         // leaf 0x80000001
  uint64_t xcr0;                  // 0 when the OS has not enabled XGETBV
};

// Pure decoding, for table tests: of CPUID, and of the auxiliary vector's words on Linux (AT_HWCAP, AT_HWCAP2).
FeatureMask DecodeX86Cpuid(const X86Cpuid& words);
FeatureMask DecodeArm64Hwcap(uint64_t hwcap, uint64_t hwcap2);
FeatureMask DecodeArm32Hwcap(uint64_t hwcap, uint64_t hwcap2);

// "avx2 avxvnni": lower-case names of the set features, in the order of the bits, for people to read. Writes at most
// `size` bytes with the final zero; returns the length that the whole text has. REQUIRES: size > 0.
size_t FormatFeatures(FeatureMask features, char* text, size_t size);

}  // namespace moonlit
