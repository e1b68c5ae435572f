// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace moonlit {

size_t RowsPerPiece(const TensorInfo& tensor) {
  return std::min(tensor.shape.rows(), std::max<size_t>(1, kPieceBytes / TensorRowBytes(tensor)));
}

Status ReadRows(const WeightSource& source, const TensorInfo& tensor, size_t first, size_t last, void* out,
                size_t out_bytes) {
  const size_t row_bytes = TensorRowBytes(tensor);
  if (first > last || last > tensor.shape.rows() || last - first > out_bytes / row_bytes) {
    return Errorf(
        Code::kInvalidArgument, "%s: tensor %s: can't read rows %zu to %zu of %zu (%zu bytes each) into %zu bytes",
        source.description().c_str(), tensor.name.c_str(), first, last, tensor.shape.rows(), row_bytes, out_bytes);
  }
  return source.Read(tensor, uint64_t{first} * row_bytes, out, (last - first) * row_bytes);
}

Status ReadByRows(const WeightSource& source, const TensorInfo& tensor, uint64_t offset, void* out, size_t size,
                  const std::function<Status(size_t first, size_t rows, uint8_t* out)>& read_rows) {
  if (offset > tensor.bytes || size > tensor.bytes - offset) {
    return Errorf(Code::kInvalidArgument, "%s: bytes %llu + %zu are outside tensor %s of %llu",
                  source.description().c_str(), static_cast<unsigned long long>(offset), size, tensor.name.c_str(),
                  static_cast<unsigned long long>(tensor.bytes));
  }
  if (size == 0) return Status();
  const size_t row_bytes = TensorRowBytes(tensor);
  const size_t first = static_cast<size_t>(offset / row_bytes);
  const size_t last = static_cast<size_t>((offset + size + row_bytes - 1) / row_bytes);
  if (offset % row_bytes == 0 && size % row_bytes == 0)
    return read_rows(first, last - first, static_cast<uint8_t*>(out));
  std::vector<uint8_t> whole((last - first) * row_bytes);
  MOONLIT_RETURN_IF_ERROR(read_rows(first, last - first, whole.data()));
  std::memcpy(out, whole.data() + (offset - uint64_t{first} * row_bytes), size);
  return Status();
}

Status ForEachRowPiece(const WeightSource& source, const TensorInfo& tensor, size_t first, size_t last, void* staging,
                       size_t staging_bytes, const std::function<Status(const RowPiece&)>& consume) {
  const size_t step = std::min(RowsPerPiece(tensor), staging_bytes / TensorRowBytes(tensor));
  if (step == 0) {
    return Errorf(Code::kInvalidArgument, "%s: tensor %s: a row has %zu bytes, the staging %zu",
                  source.description().c_str(), tensor.name.c_str(), TensorRowBytes(tensor), staging_bytes);
  }
  for (size_t row = first; row < last; row += step) {
    const size_t rows = std::min(step, last - row);
    MOONLIT_RETURN_IF_ERROR(ReadRows(source, tensor, row, row + rows, staging, staging_bytes));
    MOONLIT_RETURN_IF_ERROR(consume(RowPiece{row, rows, static_cast<const uint8_t*>(staging)}));
  }
  return Status();
}

}  // namespace moonlit
