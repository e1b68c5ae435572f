// SPDX-License-Identifier: Apache-2.0
#include "kernels/activation/activation.h"

#include "kernels/base/check.h"

namespace moonlit {

#define MOONLIT_BUILT_VARIANT(name)              \
  namespace name {                               \
  extern const ActivationTable kActivationTable; \
  }
#include "moonlit/variants_built.inc"
#undef MOONLIT_BUILT_VARIANT

const ActivationTable& GetActivationTable(Variant variant) {
  switch (variant) {
#define MOONLIT_BUILT_VARIANT(name) \
  case Variant::name:               \
    return name::kActivationTable;
#include "moonlit/variants_built.inc"
#undef MOONLIT_BUILT_VARIANT
    default:
      break;
  }
  fprintf(stderr, "kernels/activation: variant %d is not in this build\n", static_cast<int>(variant));
  abort();
}

}  // namespace moonlit
