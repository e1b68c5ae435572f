// SPDX-License-Identifier: Apache-2.0
// f16 numbers to floats. Highway's emulation for targets without the instruction takes infinities for large numbers, but
// weights come from files: a broken scale must stay an infinity or a NaN.
#pragma once

#include "kernels/simd/dot-inl.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {

// kLanes f16 numbers from any address.
HWY_INLINE VF32 LoadHalves(const uint8_t* halves) {
  const DF32 df;
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2) || (HWY_ARCH_ARM_A64 && HWY_TARGET_IS_NEON)
  const hn::Rebind<hwy::float16_t, DF32> df16;
  return hn::PromoteTo(df, hn::LoadU(df16, reinterpret_cast<const hwy::float16_t*>(halves)));
#else
  const DU32 du32;
  const hn::Rebind<uint16_t, DU32> du16;
  const VU32 bits = hn::PromoteTo(du32, hn::LoadU(du16, reinterpret_cast<const uint16_t*>(halves)));
  const VU32 magnitude = hn::And(bits, hn::Set(du32, 0x7FFF));
  const VU32 sign = hn::ShiftLeft<16>(hn::Xor(bits, magnitude));
  const VU32 rebias = hn::Set(du32, uint32_t{127 - 15} << 23);
  VU32 value = hn::Add(hn::ShiftLeft<13>(magnitude), rebias);
  // The exponent of infinities and NaN goes from all ones to all ones.
  value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du32, 0x7C00)), value, hn::Add(value, rebias));
  const VF32 subnormal = hn::Mul(hn::ConvertTo(df, hn::BitCast(DI32(), magnitude)), hn::Set(df, 0x1p-24f));
  value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du32, 0x0400)), hn::BitCast(du32, subnormal), value);
  return hn::BitCast(df, hn::Or(value, sign));
#endif
}

}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit
