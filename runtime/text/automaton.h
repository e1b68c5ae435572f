// SPDX-License-Identifier: Apache-2.0
// Finds every word of a list in a text in one pass, however long the words are and however much they repeat themselves (Aho and
// Corasick, "Efficient string matching: an aid to bibliographic search", 1975).
//
//   WordAutomaton automaton;
//   for (int32_t id ...) automaton.Add(text, id);
//   automaton.Finish();
//   int32_t state = WordAutomaton::kStart;
//   for (char byte : text) {
//     state = automaton.Step(state, byte);
//     for (int32_t word = automaton.Longest(state); word >= 0; word = automaton.Shorter(word)) Use(automaton.Value(word));
//   }
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

namespace moonlit {

// Thread safe once finished. Memory: 24 bytes for each byte of the words.
class WordAutomaton {
 public:
  static constexpr int32_t kStart = 0;

  WordAutomaton();
  // `text` is not empty; `value` is at least 0. Of equal texts the first keeps its value. Not after Finish.
  void Add(std::string_view text, int32_t value);
  void Finish();

  // The state after one more byte: constant time but for the number of different bytes that follow a state, on average over a text.
  int32_t Step(int32_t state, char byte) const {
    for (;;) {
      const int32_t next = Child(state, byte);
      if (next >= 0) return next;
      if (state == kStart) return kStart;
      state = nodes_[state].shorter;
    }
  }
  // The longest word that ends here, and the next shorter one that ends at the same place; -1 when there is none.
  int32_t Longest(int32_t state) const { return nodes_[state].value >= 0 ? state : nodes_[state].word; }
  int32_t Shorter(int32_t word) const { return nodes_[word].word; }
  int32_t Value(int32_t word) const { return nodes_[word].value; }

 private:
  struct Node {
    int32_t first_child = -1;
    int32_t next_sibling = -1;
    int32_t shorter = kStart;  // the longest other state that is a suffix of this one
    int32_t word = -1;         // the longest word that is a proper suffix of this state
    int32_t value = -1;        // of the word that this state is
    char byte = 0;
  };
  int32_t Child(int32_t state, char byte) const {
    if (state == kStart) return first_[static_cast<unsigned char>(byte)];
    int32_t child = nodes_[state].first_child;
    while (child >= 0 && nodes_[child].byte != byte) child = nodes_[child].next_sibling;
    return child;
  }

  std::vector<Node> nodes_;
  std::array<int32_t, 256> first_;  // children of the start, where most of a text is spent
};

}  // namespace moonlit
