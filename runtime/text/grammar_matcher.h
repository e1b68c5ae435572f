// SPDX-License-Identifier: Apache-2.0
// Follows a grammar byte by byte: the set of all stacks that a text may have led to. Stacks share their lower parts and are equal only
// if they are the same, and a set that was seen before is known by its number with all its transitions; so texts that come back to
// the same place (the inside of a string, the next member of an object) cost a table's look-up a byte.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/text/grammar.h"

namespace moonlit {

// One thread at a time; a grammar serves any number of matchers, and must outlive them. A copy goes its own way.
class GrammarMatcher {
 public:
  using State = uint32_t;
  static constexpr State kDead = 0;  // no text of the grammar begins so

  // kExhausted: more ways at once, or in all, than are kept track of. Such grammars are very ambiguous.
  static Result<GrammarMatcher> Create(const Grammar& grammar);

  State state() const { return now_; }
  // The state behind a byte. kExhausted as above.
  Result<State> Next(State from, uint8_t byte);
  // May a text end here?
  bool MayEnd(State state) const { return states_[state].accepts; }
  // Nothing may follow.
  bool MustEnd(State state) const { return states_[state].accepts && states_[state].tops.empty(); }

  // Goes on by these bytes. kInvalidArgument, and no change: no text of the grammar goes on so.
  Status Take(std::string_view bytes);
  // Forgets all states but the present one when they have become many. True: numbers of states have changed.
  bool Compact();
  // What Next may cost from here on, in places looked at: a step of a generation is bounded.
  void Allow(uint64_t work) { work_left_ = work; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kMostStates = size_t{1} << 16;  // a KiB each at most, and their tops
  static constexpr size_t kMostFrames = size_t{1} << 22;
  static constexpr size_t kMostTops = size_t{1} << 23;  // of all states
  static constexpr uint64_t kWork = uint64_t{1} << 18;  // some hundredths of a second

  // A stack is a frame and those below it.
  struct Frame {
    uint32_t pc;     // where it goes on at the rule's end
    uint32_t below;  // a frame, kNone at the bottom
  };
  // A way that the text may have taken: the instruction that takes the next byte, and its stack.
  struct Top {
    uint32_t pc;
    uint16_t inside;  // state within the character of a class
    uint32_t below;
    auto operator<=>(const Top&) const = default;
  };
  struct Set {
    std::vector<Top> tops;  // ascending
    bool accepts = false;
    // Transitions that are known: a few, or else the table, kNone where it is not.
    std::vector<std::pair<uint8_t, uint32_t>> few;
    std::vector<uint32_t> next;  // [256]
    uint32_t Find(uint8_t byte) const;
    void Add(uint8_t byte, uint32_t state);
  };

  explicit GrammarMatcher(const Grammar& grammar) : grammar_(&grammar) {}
  Status Reset();
  uint32_t Push(uint32_t pc, uint32_t below);
  // Adds what can be reached from there without taking a byte. False: too many ways.
  bool Reach(uint32_t pc, uint32_t below, Set* set);
  Result<State> Intern(Set set);
  static uint64_t Hash(const Set& set);

  const Grammar* grammar_;
  std::vector<Frame> frames_;
  std::unordered_map<uint64_t, uint32_t> frame_numbers_;
  std::vector<Set> states_;
  std::unordered_multimap<uint64_t, State> state_numbers_;
  std::unordered_set<uint64_t> seen_;  // of one search: pc, frame
  std::vector<std::pair<uint32_t, uint32_t>> open_;
  uint64_t work_left_ = kWork;
  size_t tops_ = 0;
  State now_ = kDead;
};

}  // namespace moonlit
