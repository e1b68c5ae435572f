// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/variant.h"

#include <string.h>

#include "kernels/base/check.h"

namespace moonlit {
namespace {

struct Row {
  const char* name;
  const char* architecture;
  FeatureMask features;
};

constexpr Row kRows[] = {
#define MOONLIT_VARIANT(name, architecture, flags, target, features, base, classes) {#name, #architecture, features},
#include "kernels/cpu/variants.inc"
#undef MOONLIT_VARIANT
};

// What a CPU must have for a variant, it must have for the kernels that the variant takes from its base.
constexpr FeatureMask kFeatures_none = kNone;
#define MOONLIT_VARIANT(name, architecture, flags, target, features, base, classes) \
  constexpr FeatureMask kFeatures_##name = features;
#include "kernels/cpu/variants.inc"
#undef MOONLIT_VARIANT
#define MOONLIT_VARIANT(name, architecture, flags, target, features, base, classes) \
  static_assert((kFeatures_##base & ~kFeatures_##name) == 0, #name " has not all that " #base " needs");
#include "kernels/cpu/variants.inc"
#undef MOONLIT_VARIANT

constexpr Variant kAllVariants[] = {
#define MOONLIT_VARIANT(name, architecture, flags, target, features, base, classes) Variant::name,
#include "kernels/cpu/variants.inc"
#undef MOONLIT_VARIANT
};

constexpr Variant kBuiltVariants[] = {
#define MOONLIT_BUILT_VARIANT(name, bytes, halves, floats) Variant::name,
#include "moonlit/variants_built.inc"
#undef MOONLIT_BUILT_VARIANT
};

const Row& RowOf(Variant variant) {
  const size_t index = static_cast<size_t>(variant);
  MOONLIT_DCHECK(index < sizeof(kRows) / sizeof(kRows[0]));
  return kRows[index];
}

}  // namespace

const char* VariantName(Variant variant) { return RowOf(variant).name; }

const char* VariantArchitecture(Variant variant) { return RowOf(variant).architecture; }

FeatureMask VariantFeatures(Variant variant) { return RowOf(variant).features; }

bool FindVariant(const char* name, Variant* variant) {
  for (Variant candidate : kAllVariants) {
    if (strcmp(name, VariantName(candidate)) == 0) {
      *variant = candidate;
      return true;
    }
  }
  return false;
}

const Variant* AllVariants(size_t* count) {
  *count = sizeof(kAllVariants) / sizeof(kAllVariants[0]);
  return kAllVariants;
}

const Variant* BuiltVariants(size_t* count) {
  *count = sizeof(kBuiltVariants) / sizeof(kBuiltVariants[0]);
  return kBuiltVariants;
}

bool IsBuilt(Variant variant) {
  for (Variant built : kBuiltVariants) {
    if (built == variant) return true;
  }
  return false;
}

Variant BestVariant(FeatureMask features, const Variant* candidates, size_t count) {
  MOONLIT_DCHECK(count > 0);
  for (size_t i = 0; i < count; ++i) {
    if (CanRun(candidates[i], features)) return candidates[i];
  }
  return candidates[count - 1];
}

Variant SelectVariant(FeatureMask features) {
  size_t count;
  const Variant* built = BuiltVariants(&count);
  return BestVariant(features, built, count);
}

}  // namespace moonlit
