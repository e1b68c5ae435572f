// SPDX-License-Identifier: Apache-2.0
// Where the rows of a tensor lie in one that holds the same rows in another order, as files of other formats do.
#pragma once

#include <cstddef>
#include <cstdint>

namespace moonlit {

enum class RowOrder {
  kSame,
  // Rows of query and key heads: neighbouring pairs turn together in GGUF's llama, halves of a head in PyTorch's. Row 2i + j of a
  // head of d rows is the other's row j * d / 2 + i.
  kRotary,
  // Gate and up of experts lie in one tensor [experts, 2 * width, columns]: every expert's first rows, or its last.
  kFirstHalf,
  kSecondHalf,
  // Query, key and value heads lie in groups, [kv_heads, heads / kv_heads + 2, d]: a group's queries, its key, its value. Here: all
  // queries, all keys, all values.
  kGroupedQkv,
  // The other one is [columns, rows]: its columns are our rows.
  kTransposed,
};

struct RowMap {
  RowOrder order = RowOrder::kSame;
  size_t heads = 1;       // with kRotary and kGroupedQkv
  size_t kv_heads = 1;    // with kGroupedQkv; divides heads
  size_t group_rows = 1;  // of a head with kRotary and kGroupedQkv, of our part of an expert with a half

  // Of `rows` rows (all of a part's, for halves those of one expert in the other tensor); false where they do not divide as the
  // order needs.
  bool SetRows(uint64_t rows);
  // The other tensor's row that is our row `row`. Not for kTransposed.
  size_t SourceRow(size_t row) const;
};

}  // namespace moonlit
