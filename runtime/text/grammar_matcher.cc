// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/grammar_matcher.h"

#include <algorithm>

namespace moonlit {
namespace {

Status TooMany() {
  return Status(Code::kExhausted,
                "grammar: too ambiguous: there are more ways to read the text so far than are kept track of");
}

}  // namespace

Result<GrammarMatcher> GrammarMatcher::Create(const Grammar& grammar) {
  GrammarMatcher matcher(grammar);
  MOONLIT_RETURN_IF_ERROR(matcher.Reset());
  Set set;
  matcher.seen_.clear();
  if (!matcher.Reach(grammar.entry(), kNone, &set)) return TooMany();
  MOONLIT_ASSIGN_OR_RETURN(matcher.now_, matcher.Intern(std::move(set)));
  return matcher;
}

// State 0 is the empty set.
Status GrammarMatcher::Reset() {
  frames_.clear();
  frame_numbers_.clear();
  states_.clear();
  state_numbers_.clear();
  tops_ = 0;
  return Intern(Set()).status();
}

uint32_t GrammarMatcher::Push(uint32_t pc, uint32_t below) {
  const auto [found, added] = frame_numbers_.emplace(uint64_t{pc} << 32 | below, static_cast<uint32_t>(frames_.size()));
  if (added) frames_.push_back({pc, below});
  return found->second;
}

bool GrammarMatcher::Reach(uint32_t pc, uint32_t below, Set* set) {
  open_.assign(1, {pc, below});
  while (!open_.empty()) {
    const auto place = open_.back();
    open_.pop_back();
    if (!seen_.insert(uint64_t{place.first} << 32 | place.second).second) continue;
    if (work_left_ == 0 || frames_.size() >= kMostFrames) return false;
    --work_left_;
    const GrammarInstruction& instruction = grammar_->at(place.first);
    switch (instruction.op) {
      case GrammarOp::kByte:
      case GrammarOp::kClass:
        set->tops.push_back({place.first, 0, place.second});
        break;
      case GrammarOp::kSplit:
        open_.emplace_back(instruction.next, place.second);
        open_.emplace_back(instruction.operand, place.second);
        break;
      case GrammarOp::kCall: {
        // A call at a rule's end needs no frame: lists that are rules which end with themselves do not grow a stack.
        const bool last = grammar_->at(instruction.next).op == GrammarOp::kReturn;
        open_.emplace_back(instruction.operand, last ? place.second : Push(instruction.next, place.second));
        break;
      }
      case GrammarOp::kReturn:
        if (place.second == kNone) {
          set->accepts = true;
        } else {
          const Frame frame = frames_[place.second];
          open_.emplace_back(frame.pc, frame.below);
        }
        break;
    }
  }
  return true;
}

uint32_t GrammarMatcher::Set::Find(uint8_t byte) const {
  if (!next.empty()) return next[byte];
  for (const auto& [of, state] : few) {
    if (of == byte) return state;
  }
  return kNone;
}

void GrammarMatcher::Set::Add(uint8_t byte, uint32_t state) {
  constexpr size_t kFew = 8;
  if (next.empty() && few.size() < kFew) {
    few.emplace_back(byte, state);
    return;
  }
  if (next.empty()) {
    next.assign(256, kNone);
    for (const auto& [of, known] : few) next[of] = known;
    few.clear();
  }
  next[byte] = state;
}

uint64_t GrammarMatcher::Hash(const Set& set) {
  uint64_t hash = set.accepts ? 0x9E3779B97F4A7C15u : 0x2545F4914F6CDD1Du;
  for (const Top& top : set.tops) {
    for (const uint64_t part : {uint64_t{top.pc} << 32 | top.below, uint64_t{top.inside}}) {
      hash = (hash ^ part) * 0x9FB21C651E98DF25u;
      hash ^= hash >> 32;
    }
  }
  return hash;
}

Result<GrammarMatcher::State> GrammarMatcher::Intern(Set set) {
  std::sort(set.tops.begin(), set.tops.end());
  set.tops.erase(std::unique(set.tops.begin(), set.tops.end()), set.tops.end());
  const uint64_t hash = Hash(set);
  const auto [begin, end] = state_numbers_.equal_range(hash);
  for (auto at = begin; at != end; ++at) {
    const Set& known = states_[at->second];
    if (known.accepts == set.accepts && known.tops == set.tops) return at->second;
  }
  if (states_.size() >= kMostStates || set.tops.size() > kMostTops - tops_) return TooMany();
  tops_ += set.tops.size();
  const auto number = static_cast<State>(states_.size());
  states_.push_back(std::move(set));
  state_numbers_.emplace(hash, number);
  return number;
}

Result<GrammarMatcher::State> GrammarMatcher::Next(State from, uint8_t byte) {
  if (const uint32_t known = states_[from].Find(byte); known != kNone) return known;
  if (states_[from].tops.size() > work_left_) return TooMany();
  work_left_ -= states_[from].tops.size();
  Set set;
  seen_.clear();
  for (const Top& top : states_[from].tops) {
    const GrammarInstruction& instruction = grammar_->at(top.pc);
    bool taken = false;
    if (instruction.op == GrammarOp::kByte) {
      taken = instruction.operand == byte;
    } else {
      const uint16_t inside = grammar_->character_class(instruction.operand).Next(top.inside, byte);
      taken = inside == CharacterClass::kDone;
      if (!taken && inside != CharacterClass::kFail) set.tops.push_back({top.pc, inside, top.below});
    }
    if (taken && !Reach(instruction.next, top.below, &set)) return TooMany();
  }
  MOONLIT_ASSIGN_OR_RETURN(const State next, Intern(std::move(set)));
  states_[from].Add(byte, next);
  return next;
}

Status GrammarMatcher::Take(std::string_view bytes) {
  State state = now_;
  Allow(kWork);
  for (const char byte : bytes) {
    MOONLIT_ASSIGN_OR_RETURN(state, Next(state, static_cast<uint8_t>(byte)));
    if (state == kDead) return Status(Code::kInvalidArgument, "grammar: no text of the grammar goes on like this");
  }
  now_ = state;
  return Status();
}

bool GrammarMatcher::Compact() {
  if (states_.size() < kMostStates / 2 && frames_.size() < kMostFrames / 2 && tops_ < kMostTops / 2) return false;
  const std::vector<Frame> frames = std::move(frames_);
  Set set;
  set.accepts = states_[now_].accepts;
  const std::vector<Top> tops = std::move(states_[now_].tops);
  static_cast<void>(Reset());
  for (Top top : tops) {
    std::vector<uint32_t> path;  // pcs, from the top down
    for (uint32_t at = top.below; at != kNone; at = frames[at].below) path.push_back(frames[at].pc);
    uint32_t below = kNone;
    for (size_t i = path.size(); i-- > 0;) below = Push(path[i], below);
    set.tops.push_back({top.pc, top.inside, below});
  }
  now_ = Intern(std::move(set)).value();
  return true;
}

}  // namespace moonlit
