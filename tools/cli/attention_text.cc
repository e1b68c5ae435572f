// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>

#include "tools/cli/attention_pictures.h"

namespace moonlit::cli {
namespace {

constexpr double kSumBound = 1e-5;  // a sum of up to 4096 floats in any order, on top of the softmax's own bound

void PrintTable(const AttentionMaps& maps, const HeadMap& map) {
  std::printf("\nlayer %d, head %zu, entropy %.2f bits\n     ", map.layer, map.head, map.entropy);
  for (size_t j = 0; j < maps.rows; ++j) std::printf(" %5zu", j * maps.bin);
  std::printf("    sum\n");
  for (size_t i = 0; i < maps.rows; ++i) {
    std::printf("%5zu", i * maps.bin);
    double sum = 0;
    for (size_t j = 0; j < maps.rows; ++j) {
      const float cell = map.cells[i * maps.rows + j];
      if (cell == kUnseen) {
        std::printf("     .");
      } else {
        std::printf(" %5.2f", static_cast<double>(cell));
        sum += static_cast<double>(cell);
      }
    }
    std::printf("  %5.2f  %s\n", sum, maps.RowLabel(i).c_str());
  }
}

bool Claim(bool holds, const char* claim, double figure) {
  std::printf("%s %s: %.1e\n", holds ? "[ok]   " : "[WRONG]", claim, figure);
  return holds;
}

bool CheckSums(const AttentionMaps& maps) {
  double error = 0, least = 1, excess = 0;
  bool sinks = false;
  for (const HeadMap& map : maps.maps) {
    if (!map.has_sink) error = std::max({error, 1 - map.least_sum, map.most_sum - 1});
    excess = std::max(excess, map.most_sum - 1);
    if (map.has_sink) least = std::min(least, map.least_sum);
    sinks |= map.has_sink;
  }
  bool holds = Claim(error <= kSumBound, "every row of weights sums to 1 within 1e-5", error);
  if (!sinks) return holds;
  std::printf("        heads with a learned sink: it takes up to %.2f of a row\n", 1 - least);
  return Claim(excess <= kSumBound, "none sums to more than 1", std::max(excess, 0.0)) && holds;
}

}  // namespace

void PrintTables(const AttentionMaps& maps) {
  if (maps.rows > kMostPrintedRows) {
    std::printf("\ntables of %zu rows are not printed (at most %zu): --top, --html and --svg show them\n", maps.rows,
                kMostPrintedRows);
    return;
  }
  for (const HeadMap& map : maps.maps) PrintTable(maps, map);
}

void PrintEntropy(const AttentionMaps& maps) {
  std::printf("\n layer   head  entropy (bits, mean over the tokens)\n");
  for (const HeadMap& map : maps.maps) std::printf("%6d %6zu %8.3f\n", map.layer, map.head, map.entropy);
}

void PrintPairs(const AttentionMaps& maps) {
  std::printf("\n layer   head  query    key  weight  tokens (of queries that see more than one)\n");
  for (const StrongPair& pair : maps.pairs) {
    const HeadMap& map = maps.maps[pair.map];
    std::printf("%6d %6zu %6u %6u  %6.4f  %s -> %s\n", map.layer, map.head, pair.query, pair.key,
                static_cast<double>(pair.weight), maps.tokens[pair.query].c_str(), maps.tokens[pair.key].c_str());
  }
}

bool PrintChecks(const AttentionMaps& maps) {
  double unseen = 0, difference = 0, strain = 0;
  for (const HeadMap& map : maps.maps) {
    unseen = std::max(unseen, static_cast<double>(map.unseen_weight));
    difference = std::max(difference, map.difference);
    strain = std::max(strain, map.strain);
  }
  std::printf("\n");
  bool holds = CheckSums(maps);
  holds &= Claim(unseen == 0,
                 maps.causal ? "nothing above the diagonal nor outside a window" : "nothing outside what a token sees",
                 unseen);
  char claim[160];
  std::snprintf(claim, sizeof claim, "weights times values is what the fused kernel gave (%.2f of what it may differ)",
                strain);
  return Claim(strain <= 1, claim, difference) && holds;
}

}  // namespace moonlit::cli
