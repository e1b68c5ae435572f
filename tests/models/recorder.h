// SPDX-License-Identifier: Apache-2.0
// Keeps what a plan rounds to A8, by a product table of its own that passes everything on.
#pragma once

#include <mutex>

#include "kernels/matmul/matmul.h"
#include "tests/reference/seen_groups.h"

namespace moonlit::test {

// One at a time. Plans made with its table may run on many threads.
class Recorder {
 public:
  explicit Recorder(Variant variant) : plain_(&GetProductTable(variant)), table_(*plain_) {
    current_ = this;
    table_.quantize_a8 = [](const float* x, size_t stride, size_t rows, size_t k, const A8View& out) {
      current_->Keep(x, stride, rows, k);
      current_->plain_->quantize_a8(x, stride, rows, k, out);
    };
    table_.quantize_a8_twice = [](const float* x, size_t stride, size_t rows, size_t k, const A8View& out) {
      current_->Keep(x, stride, rows, k);
      current_->plain_->quantize_a8_twice(x, stride, rows, k, out);
    };
  }
  ~Recorder() { current_ = nullptr; }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  const ProductTable* table() const { return &table_; }
  reference::SeenGroups& seen() { return seen_; }

 private:
  void Keep(const float* x, size_t stride, size_t rows, size_t k) {
    const std::lock_guard lock(mutex_);
    for (size_t r = 0; r < rows; ++r) seen_.Add(x + r * stride, k);
  }

  static inline Recorder* current_ = nullptr;
  const ProductTable* plain_;
  ProductTable table_;
  std::mutex mutex_;
  reference::SeenGroups seen_;
};

}  // namespace moonlit::test
