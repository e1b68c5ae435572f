// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/bounded_json.h"

#include <cstdint>
#include <vector>

namespace moonlit {
namespace {

template <typename Json>
Json Parse(std::string_view text, size_t most_members) {
  bool refused = false;
  std::vector<size_t> members;  // of the objects that are open
  const auto keep = [&](int depth, typename Json::parse_event_t event, Json&) {
    if (event == Json::parse_event_t::object_start) members.push_back(0);
    if (event == Json::parse_event_t::object_end && !members.empty()) members.pop_back();
    if (event == Json::parse_event_t::key && !members.empty()) refused = refused || ++members.back() > most_members;
    refused = refused || depth > kMostJsonDepth;
    return !refused;
  };
  Json json = Json::parse(text.begin(), text.end(), keep, false);
  return refused ? Json(Json::value_t::discarded) : json;
}

}  // namespace

nlohmann::json ParseBoundedJson(std::string_view text) { return Parse<nlohmann::json>(text, SIZE_MAX); }
nlohmann::ordered_json ParseBoundedOrderedJson(std::string_view text) {
  return Parse<nlohmann::ordered_json>(text, kMostJsonMembers);
}

}  // namespace moonlit
