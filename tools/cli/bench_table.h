// SPDX-License-Identifier: Apache-2.0
// Rows of `moonlit bench --kernels` and `--attention` as Markdown, JSON or CSV. A row is a JSON object; a column says which of
// its keys Markdown shows and how.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace moonlit::cli {

inline constexpr int kText = -1;

struct BenchColumn {
  const char* key;
  const char* title;
  int digits;  // behind the point, or kText
};

// One table of a report: `name` is its key in JSON and its heading in Markdown.
struct BenchTable {
  const char* name;
  std::vector<BenchColumn> columns;
  std::vector<nlohmann::ordered_json> rows;  // all with the same keys
};

// To stdout. "md": one table after the other; "json": one object, `head` with an array for each table; "jsonl": the rows of
// the last table, one a line; "csv": the last table, all keys. Null is an empty cell.
void PrintTables(const nlohmann::ordered_json& head, const std::vector<BenchTable>& tables, const std::string& format);

}  // namespace moonlit::cli
