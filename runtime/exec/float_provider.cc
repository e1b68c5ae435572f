// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/float_provider.h"

#include <algorithm>
#include <cstdlib>

#include "runtime/xnnpack/float_product.h"

namespace moonlit {
namespace {

constexpr FloatProviderRow kRows[] = {
#define MOONLIT_FLOAT_PROVIDER(variant, least_outputs, most_outputs, least_inputs, most_inputs, reason) \
  {Variant::variant, least_outputs, most_outputs, least_inputs, most_inputs, reason},
#include "runtime/exec/float_providers.inc"
#undef MOONLIT_FLOAT_PROVIDER
};

}  // namespace

const char* FloatProviderName(FloatProvider provider) { return provider == FloatProvider::kOwn ? "own" : "xnnpack"; }

std::span<const FloatProviderRow> FloatProviderTable() { return kRows; }

Result<FloatProviderChoice> ResolveFloatProvider(const std::string& name) {
  std::string wanted = name;
  if (wanted.empty()) {
    const char* environment = std::getenv("MOONLIT_FLOAT_PROVIDER");
    if (environment != nullptr) wanted = environment;
  }
  if (wanted.empty()) return FloatProviderChoice::kTable;
  if (wanted == FloatProviderName(FloatProvider::kOwn)) return FloatProviderChoice::kOwn;
  if (wanted != FloatProviderName(FloatProvider::kXnnpack)) {
    return Errorf(Code::kInvalidArgument, "there is no float provider \"%s\"; expected own or xnnpack", wanted.c_str());
  }
  MOONLIT_RETURN_IF_ERROR(FloatProduct::Available());
  return FloatProviderChoice::kXnnpack;
}

FloatProvider ChooseFloatProvider(FloatProviderChoice choice, Variant variant, size_t n, size_t k) {
  // For fewer outputs than its widest tile XNNPACK takes kernels that sum in another order.
  if (choice == FloatProviderChoice::kOwn || n < FloatProduct::kUnit) return FloatProvider::kOwn;
  if (choice == FloatProviderChoice::kXnnpack) return FloatProvider::kXnnpack;
  const auto table = FloatProviderTable();
  const bool listed = std::any_of(table.begin(), table.end(), [&](const FloatProviderRow& row) {
    return row.variant == variant && row.Fits(n, k);
  });
  return listed && FloatProduct::Available().ok() ? FloatProvider::kXnnpack : FloatProvider::kOwn;
}

}  // namespace moonlit
