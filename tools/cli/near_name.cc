// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/near_name.h"

#include <algorithm>

namespace moonlit::cli {
namespace {

// The optimal string alignment distance: Levenshtein's, with an exchange of neighbours as one change.
size_t Changes(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        d[i][j] = i + j;
        continue;
      }
      const size_t other = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + other});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

}  // namespace

std::string NearestName(std::string_view typed, const std::vector<std::string>& names) {
  std::string nearest;
  size_t fewest = 3;
  for (const std::string& name : names) {
    if (typed.size() > name.size() + 2) continue;  // also keeps the table small
    const size_t changes = Changes(typed, name);
    if (changes < std::min(fewest, name.size() / 2 + 1)) {
      nearest = name;
      fewest = changes;
    }
  }
  return nearest;
}

}  // namespace moonlit::cli
