// SPDX-License-Identifier: Apache-2.0
// The kernel variants in this build and which of them a CPU gets.
//
//   Variant v = SelectVariant(CpuFeatures());
//   const ProductKernel& kernel = GetProductKernel(v, Format::kQ4_0);
//
// Every op folder has one table of function pointers a variant, `moonlit::<variant>::k<Op>Table`, defined in objects
// that CMake compiles once per row of variants.inc, and one accessor that expands moonlit/variants_built.inc.
#pragma once

#include <stddef.h>

#include "kernels/cpu/features.h"

namespace moonlit {

enum class Variant : unsigned char {
#define MOONLIT_VARIANT(name, architecture, flags, target, features, base, classes) name,
#include "kernels/cpu/variants.inc"
#undef MOONLIT_VARIANT
};

// Names as written in variants.inc, for example "x86_avx2".
const char* VariantName(Variant variant);

// False when no variant has the name (it may still not be in this build: see IsBuilt).
bool FindVariant(const char* name, Variant* variant);

// The second column of variants.inc: "X86", "ARM64", "ARM32" or "ANY". A mask of features fits one architecture only
// (both ARMs have kNeon), so candidates for BestVariant must come from it and from ANY.
const char* VariantArchitecture(Variant variant);

// Features that a CPU must have to run it.
FeatureMask VariantFeatures(Variant variant);

// Every row of variants.inc, in its order. Points to static storage.
const Variant* AllVariants(size_t* count);

// Variants in this build, fastest first; the last is always the most portable one. Points to static storage.
const Variant* BuiltVariants(size_t* count);
bool IsBuilt(Variant variant);
inline bool CanRun(Variant variant, FeatureMask features) { return (VariantFeatures(variant) & ~features) == 0; }

// The first of `candidates` (fastest first) that a CPU with `features` can run; the last one if there is none. Pure,
// and independent of the build, so a test on any machine can ask for a Raspberry Pi's choice. REQUIRES: count > 0.
Variant BestVariant(FeatureMask features, const Variant* candidates, size_t count);

// BestVariant of the built ones. A build without the scalar variant may hold none that the CPU runs: ask CanRun.
Variant SelectVariant(FeatureMask features);

}  // namespace moonlit
