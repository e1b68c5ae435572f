// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/keyed_hash.h"

#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>

namespace moonlit {
namespace {

struct SipState {
  uint64_t v0, v1, v2, v3;
  void Round() {
    v0 += v1;
    v2 += v3;
    v1 = std::rotl(v1, 13) ^ v0;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 = std::rotl(v0, 32);
    v2 += v1;
    v0 += v3;
    v1 = std::rotl(v1, 17) ^ v2;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 = std::rotl(v2, 32);
  }
  void Take(uint64_t word) {
    v3 ^= word;
    Round();
    v0 ^= word;
  }
};

// From the system; without it (no /dev in a jail) from where things lie in memory and the time.
HashKey MakeKey() {
  HashKey key = {};
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/dev/urandom", "rb"), std::fclose);
  if (file != nullptr) {
    std::setvbuf(file.get(), nullptr, _IONBF, 0);
    if (std::fread(&key, sizeof key, 1, file.get()) == 1) return key;
  }
  key.first = static_cast<uint64_t>(reinterpret_cast<uintptr_t>(&key));
  key.second = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return {KeyedHash("first", key), KeyedHash("second", key)};
}

}  // namespace

const HashKey& ProcessHashKey() {
  static const HashKey key = MakeKey();
  return key;
}

uint64_t KeyedHash(std::string_view bytes, const HashKey& key) {
  SipState state{key.first ^ 0x736F6D6570736575ull, key.second ^ 0x646F72616E646F6Dull,
                 key.first ^ 0x6C7967656E657261ull, key.second ^ 0x7465646279746573ull};
  const uint64_t size = bytes.size();
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), 8);
    state.Take(word);
  }
  uint64_t last = size << 56;
  for (size_t i = 0; i < bytes.size(); ++i) last |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  state.Take(last);
  state.v2 ^= 0xFF;
  for (int i = 0; i < 3; ++i) state.Round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace moonlit
