// SPDX-License-Identifier: Apache-2.0
// f16 numbers to floats, exact for every bit pattern: subnormals keep their value, infinities and NaN stay what they are
// (Highway's emulation for targets without the instruction takes them for large numbers, but weights come from files, and a
// broken scale must stay visible).
#pragma once

#include "kernels/simd/dot-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || (HWY_ARCH_ARM_A64 && HWY_TARGET_IS_NEON)
constexpr bool kHasF16Conversion = true;
#else
constexpr bool kHasF16Conversion = false;
#endif

// The f16 in the low half of each lane; what is in the high half does not matter.
MOONLIT_INNER VF32 F32FromLowF16(VU32 lanes) {
  const DF32 df;
  const DU32 du32;
  if constexpr (kHasF16Conversion) {
    const hn::Rebind<uint16_t, DF32> du16;
    const hn::Rebind<hwy::float16_t, DF32> df16;
    return hn::PromoteTo(df, hn::BitCast(df16, hn::TruncateTo(du16, lanes)));
  } else {
    const VU32 magnitude = hn::And(lanes, hn::Set(du32, 0x7FFF));
    const VU32 sign = hn::ShiftLeft<16>(hn::And(lanes, hn::Set(du32, 0x8000)));
    const VU32 rebias = hn::Set(du32, uint32_t{127 - 15} << 23);
    VU32 value = hn::Add(hn::ShiftLeft<13>(magnitude), rebias);
    // The exponent of infinities and NaN goes from all ones to all ones.
    value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du32, 0x7C00)), value, hn::Add(value, rebias));
    // From the mantissa as an integer: the vector unit of 32-bit Arm reads a subnormal float as zero.
    const VF32 subnormal = hn::Mul(hn::ConvertTo(df, hn::BitCast(DI32(), magnitude)), hn::Set(df, 0x1p-24f));
    value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du32, 0x0400)), hn::BitCast(du32, subnormal), value);
    return hn::BitCast(df, hn::Or(value, sign));
  }
}

// kLanes f16 numbers from any address.
MOONLIT_INNER VF32 LoadHalves(const uint8_t* halves) {
  if constexpr (kHasF16Conversion) {
    const hn::Rebind<hwy::float16_t, DF32> df16;
    return hn::PromoteTo(DF32(), hn::LoadU(df16, reinterpret_cast<const hwy::float16_t*>(halves)));
  } else {
    const hn::Rebind<uint16_t, DU32> du16;
    return F32FromLowF16(hn::PromoteTo(DU32(), hn::LoadU(du16, reinterpret_cast<const uint16_t*>(halves))));
  }
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
