// SPDX-License-Identifier: Apache-2.0
// The 8 scales and 8 minima of Q4_K and Q5_K, 6 bits each, in 12 bytes. With aaaaaa the bits of scale or minimum a:
//
//   byte  0 .. 3    EEaaaaaa   scale j in bits 0-5, bits 4-5 of scale j + 4 above them        j = 0 .. 3
//   byte  4 .. 7    EEaaaaaa   minimum j in bits 0-5, bits 4-5 of minimum j + 4 above them
//   byte  8 .. 11   mmmmssss   bits 0-3 of scale j + 4, bits 0-3 of minimum j + 4 above them
#pragma once

#include <stdint.h>

namespace moonlit {

struct KScales {
  uint8_t scales[8];  // 0 .. 63
  uint8_t minima[8];  // 0 .. 63
};

static inline KScales UnpackKScales(const uint8_t bytes[12]) {
  KScales s;
  for (int j = 0; j < 4; ++j) {
    s.scales[j] = bytes[j] & 63;
    s.minima[j] = bytes[j + 4] & 63;
    s.scales[j + 4] = static_cast<uint8_t>((bytes[j + 8] & 15) | ((bytes[j] >> 6) << 4));
    s.minima[j + 4] = static_cast<uint8_t>((bytes[j + 8] >> 4) | ((bytes[j + 4] >> 6) << 4));
  }
  return s;
}

static inline void PackKScales(const KScales& s, uint8_t bytes[12]) {
  for (int j = 0; j < 4; ++j) {
    bytes[j] = static_cast<uint8_t>(s.scales[j] | ((s.scales[j + 4] >> 4) << 6));
    bytes[j + 4] = static_cast<uint8_t>(s.minima[j] | ((s.minima[j + 4] >> 4) << 6));
    bytes[j + 8] = static_cast<uint8_t>((s.scales[j + 4] & 15) | ((s.minima[j + 4] & 15) << 4));
  }
}

}  // namespace moonlit
