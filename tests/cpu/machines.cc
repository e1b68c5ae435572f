// SPDX-License-Identifier: Apache-2.0
#include "tests/cpu/machines.h"

#include <functional>
#include <map>
#include <sstream>

namespace moonlit {
namespace {

void ForEachWord(const std::string& text, const std::function<void(const std::string&)>& visit) {
  std::istringstream stream(text);
  for (std::string word; stream >> word;) visit(word);
}

// Position in a list of names separated by spaces = number of the bit.
std::map<std::string, int> Positions(const std::string& names) {
  std::map<std::string, int> positions;
  int next = 0;
  ForEachWord(names, [&](const std::string& name) { positions[name] = next++; });
  return positions;
}

struct X86Bit {
  uint32_t X86Cpuid::*word;
  int bit;
};

const std::map<std::string, X86Bit>& X86Bits() {
  static const std::map<std::string, X86Bit> bits = {
      {"pni", {&X86Cpuid::leaf1_ecx, 0}},
      {"pclmulqdq", {&X86Cpuid::leaf1_ecx, 1}},
      {"ssse3", {&X86Cpuid::leaf1_ecx, 9}},
      {"fma", {&X86Cpuid::leaf1_ecx, 12}},
      {"cx16", {&X86Cpuid::leaf1_ecx, 13}},
      {"sse4_1", {&X86Cpuid::leaf1_ecx, 19}},
      {"sse4_2", {&X86Cpuid::leaf1_ecx, 20}},
      {"movbe", {&X86Cpuid::leaf1_ecx, 22}},
      {"popcnt", {&X86Cpuid::leaf1_ecx, 23}},
      {"aes", {&X86Cpuid::leaf1_ecx, 25}},
      {"osxsave", {&X86Cpuid::leaf1_ecx, 27}},
      {"avx", {&X86Cpuid::leaf1_ecx, 28}},
      {"f16c", {&X86Cpuid::leaf1_ecx, 29}},
      {"bmi1", {&X86Cpuid::leaf7_ebx, 3}},
      {"avx2", {&X86Cpuid::leaf7_ebx, 5}},
      {"bmi2", {&X86Cpuid::leaf7_ebx, 8}},
      {"avx512f", {&X86Cpuid::leaf7_ebx, 16}},
      {"avx512dq", {&X86Cpuid::leaf7_ebx, 17}},
      {"rdseed", {&X86Cpuid::leaf7_ebx, 18}},
      {"adx", {&X86Cpuid::leaf7_ebx, 19}},
      {"avx512ifma", {&X86Cpuid::leaf7_ebx, 21}},
      {"avx512cd", {&X86Cpuid::leaf7_ebx, 28}},
      {"sha_ni", {&X86Cpuid::leaf7_ebx, 29}},
      {"avx512bw", {&X86Cpuid::leaf7_ebx, 30}},
      {"avx512vl", {&X86Cpuid::leaf7_ebx, 31}},
      {"avx512vbmi", {&X86Cpuid::leaf7_ecx, 1}},
      {"avx512_vbmi2", {&X86Cpuid::leaf7_ecx, 6}},
      {"gfni", {&X86Cpuid::leaf7_ecx, 8}},
      {"vaes", {&X86Cpuid::leaf7_ecx, 9}},
      {"vpclmulqdq", {&X86Cpuid::leaf7_ecx, 10}},
      {"avx512_vnni", {&X86Cpuid::leaf7_ecx, 11}},
      {"avx512_bitalg", {&X86Cpuid::leaf7_ecx, 12}},
      {"avx512_vpopcntdq", {&X86Cpuid::leaf7_ecx, 14}},
      {"avx_vnni", {&X86Cpuid::leaf7_1_eax, 4}},
      {"avx512_bf16", {&X86Cpuid::leaf7_1_eax, 5}},
      {"lahf_lm", {&X86Cpuid::extended1_ecx, 0}},
      {"abm", {&X86Cpuid::extended1_ecx, 5}},
      {"3dnowprefetch", {&X86Cpuid::extended1_ecx, 8}},
  };
  return bits;
}

const std::string kNehalem = "pni ssse3 cx16 sse4_1 sse4_2 popcnt lahf_lm ";
const std::string kSandyBridge = kNehalem + "pclmulqdq aes osxsave avx ";
const std::string kHaswell = kSandyBridge + "fma movbe f16c bmi1 avx2 bmi2 abm ";
const std::string kBroadwell = kHaswell + "rdseed adx 3dnowprefetch ";
const std::string kSkylakeX = kBroadwell + "avx512f avx512dq avx512cd avx512bw avx512vl ";
const std::string kCooperLake = kSkylakeX + "avx512_vnni avx512_bf16 ";
const std::string kIceLake =
    kSkylakeX +
    "avx512ifma sha_ni avx512vbmi avx512_vbmi2 gfni vaes vpclmulqdq avx512_vnni avx512_bitalg avx512_vpopcntdq ";
const std::string kZen4 = kIceLake + "avx512_bf16 ";
const std::string kZen5 = kZen4 + "avx_vnni ";
const std::string kGracemont = kBroadwell + "sha_ni gfni vaes vpclmulqdq avx_vnni ";

const std::string kArmV8 = "fp asimd evtstrm crc32 cpuid ";
const std::string kA76 =
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm lrcpc dcpop asimddp ";
const std::string kV1 = kA76 +
                        "jscvt fcma sha3 sm3 sm4 sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs paca pacg dcpodp "
                        "svei8mm svebf16 i8mm bf16 dgh rng ";
const std::string kAppleM1 =
    kA76 + "jscvt fcma sha3 sha512 asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg dcpodp flagm2 frint ";

}  // namespace

X86Cpuid X86Words(const std::string& flags, uint64_t xcr0) {
  X86Cpuid words = {};
  ForEachWord(flags, [&](const std::string& name) {
    const X86Bit& at = X86Bits().at(name);
    words.*at.word |= 1u << at.bit;
  });
  words.xcr0 = xcr0;
  return words;
}

HwcapWords Arm64Words(const std::string& flags) {
  static const auto first = Positions(
      "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma lrcpc dcpop sha3 sm3 "
      "sm4 "
      "asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg");
  static const auto second = Positions(
      "dcpodp sve2 sveaes svepmull svebitperm svesha3 svesm4 flagm2 frint svei8mm svef32mm svef64mm svebf16 i8mm bf16 "
      "dgh rng");
  HwcapWords words;
  ForEachWord(flags, [&](const std::string& name) {
    const auto it = first.find(name);
    if (it != first.end()) {
      words.hwcap |= uint64_t{1} << it->second;
    } else {
      words.hwcap2 |= uint64_t{1} << second.at(name);
    }
  });
  return words;
}

HwcapWords Arm32Words(const std::string& flags) {
  static const auto first = Positions(
      "swp half thumb 26bit fastmult fpa vfp edsp java iwmmxt crunch thumbee neon vfpv3 vfpv3d16 tls vfpv4 idiva idivt "
      "vfpd32 "
      "lpae evtstrm");
  static const auto second = Positions("aes pmull sha1 sha2 crc32");
  HwcapWords words;
  ForEachWord(flags, [&](const std::string& name) {
    const auto it = first.find(name);
    if (it != first.end()) {
      words.hwcap |= uint64_t{1} << it->second;
    } else {
      words.hwcap2 |= uint64_t{1} << second.at(name);
    }
  });
  return words;
}

const std::vector<Machine>& Machines() {
  static const std::vector<Machine> machines = {
      {"Core 2 Merom (SSSE3 without SSE4.1)", "X86", "pni ssse3 cx16 lahf_lm", 0, "scalar"},
      {"Nehalem", "X86", kNehalem, 0, "x86_ssse3"},
      {"Sandy Bridge", "X86", kSandyBridge, kXcr0Avx, "x86_ssse3"},
      {"Celeron of the Haswell years (no AVX)", "X86", kNehalem + "movbe osxsave", kXcr0Sse, "x86_ssse3"},
      {"Haswell", "X86", kHaswell, kXcr0Avx, "x86_avx2"},
      {"Haswell, system without XSAVE", "X86", kHaswell, 0, "x86_ssse3"},
      {"Haswell, hypervisor that hides F16C", "X86", kSandyBridge + "fma movbe bmi1 avx2 bmi2 abm", kXcr0Avx,
       "x86_ssse3"},
      {"Zen 1", "X86", kBroadwell + "sha_ni", kXcr0Avx, "x86_avx2"},
      {"Alder Lake-N, N100", "X86", kGracemont, kXcr0Avx, "x86_avxvnni"},
      {"Lunar Lake", "X86", kGracemont, kXcr0Avx, "x86_avxvnni"},
      {"Skylake-X", "X86", kSkylakeX, kXcr0Avx512, "x86_avx512"},
      {"Skylake-X, system that does not save zmm", "X86", kSkylakeX, kXcr0Avx, "x86_avx2"},
      {"Cascade Lake (VNNI without Ice Lake's set)", "X86", kSkylakeX + "avx512_vnni", kXcr0Avx512, "x86_avx512"},
      {"Cooper Lake (bf16 without Ice Lake's set)", "X86", kCooperLake, kXcr0Avx512, "x86_avx512"},
      {"Ice Lake server", "X86", kIceLake, kXcr0Avx512, "x86_avx512_vnni"},
      {"Sapphire Rapids", "X86", kZen5, kXcr0Avx512, "x86_avx512_bf16"},
      {"Zen 4", "X86", kZen4, kXcr0Avx512, "x86_avx512_bf16"},
      {"Zen 5", "X86", kZen5, kXcr0Avx512, "x86_avx512_bf16"},
      {"Zen 5, system that does not save zmm", "X86", kZen5, kXcr0Avx, "x86_avxvnni"},
      {"Pi 3, Zero 2 W (A53)", "ARM64", kArmV8, 0, "arm_neon"},
      {"Pi 4 (A72)", "ARM64", kArmV8, 0, "arm_neon"},
      {"Pi 5 (A76)", "ARM64", kA76, 0, "arm_dotprod"},
      {"RK3588 (A55 and A76)", "ARM64", kA76, 0, "arm_dotprod"},
      {"Graviton 2 (Neoverse N1)", "ARM64", kA76 + "ssbs", 0, "arm_dotprod"},
      {"Graviton 3 (Neoverse V1)", "ARM64", kV1, 0, "arm_i8mm"},
      {"Apple M1", "ARM64", kAppleM1, 0, "arm_dotprod"},
      {"Apple M2", "ARM64", kAppleM1 + "i8mm bf16", 0, "arm_i8mm"},
      {"A75 (fp16 without dotprod)", "ARM64", "fp asimd evtstrm crc32 atomics fphp asimdhp cpuid asimdrdm dcpop", 0,
       "arm_neon"},
      {"Pi Zero (ARMv6)", "ARM32", "half thumb fastmult vfp edsp java tls", 0, "scalar"},
      {"Cortex-A9 (NEON without VFPv4)", "ARM32", "half thumb fastmult vfp edsp neon vfpv3 tls vfpd32", 0, "scalar"},
      {"Pi 2 (A7)", "ARM32", "half thumb fastmult vfp edsp neon vfpv3 tls vfpv4 idiva idivt vfpd32 lpae evtstrm", 0,
       "arm_v7"},
      {"Pi 3 on a 32-bit system", "ARM32",
       "half thumb fastmult vfp edsp neon vfpv3 tls vfpv4 idiva idivt vfpd32 lpae evtstrm crc32", 0, "arm_v7"},
  };
  return machines;
}

FeatureMask FeaturesOf(const Machine& machine) {
  if (std::string(machine.architecture) == "X86") return DecodeX86Cpuid(X86Words(machine.flags, machine.xcr0));
  const bool is64 = std::string(machine.architecture) == "ARM64";
  const HwcapWords words = is64 ? Arm64Words(machine.flags) : Arm32Words(machine.flags);
  return is64 ? DecodeArm64Hwcap(words.hwcap, words.hwcap2) : DecodeArm32Hwcap(words.hwcap, words.hwcap2);
}

}  // namespace moonlit
