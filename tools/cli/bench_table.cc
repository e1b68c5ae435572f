// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/bench_table.h"

#include <cstdio>

namespace moonlit::cli {
namespace {

std::string Cell(const nlohmann::ordered_json& value, int digits) {
  if (value.is_null()) return "";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number()) return value.dump();
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value.get<double>());
  return text;
}

void PrintMarkdown(const nlohmann::ordered_json& head, const std::vector<BenchTable>& tables) {
  std::string line;
  for (const auto& [key, value] : head.items()) line += (line.empty() ? "" : ", ") + key + " " + Cell(value, 0);
  std::printf("%s\n", line.c_str());
  for (const BenchTable& table : tables) {
    std::printf("\n%s:\n\n|", table.name);
    for (const BenchColumn& column : table.columns) std::printf(" %s |", column.title);
    std::printf("\n|");
    for (const BenchColumn& column : table.columns) std::printf(" %s |", column.digits == kText ? "---" : "---:");
    std::printf("\n");
    for (const auto& row : table.rows) {
      std::printf("|");
      for (const BenchColumn& column : table.columns) {
        std::printf(" %s |", Cell(row.at(column.key), column.digits).c_str());
      }
      std::printf("\n");
    }
  }
}

void PrintCsv(const BenchTable& table) {
  bool header = true;
  for (const auto& row : table.rows) {
    std::string names, values;
    for (const auto& [key, value] : row.items()) {
      names += (names.empty() ? "" : ",") + key;
      values += (values.empty() ? "" : ",") + (value.is_null() ? "" : value.dump());
    }
    if (header) std::printf("%s\n", names.c_str());
    header = false;
    std::printf("%s\n", values.c_str());
  }
}

}  // namespace

void PrintTables(const nlohmann::ordered_json& head, const std::vector<BenchTable>& tables, const std::string& format) {
  if (format == "json") {
    nlohmann::ordered_json report = head;
    for (const BenchTable& table : tables) report[table.name] = table.rows;
    std::printf("%s\n", report.dump(2).c_str());
  } else if (format == "jsonl") {
    for (const auto& row : tables.back().rows) std::printf("%s\n", row.dump().c_str());
  } else if (format == "csv") {
    PrintCsv(tables.back());
  } else {
    PrintMarkdown(head, tables);
  }
}

}  // namespace moonlit::cli
