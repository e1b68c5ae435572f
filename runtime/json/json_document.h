// SPDX-License-Identifier: Apache-2.0
// How a document lies in memory: two tables and nothing that points, so that freeing it frees two blocks.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/json/json.h"

namespace moonlit {

// An array's elements lie one after another; so do an object's members, each a string and its value. Containers lie behind what they
// contain, and the root last.
struct Json::Node {
  JsonType type = JsonType::kNull;
  uint32_t sorted = 0;  // of the ith member's name: which member has the ith name by its bytes
  uint64_t bits = 0;    // of a number or a boolean; else `first` and `size`

  // A string's bytes in `text`; a container's nodes.
  uint32_t first() const { return static_cast<uint32_t>(bits >> 32); }
  uint32_t size() const { return static_cast<uint32_t>(bits); }
  static uint64_t Span(size_t first, size_t size) { return uint64_t{first} << 32 | uint64_t{size}; }
};

struct Json::Document {
  std::vector<Node> nodes;
  std::vector<char> text;
};

}  // namespace moonlit
