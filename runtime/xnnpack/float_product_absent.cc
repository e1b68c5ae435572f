// SPDX-License-Identifier: Apache-2.0
// The provider of a build without XNNPACK: it offers nothing and says so.
#include "runtime/xnnpack/float_product.h"

namespace moonlit {

struct FloatProduct::Rep {};

FloatProduct::FloatProduct(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
FloatProduct::FloatProduct(FloatProduct&&) noexcept = default;
FloatProduct& FloatProduct::operator=(FloatProduct&&) noexcept = default;
FloatProduct::~FloatProduct() = default;

Status FloatProduct::Available() {
  return Status(Code::kUnsupported, "float products by XNNPACK: this build was made without it (MOONLIT_XNNPACK)");
}

Result<FloatProduct> FloatProduct::Create(const float*, const FloatProductShape&, size_t) { return Available(); }

size_t FloatProduct::slices() const { return 0; }

Status FloatProduct::Run(size_t, size_t, const float*, float*) { return Available(); }

}  // namespace moonlit
