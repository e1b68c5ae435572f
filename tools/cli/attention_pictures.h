// SPDX-License-Identifier: Apache-2.0
// The maps of `moonlit attention` as text, as a page and as a drawing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "tools/cli/attention_maps.h"

namespace moonlit::cli {

// Tables of more rows are not printed.
inline constexpr size_t kMostPrintedRows = 24;

// On standard output. Tables: numbers of two decimals as in the lessons, "." where a token does not see another.
void PrintTables(const AttentionMaps& maps);
void PrintEntropy(const AttentionMaps& maps);
void PrintPairs(const AttentionMaps& maps);
// Rows sum to 1 (at most 1 with learned sinks), nothing unseen has a weight, weights times values is the fused kernel's output. Each
// with [ok] or [WRONG]; whether all hold.
bool PrintChecks(const AttentionMaps& maps);

// One HTML file that needs no other: all maps, in 16 bits a cell (within 1 / 131068 of the weight), with the page that shows them
// (attention_page_*.inc).
std::string HtmlPage(const AttentionMaps& maps);

// SVG 1.1 without script or style sheet: one map with labels and numbers, or a grid of all. Colours in 64 steps; longer maps are
// binned further, so that a file stays below some megabytes.
std::string SvgDrawing(const AttentionMaps& maps);

// &, <, >, " and ' as entities.
std::string EscapeMarkup(std::string_view text);

}  // namespace moonlit::cli
