// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/checksum.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace moonlit {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as little-endian ones");

constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87, kPrime2 = 0xC2B2AE3D27D4EB4F, kPrime3 = 0x165667B19E3779F9,
                   kPrime4 = 0x85EBCA77C2B2AE63, kPrime5 = 0x27D4EB2F165667C5;

template <typename Word>
Word Load(const uint8_t* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

uint64_t Round(uint64_t lane, uint64_t word) { return std::rotl(lane + word * kPrime2, 31) * kPrime1; }

uint64_t MergeLane(uint64_t sum, uint64_t lane) { return (sum ^ Round(0, lane)) * kPrime1 + kPrime4; }

}  // namespace

Checksum::Checksum(uint64_t seed)
    : lanes_{seed + kPrime1 + kPrime2, seed + kPrime2, seed, seed - kPrime1}, seed_(seed) {}

void Checksum::Add(const void* data, size_t size) {
  if (size == 0) return;
  const auto* bytes = static_cast<const uint8_t*>(data);
  const auto add_stripe = [&](const uint8_t* stripe) {
    for (size_t i = 0; i < 4; ++i) lanes_[i] = Round(lanes_[i], Load<uint64_t>(stripe + 8 * i));
  };
  const size_t held = total_ % kStripe;
  total_ += size;
  if (held != 0) {
    const size_t taken = std::min(size, kStripe - held);
    std::memcpy(rest_ + held, bytes, taken);
    bytes += taken;
    size -= taken;
    if (held + taken < kStripe) return;
    add_stripe(rest_);
  }
  for (; size >= kStripe; bytes += kStripe, size -= kStripe) add_stripe(bytes);
  std::memcpy(rest_, bytes, size);
}

uint64_t Checksum::Value() const {
  uint64_t sum = seed_ + kPrime5;
  if (total_ >= kStripe) {
    sum = std::rotl(lanes_[0], 1) + std::rotl(lanes_[1], 7) + std::rotl(lanes_[2], 12) + std::rotl(lanes_[3], 18);
    for (uint64_t lane : lanes_) sum = MergeLane(sum, lane);
  }
  sum += total_;
  const uint8_t* bytes = rest_;
  size_t left = total_ % kStripe;
  for (; left >= 8; bytes += 8, left -= 8) {
    sum = std::rotl(sum ^ Round(0, Load<uint64_t>(bytes)), 27) * kPrime1 + kPrime4;
  }
  if (left >= 4) {
    sum = std::rotl(sum ^ Load<uint32_t>(bytes) * kPrime1, 23) * kPrime2 + kPrime3;
    bytes += 4;
    left -= 4;
  }
  for (; left > 0; ++bytes, --left) sum = std::rotl(sum ^ *bytes * kPrime5, 11) * kPrime1;
  sum = (sum ^ sum >> 33) * kPrime2;
  sum = (sum ^ sum >> 29) * kPrime3;
  return sum ^ sum >> 32;
}

}  // namespace moonlit
