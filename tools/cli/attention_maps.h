// SPDX-License-Identifier: Apache-2.0
// What `moonlit attention` shows of a text: a map of weights for every asked layer and head, figures of each, the strongest pairs. Made
// head after head, so that one head's table of all tokens is in memory at a time, and maps of at most kMostMapTokens rows of the rest.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/cli/attention_heads.h"

namespace moonlit::cli {

// Longer texts are binned: so many rows and columns has a map at most, so many cells have all maps together, so many tokens a text.
inline constexpr size_t kMostMapRows = 512;
inline constexpr size_t kMostCells = size_t{16} << 20;
inline constexpr size_t kMostTokens = 4096;

// A cell none of whose queries sees any of its keys.
inline constexpr float kUnseen = -1;

struct HeadMap {
  int layer = 0;
  size_t head = 0;
  std::vector<float>
      cells;           // [rows, rows] query, key: what a query of the row gives to the keys of the column, on average
  double entropy = 0;  // in bits, of a token's weights, on average; a sink's share counts as one more outcome
  double least_sum = 1, most_sum = 1;  // of a token's weights
  float unseen_weight = 0;             // the largest weight of a key that the token does not see
  double difference = 0, strain = 0;   // of weights V and the fused kernel's output (HeadTables)
  bool has_sink = false;
};

struct StrongPair {
  float weight;
  uint32_t map, query, key;  // number of the map, tokens
};

struct AttentionMaps {
  std::string model, variant, cache;  // name, kernels, types of keys and values
  std::vector<std::string> tokens;    // labels, valid UTF-8 without control characters
  size_t bin = 1;                     // tokens of a row, but for the last row's
  size_t rows = 0;
  bool causal = true;
  std::vector<HeadMap> maps;      // by layer, then head
  std::vector<StrongPair> pairs;  // strongest first, of queries that see more than one key

  size_t FirstToken(size_t row) const { return row * bin; }
  size_t EndToken(size_t row) const { return std::min((row + 1) * bin, tokens.size()); }
  // Of a row: the token, or the tokens of a bin: "8-11 words of them".
  std::string RowLabel(size_t row) const;
};

struct MapRequest {
  std::vector<uint32_t> layers = {}, heads = {};  // numbers; empty: all
  size_t pairs = 0;                               // how many of the strongest are wanted
};

// Tokens of a row of maps, if there are `maps` of them.
size_t BinOf(size_t tokens, size_t maps);

// Asked between chunks and heads with the number of maps that are made and of all; false ends in kCancelled.
using MapProgress = std::function<bool(size_t done, size_t all)>;

// Reads the text as often as memory for queries and outputs (256 MiB at a time) makes it necessary. progress: may be empty.
// kInvalidArgument: a layer or head that the model does not have, a text that is too long, a model without attention.
Result<AttentionMaps> MakeMaps(CapturedModel& model, const std::vector<int32_t>& ids, const MapRequest& request,
                               const MapProgress& progress = {});

// One head's table into a map; offered pairs keep the strongest `most` of them. Apart for tests.
HeadMap MapOfHead(const Matrix& weights, size_t part, const CapturedLayer& layer, size_t bin);
void OfferPairs(const Matrix& weights, size_t part, const CapturedLayer& layer, uint32_t map, size_t most,
                std::vector<StrongPair>& pairs);
// A map of fewer rows, each `times` of this one's (the last one may have fewer). bin: tokens of this one's rows.
std::vector<float> Coarser(const std::vector<float>& cells, size_t rows, size_t times, size_t bin, size_t tokens);

// Text that can be shown anywhere: spaces as U+2423, line ends and tabs as arrows, other control and invisible format characters as
// U+XXXX, bytes of no whole character as \xHH. Valid UTF-8, never empty.
std::string TokenLabel(std::string_view bytes);
// The same, but that spaces stay spaces: a model's name.
std::string NameLabel(std::string_view bytes);

}  // namespace moonlit::cli
