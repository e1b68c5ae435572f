// SPDX-License-Identifier: Apache-2.0
// Watches generated text for stop strings that may be spread over many tokens.
//
//   MOONLIT_ASSIGN_OR_RETURN(StopMatcher stop, StopMatcher::Create({"</answer>", "\n\n"}));
//   Show(stop.Add(piece).text); ... if (stop.stopped()) break; ... Show(stop.Finish());
//
// Held back is only the longest suffix of the text so far that is a proper prefix of some stop string; everything
// before it has left. All is bytes, so a stop string may begin or end inside a UTF-8 character of the stream. Aho and
// Corasick's automaton (1975): a byte costs a constant whatever the stop strings look like. One thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/status.h"

namespace moonlit {

class StopMatcher {
 public:
  // kInvalidArgument: an empty stop string, or more than 64 KiB of them.
  static Result<StopMatcher> Create(const std::vector<std::string>& stops);

  struct Output {
    std::string text;     // what may be shown now
    int stop_index = -1;  // the stop string that was found (an index into Create's list), else -1
  };
  // The stop string that ends first wins; of those that end together the one that begins first. Its bytes and all after
  // it are never shown. After that Add returns nothing until Reset.
  Output Add(std::string_view text);
  // The held text when generation ends for another reason; nothing after a stop.
  std::string Finish();
  void Reset();
  bool stopped() const { return stopped_; }
  size_t held_bytes() const { return held_.size(); }

 private:
  struct Node {
    std::array<int32_t, 256> next;  // complete transition table
    int32_t fail = 0;
    int32_t depth = 0;
    int32_t stop = -1;  // index of the longest stop string that ends here
    int32_t stop_length = 0;
  };
  std::vector<Node> nodes_;
  int32_t state_ = 0;
  bool stopped_ = false;
  std::string held_;
};

}  // namespace moonlit
