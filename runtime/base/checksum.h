// SPDX-License-Identifier: Apache-2.0
// XXH64, as its specification defines it (github.com/Cyan4973/xxHash, doc/xxhash_spec.md, version 0.1.1): a fast 64-bit
// checksum against accidents. It is no signature: whoever writes a file can make its checksum fit.
//
//   Checksum sum;
//   sum.Add(header, sizeof(header));
//   sum.Add(data, size);           // any cut into pieces gives the same value
//   if (sum.Value() != expected) ...
#pragma once

#include <cstddef>
#include <cstdint>

namespace moonlit {

class Checksum {
 public:
  explicit Checksum(uint64_t seed = 0);
  void Add(const void* bytes, size_t size);
  uint64_t Value() const;  // of all bytes so far; more may follow

 private:
  static constexpr size_t kStripe = 32;
  uint64_t lanes_[4];
  uint64_t seed_;
  uint64_t total_ = 0;
  uint8_t rest_[kStripe];  // the last total_ % kStripe bytes
};

inline uint64_t ChecksumOf(const void* bytes, size_t size, uint64_t seed = 0) {
  Checksum sum(seed);
  sum.Add(bytes, size);
  return sum.Value();
}

}  // namespace moonlit
