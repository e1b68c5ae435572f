// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix tensor in pieces that fit a thread's staging memory: how packing reads weights without ever holding a second
// copy of them.
//
//   std::vector<uint8_t> staging(StagingBytes(tensor));
//   Status s = ForEachRowPiece(source, tensor, first, last, staging.data(), staging.size(),
//                              [&](const RowPiece& piece) { Pack(piece.first_row, piece.rows, piece.bytes); return Status(); });
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "runtime/base/status.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

// Large enough to hide the cost of a call, small enough to stay in the last-level cache between reading and packing.
inline constexpr size_t kPieceBytes = size_t{4} << 20;

// Bytes of one row (columns() values) of the tensor; rows are contiguous in the file.
inline size_t TensorRowBytes(const TensorInfo& tensor) {
  return static_cast<size_t>(tensor.bytes / tensor.shape.rows());
}

// How many rows one piece has: as many as fit kPieceBytes, but at least one and at most all.
size_t RowsPerPiece(const TensorInfo& tensor);
// Staging that one piece needs.
inline size_t StagingBytes(const TensorInfo& tensor) { return RowsPerPiece(tensor) * TensorRowBytes(tensor); }

// Reads rows [first, last) into `out`, `out_bytes` large. kInvalidArgument when the rows do not exist or do not fit; else as
// WeightSource::Read. Thread safe for distinct `out`.
Status ReadRows(const WeightSource& source, const TensorInfo& tensor, size_t first, size_t last, void* out,
                size_t out_bytes);

// WeightSource::Read of a source that can only make whole rows: bytes [offset, offset + size) of the tensor by `read_rows`, which puts
// rows [first, first + rows) into its `out`. Costs a copy where the bytes are no whole rows. kInvalidArgument for bytes outside.
Status ReadByRows(const WeightSource& source, const TensorInfo& tensor, uint64_t offset, void* out, size_t size,
                  const std::function<Status(size_t first, size_t rows, uint8_t* out)>& read_rows);

struct RowPiece {
  size_t first_row;
  size_t rows;
  const uint8_t* bytes;  // [rows] of TensorRowBytes each, in the caller's staging
};

// Reads rows [first, last) piece by piece, in order, into `staging` and hands each to `consume`; stops at the first error.
// kInvalidArgument when `staging` holds not even one row. Thread safe for distinct staging.
Status ForEachRowPiece(const WeightSource& source, const TensorInfo& tensor, size_t first, size_t last, void* staging,
                       size_t staging_bytes, const std::function<Status(const RowPiece&)>& consume);

}  // namespace moonlit
