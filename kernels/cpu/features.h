// SPDX-License-Identifier: Apache-2.0
// What the processor we run on can do, as a bit mask. Kernel selection takes the mask as an argument, so a laptop can ask
// what a Raspberry Pi would choose.
#pragma once

#include <stdint.h>

namespace moonlit {

using FeatureMask = uint32_t;

enum Feature : FeatureMask {
  kNone = 0,
  kSse41 = 1u << 0,        // SSSE3 and SSE4.1
  kAvx2 = 1u << 1,         // AVX2, FMA, F16C, BMI1, BMI2, AES, PCLMUL, and an OS that saves ymm
  kAvxVnni = 1u << 2,      // AVX-VNNI (VEX vpdpbusd)
  kAvx512 = 1u << 3,       // AVX-512 F, BW, CD, DQ, VL, and an OS that saves zmm
  kAvx512Vnni = 1u << 4,   // Ice Lake's set: VNNI, VBMI, VBMI2, BITALG, VPOPCNTDQ, GFNI, VAES, VPCLMULQDQ, IFMA
  kAvx512Bf16 = 1u << 5,
  kNeon = 1u << 8,         // ARMv7 with VFPv4 NEON, or any ARMv8
  kDotprod = 1u << 9,      // sdot, udot; counted only together with fp16 (every core with one has the other)
  kI8mm = 1u << 10,
  kBf16 = 1u << 11,
};

// Detected once, then cached. Thread safe.
FeatureMask CpuFeatures();

// Pure decoding of the auxiliary vector's words on Linux, for table tests. `hwcap`, `hwcap2`: AT_HWCAP, AT_HWCAP2.
FeatureMask DecodeArm64Hwcap(uint64_t hwcap, uint64_t hwcap2);
FeatureMask DecodeArm32Hwcap(uint64_t hwcap, uint64_t hwcap2);

}  // namespace moonlit
