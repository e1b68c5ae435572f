// SPDX-License-Identifier: Apache-2.0
// Hashes for tables whose keys come from files: with a key that nobody outside the process knows, no file can be made whose strings
// all fall into one place of a table, which would make loading it quadratic. What a table answers never depends on the key.
#pragma once

#include <cstdint>
#include <string_view>

namespace moonlit {

struct HashKey {
  uint64_t first, second;
};

// Random, the same for the whole process. Any thread.
const HashKey& ProcessHashKey();

// SipHash-1-3 (Aumasson and Bernstein 2012): one round for every eight bytes, three at the end.
uint64_t KeyedHash(std::string_view bytes, const HashKey& key);

// Of a pair of numbers: the finalizer of MurmurHash3 (Appleby) with the key before and between its products.
inline uint64_t KeyedHash(uint32_t left, uint32_t right, const HashKey& key) {
  uint64_t hash = ((uint64_t{left} << 32) | right) ^ key.first;
  hash = (hash ^ (hash >> 33)) * 0xFF51AFD7ED558CCDull + key.second;
  hash = (hash ^ (hash >> 33)) * 0xC4CEB9FE1A85EC53ull;
  return hash ^ (hash >> 33);
}

}  // namespace moonlit
