// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope/rope.h"

#include "kernels/base/check.h"

namespace moonlit {

#define MOONLIT_BUILT_VARIANT(name)  \
  namespace name {                   \
  extern const RopeTable kRopeTable; \
  }
#include "moonlit/variants_built.inc"
#undef MOONLIT_BUILT_VARIANT

const RopeTable& GetRopeTable(Variant variant) {
  switch (variant) {
#define MOONLIT_BUILT_VARIANT(name) \
  case Variant::name:               \
    return name::kRopeTable;
#include "moonlit/variants_built.inc"
#undef MOONLIT_BUILT_VARIANT
    default:
      break;
  }
  fprintf(stderr, "kernels/rope: variant %d is not in this build\n", static_cast<int>(variant));
  abort();
}

}  // namespace moonlit
