// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/stop_matcher.h"

#include <deque>

namespace moonlit {

Result<StopMatcher> StopMatcher::Create(const std::vector<std::string>& stops) {
  // A node is about a KiB; 64 KiB of text bound the table at 64 MiB.
  constexpr size_t kMaxTotalBytes = 64 * 1024;
  StopMatcher matcher;
  Node blank;
  blank.next.fill(-1);
  matcher.nodes_.push_back(blank);
  size_t total = 0;
  for (size_t index = 0; index < stops.size(); ++index) {
    const std::string& stop = stops[index];
    total += stop.size();
    if (stop.empty()) return Errorf(Code::kInvalidArgument, "stop string %zu is empty; leave it out", index);
    if (total > kMaxTotalBytes)
      return Errorf(Code::kInvalidArgument, "the stop strings have more than %zu bytes", kMaxTotalBytes);
    int32_t node = 0;
    for (const char c : stop) {
      const auto byte = static_cast<unsigned char>(c);
      if (matcher.nodes_[node].next[byte] < 0) {
        matcher.nodes_[node].next[byte] = static_cast<int32_t>(matcher.nodes_.size());
        matcher.nodes_.push_back(blank);
        matcher.nodes_.back().depth = matcher.nodes_[node].depth + 1;
      }
      node = matcher.nodes_[node].next[byte];
    }
    if (matcher.nodes_[node].stop < 0) {
      matcher.nodes_[node].stop = static_cast<int32_t>(index);
      matcher.nodes_[node].stop_length = static_cast<int32_t>(stop.size());
    }
  }
  // Breadth first, so that a node's failure link is complete before its children ask for it.
  std::deque<int32_t> queue{0};
  while (!queue.empty()) {
    const int32_t at = queue.front();
    queue.pop_front();
    Node& node = matcher.nodes_[at];
    const Node& fail = matcher.nodes_[node.fail];
    if (node.stop < 0 && at != 0) {
      node.stop = fail.stop;
      node.stop_length = fail.stop_length;
    }
    for (int byte = 0; byte < 256; ++byte) {
      const int32_t child = node.next[byte];
      const int32_t fallback = at == 0 ? 0 : fail.next[byte];
      if (child < 0) {
        node.next[byte] = fallback;
      } else {
        matcher.nodes_[child].fail = fallback;
        queue.push_back(child);
      }
    }
  }
  return matcher;
}

StopMatcher::Output StopMatcher::Add(std::string_view text) {
  Output output;
  if (stopped_) return output;
  held_ += text;
  const size_t begin = held_.size() - text.size();
  for (size_t i = begin; i < held_.size(); ++i) {
    state_ = nodes_[state_].next[static_cast<unsigned char>(held_[i])];
    const Node& node = nodes_[state_];
    if (node.stop >= 0) {
      output.stop_index = node.stop;
      output.text = held_.substr(0, i + 1 - static_cast<size_t>(node.stop_length));
      held_.clear();
      stopped_ = true;
      return output;
    }
  }
  const size_t keep = static_cast<size_t>(nodes_[state_].depth);
  output.text = held_.substr(0, held_.size() - keep);
  held_.erase(0, held_.size() - keep);
  return output;
}

std::string StopMatcher::Finish() {
  std::string rest = std::move(held_);
  held_.clear();
  state_ = 0;
  return rest;
}

void StopMatcher::Reset() {
  held_.clear();
  state_ = 0;
  stopped_ = false;
}

}  // namespace moonlit
