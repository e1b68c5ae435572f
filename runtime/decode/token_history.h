// SPDX-License-Identifier: Apache-2.0
// The last tokens of a text, in order, for the steps of the sampler that look back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace moonlit {

class TokenHistory {
 public:
  // At least so many are kept from now on.
  void KeepAtLeast(size_t count) { capacity_ = std::max(capacity_, count); }
  void Add(int32_t id) {
    if (capacity_ == 0) return;
    // The older half goes once it is as long as what is kept: a token costs two moves at most.
    if (tokens_.size() >= 2 * capacity_)
      tokens_.erase(tokens_.begin(), tokens_.end() - static_cast<std::ptrdiff_t>(capacity_));
    tokens_.push_back(id);
  }
  void Clear() { tokens_.clear(); }
  // The last `count`, or as many as there are; at most what is kept. Valid until the next change.
  std::span<const int32_t> Last(size_t count) const {
    const std::span<const int32_t> all = tokens_;
    return all.last(std::min({count, capacity_, tokens_.size()}));
  }

 private:
  std::vector<int32_t> tokens_;
  size_t capacity_ = 0;
};

}  // namespace moonlit
