// SPDX-License-Identifier: Apache-2.0
// The provider of a build without XNNPACK: it offers nothing and says so.
#include "runtime/xnnpack/float_product.h"

namespace moonlit {

struct FloatProduct::Rep {
  FloatLayout layout;
  std::string name;
};

FloatProduct::FloatProduct(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
FloatProduct::FloatProduct(FloatProduct&&) noexcept = default;
FloatProduct& FloatProduct::operator=(FloatProduct&&) noexcept = default;
FloatProduct::~FloatProduct() = default;

Status FloatProduct::Available() {
  return Status(Code::kUnsupported, "float products by XNNPACK: this build was made without it (MOONLIT_XNNPACK)");
}

FloatLayout FloatProduct::LayOut(const FloatProductShape&) { return {}; }
Status FloatProduct::Pack(const FloatProductShape&, size_t, const float*, uint8_t*) { return Available(); }
Result<FloatProduct> FloatProduct::Create(const FloatProductShape&, const uint8_t*, size_t, size_t) {
  return Available();
}
void FloatProduct::Run(size_t, size_t, size_t, const float*, float*) const {}
const FloatLayout& FloatProduct::layout() const { return rep_->layout; }
size_t FloatProduct::tile_rows() const { return 1; }
const std::string& FloatProduct::name() const { return rep_->name; }

}  // namespace moonlit
