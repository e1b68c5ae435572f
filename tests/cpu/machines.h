// SPDX-License-Identifier: Apache-2.0
// Real machines as the Linux kernel shows them in /proc/cpuinfo: the words of CPUID and of the auxiliary vector are put
// together from the flags' names, with bit numbers from the kernel's cpufeatures.h and hwcap.h.
#pragma once

#include <stdint.h>

#include <string>
#include <vector>

#include "kernels/cpu/features.h"

namespace moonlit {

inline constexpr uint64_t kXcr0Sse = 0x3, kXcr0Avx = 0x7, kXcr0Avx512 = 0xE7;

// Throws std::out_of_range for an unknown name.
X86Cpuid X86Words(const std::string& flags, uint64_t xcr0);
struct HwcapWords {
  uint64_t hwcap = 0, hwcap2 = 0;
};
HwcapWords Arm64Words(const std::string& flags);
HwcapWords Arm32Words(const std::string& flags);

struct Machine {
  const char* name;
  const char* architecture;  // X86, ARM64, ARM32
  std::string flags;
  uint64_t xcr0;        // X86 only
  const char* variant;  // what the design's table gives it
};
const std::vector<Machine>& Machines();
FeatureMask FeaturesOf(const Machine& machine);

}  // namespace moonlit
