// SPDX-License-Identifier: Apache-2.0
// First include of every source that is compiled once per kernel variant. It brings in Highway under the variant's own
// namespace (-Dhwy=hwy_<variant>, so that no inline function of Highway is shared between objects with different flags)
// and checks that the flags gave the target that variants.inc promises.
//
//   #include "kernels/cpu/variant-inl.h"
//   namespace moonlit { namespace MOONLIT_NS { namespace { namespace hn = hwy::HWY_NAMESPACE; ... } } }
//
// Rules for such sources: static dispatch only; no standard-library header beyond <stddef.h>, <stdint.h>, <string.h>;
// everything in an unnamed namespace but the one `extern const k<Op>Table`; functions in shared headers are `static inline`
// or HWY_INLINE inside the unnamed namespace; plain structs without member functions in contracts.
// tools/lint/check_symbols.py reads every object for it.
#pragma once

#ifndef MOONLIT_NS
#error "compile this source through moonlit_kernels(VARIANT ...)"
#endif

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "hwy/highway.h"

namespace moonlit {
namespace MOONLIT_NS {
namespace {
enum class ExpectedTarget : long long {
#define MOONLIT_VARIANT(name, architecture, flags, target, features, base, classes) name = target,
#include "kernels/cpu/variants.inc"
#undef MOONLIT_VARIANT
};
static_assert(static_cast<long long>(ExpectedTarget::MOONLIT_NS) == HWY_STATIC_TARGET,
              "the flags in variants.inc do not give the Highway target that the row names");
}  // namespace
}  // namespace MOONLIT_NS
}  // namespace moonlit

// Emulated vectors are loops over arrays: expanding what is long for every use takes the compiler minutes and gains nothing. Such
// functions are MOONLIT_INNER, which is HWY_INLINE elsewhere.
#if HWY_TARGET == HWY_EMU128
#define MOONLIT_EMULATED 1
#define MOONLIT_INNER HWY_NOINLINE HWY_MAYBE_UNUSED
#else
#define MOONLIT_EMULATED 0
#define MOONLIT_INNER HWY_INLINE
#endif

// Which leaf instructions the variant has (the intrinsics live behind kernels/simd/dot-inl.h only). A source of a class without
// them (moonlit_kernels) does not see them, so its code is the base's, whether the base is built or not.
#if !MOONLIT_WITHOUT_BYTE_DOTS
#if defined(__AVX512VNNI__) && HWY_TARGET <= HWY_AVX3_DL
#define MOONLIT_HAS_VPDPBUSD512 1
#endif
#if defined(__AVXVNNI__) || (defined(__AVX512VNNI__) && defined(__AVX512VL__))
#define MOONLIT_HAS_VPDPBUSD256 1
#endif
#if defined(__ARM_FEATURE_DOTPROD)
#define MOONLIT_HAS_SDOT 1
#endif
#if defined(__ARM_FEATURE_MATMUL_INT8)
#define MOONLIT_HAS_SMMLA 1
#endif
#endif
#if !MOONLIT_WITHOUT_BF16_DOTS
#if defined(__AVX512BF16__)
#define MOONLIT_HAS_VDPBF16 1
#endif
#if defined(__ARM_FEATURE_BF16_VECTOR_ARITHMETIC)
#define MOONLIT_HAS_BFDOT 1
#endif
#endif
