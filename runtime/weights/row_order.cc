// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/row_order.h"

namespace moonlit {

bool RowMap::SetRows(uint64_t rows) {
  uint64_t parts = 1;
  switch (order) {
    case RowOrder::kSame:
    case RowOrder::kTransposed:
      return true;
    case RowOrder::kRotary:
      parts = heads;
      if (rows % (2 * parts) != 0) return false;
      break;
    case RowOrder::kFirstHalf:
    case RowOrder::kSecondHalf:
      parts = 2;
      break;
    case RowOrder::kGroupedQkv:
      if (kv_heads == 0 || heads % kv_heads != 0) return false;
      parts = uint64_t{heads} + 2 * uint64_t{kv_heads};
      break;
  }
  if (parts == 0 || rows % parts != 0) return false;
  group_rows = static_cast<size_t>(rows / parts);
  return group_rows != 0;
}

size_t RowMap::SourceRow(size_t row) const {
  const size_t group = row / group_rows, inside = row % group_rows;
  const size_t queries = heads / kv_heads;  // of a group
  switch (order) {
    case RowOrder::kRotary:
      return group * group_rows + inside % 2 * (group_rows / 2) + inside / 2;
    case RowOrder::kFirstHalf:
      return group * 2 * group_rows + inside;
    case RowOrder::kSecondHalf:
      return (group * 2 + 1) * group_rows + inside;
    case RowOrder::kGroupedQkv: {
      size_t place = 0;  // of the head in the other tensor
      if (group < heads) {
        place = group / queries * (queries + 2) + group % queries;
      } else if (group < heads + kv_heads) {
        place = (group - heads) * (queries + 2) + queries;
      } else {
        place = (group - heads - kv_heads) * (queries + 2) + queries + 1;
      }
      return place * group_rows + inside;
    }
    case RowOrder::kSame:
    case RowOrder::kTransposed:
      break;
  }
  return row;
}

}  // namespace moonlit
