// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/bounded_json.h"

namespace moonlit {

nlohmann::json ParseBoundedJson(std::string_view text) {
  using Json = nlohmann::json;
  bool too_deep = false;
  const auto keep = [&](int depth, Json::parse_event_t, Json&) {
    too_deep = too_deep || depth > kMostJsonDepth;
    return !too_deep;
  };
  Json json = Json::parse(text.begin(), text.end(), keep, false);
  return too_deep ? Json(Json::value_t::discarded) : json;
}

}  // namespace moonlit
