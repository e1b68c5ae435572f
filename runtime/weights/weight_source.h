// SPDX-License-Identifier: Apache-2.0
// Tensors by name, whatever the file. Implementations: GgufSource (runtime/weights/gguf_source.h, one file or a split set),
// HuggingFaceSource and EncodedSource (runtime/convert). Models and packing see only this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/quant/format.h"
#include "runtime/base/status.h"
#include "runtime/tensor/shape.h"

namespace moonlit {

struct TensorInfo {
  std::string name;
  Format format;
  Shape shape;     // row-major: [outputs, inputs] for a matrix
  uint64_t bytes;  // rows() * RowBytes(format, columns())
};

// Immutable after opening; every function may be called from several threads at once.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // Null when there is none. Pointers live as long as the source.
  virtual const TensorInfo* Find(std::string_view name) const = 0;
  virtual std::vector<const TensorInfo*> All() const = 0;  // in file order
  // Reads bytes [offset, offset + size) of the tensor with pread. A short read is kCorrupt and names file and tensor.
  virtual Status Read(const TensorInfo& tensor, uint64_t offset, void* out, size_t size) const = 0;
  virtual std::string description() const = 0;  // file name(s), for messages
  // Paths of all that was read for it, which no output may replace; empty for weights that are no files.
  virtual std::vector<std::string> Files() const { return {}; }
  // What a cache of something made from these weights is kept by: it changes when the files do. kUnsupported for weights that are
  // no files; kIo, kCorrupt.
  virtual Result<uint64_t> Fingerprint() const;
};

}  // namespace moonlit
