// SPDX-License-Identifier: Apache-2.0
#include "kernels/matmul/a8.h"

#include "kernels/base/round.h"

namespace moonlit {
namespace {

size_t BlockRows(size_t rows) {
  size_t block_rows = 1;
  while (block_rows < rows && block_rows < kA8MostBlockRows) block_rows *= 2;
  return block_rows;
}

size_t BlockBytes(size_t block_rows, size_t k) { return RoundUp(CeilDiv(k, kA8Group) * A8UnitBytes(block_rows), 64); }

}  // namespace

size_t A8Bytes(size_t rows, size_t k) {
  const size_t block_rows = BlockRows(rows);
  return CeilDiv(rows, block_rows) * BlockBytes(block_rows, k);
}

A8View MakeA8View(void* memory, size_t rows, size_t k) {
  const size_t block_rows = BlockRows(rows);
  return {static_cast<uint8_t*>(memory), 0, 0, block_rows, BlockBytes(block_rows, k)};
}

}  // namespace moonlit
