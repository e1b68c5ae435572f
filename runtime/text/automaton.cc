// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/automaton.h"

namespace moonlit {

WordAutomaton::WordAutomaton() : nodes_(1) { first_.fill(-1); }

void WordAutomaton::Add(std::string_view text, int32_t value) {
  int32_t at = kStart;
  for (const char byte : text) {
    int32_t child = Child(at, byte);
    if (child < 0) {
      child = static_cast<int32_t>(nodes_.size());
      nodes_.push_back(Node{.next_sibling = nodes_[at].first_child, .byte = byte});
      nodes_[at].first_child = child;
      if (at == kStart) first_[static_cast<unsigned char>(byte)] = child;
    }
    at = child;
  }
  if (nodes_[at].value < 0) nodes_[at].value = value;
}

// Breadth first: what a state's `shorter` points to is nearer to the start and done before it.
void WordAutomaton::Finish() {
  std::vector<int32_t> queue = {kStart};
  queue.reserve(nodes_.size());
  for (size_t i = 0; i < queue.size(); ++i) {
    const int32_t parent = queue[i];
    for (int32_t child = nodes_[parent].first_child; child >= 0; child = nodes_[child].next_sibling) {
      queue.push_back(child);
      if (parent == kStart) continue;
      Node& node = nodes_[child];
      node.shorter = Step(nodes_[parent].shorter, node.byte);
      node.word = Longest(node.shorter);
    }
  }
}

}  // namespace moonlit
