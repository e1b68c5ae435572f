// SPDX-License-Identifier: Apache-2.0
// The weights of a plan: matrices packed for their kernels, vectors and tables as floats. Each tensor is read once, in pieces, through a
// staging buffer a thread; the packed form is the only copy. A tied embedding and head are one matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/matmul/matmul.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/exec/float_provider.h"
#include "runtime/exec/packed_cache.h"
#include "runtime/exec/tiling.h"
#include "runtime/graph/graph.h"
#include "runtime/tensor/buffer.h"
#include "runtime/threads/pool.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

class XnnpackMatrix;  // xnnpack_matrix.h

// A matrix, or the matrices of all experts, each of which starts with a tile of its own.
struct PackedMatrix {
  const ProductKernel* kernel = nullptr;         // our own; of a matrix that XNNPACK carries, its activation alone
  std::shared_ptr<const XnnpackMatrix> xnnpack;  // after Load, where XNNPACK carries the matrix
  FloatProvider provider = FloatProvider::kOwn;
  Format format{};
  size_t n = 0;       // outputs (rows in the file; of one expert)
  size_t k = 0;       // inputs
  size_t n_tile = 0;  // outputs a tile
  size_t tile_bytes = 0;
  size_t tiles = 0;  // of one expert
  size_t experts = 1;
  const uint8_t* data = nullptr;  // tile t of expert e at data + (e * tiles + t) * tile_bytes (XNNPACK: its own layout)
  const char* name = nullptr;

  // The product of args.tile_begin to args.tile_end, whoever provides it; `exact`: the kernel's multiply_exact.
  void Multiply(const ProductArgs& args, bool exact, size_t thread) const;
  // How the product wants to be cut, by tiles of its own; rows and threads are the caller's to add.
  TilingInput Cut(bool exact) const;
  std::string KernelName(bool exact) const;  // "f32_f32_16x16x1", "xnnpack_f32_7x32", "exact"
  std::string Describe(bool exact) const;    // name, shape, kernel, bytes
};

// How weights are packed.
struct PackingOptions {
  Variant variant;
  FloatProviderChoice floats = FloatProviderChoice::kTable;
  std::string cache = {};  // folder of files of packed weights (packed_cache.h); "": none
  Allocator allocator = {};
};

class WeightStore {
 public:
  // Finds every tensor of the graph and chooses its kernel; reads nothing yet. kNotFound, kCorrupt (another shape than the
  // graph's), kUnsupported (a vector that is not a vector of floats the decoder knows; XNNPACK is wanted and not there). What is
  // planned may be larger than this machine can address; Load is then kOutOfMemory.
  static Result<std::unique_ptr<WeightStore>> Plan(const Graph& graph, const WeightSource& source,
                                                   const PackingOptions& options);

  // Reads and packs everything on the pool, or reads it as it was packed before (PackingOptions::cache). `progress` as in
  // PlanOptions. The source is needed no more afterwards.
  Status Load(const WeightSource& source, ThreadPool& pool, const std::function<bool(uint64_t, uint64_t)>& progress);

  const PackedMatrix& matrix(WeightId id) const { return matrices_[id]; }  // REQUIRES: no table
  const float* vector(WeightId id) const { return id == kNoWeight ? nullptr : vectors_[id]; }
  uint64_t packed_bytes() const { return packed_bytes_; }
  // What Load holds beside them with a pool of so many threads: while it packs, and from then on (XNNPACK's scratch).
  uint64_t StagingBytes(size_t threads) const;
  uint64_t ScratchBytes(size_t threads) const { return uint64_t{threads} * xnnpack_floats_ * sizeof(float); }

 private:
  // What the graph wants of a tensor: all of it, or some of its outermost entries.
  struct Part {
    const TensorInfo* tensor = nullptr;
    Shape shape;
    size_t first_row = 0;   // of a tensor of one dimension: the first value
    size_t row_values = 0;  // columns; 1 for such a tensor
    size_t rows() const { return shape.elements() / row_values; }
    size_t row_bytes() const { return RowBytes(tensor->format, row_values); }
    uint64_t bytes() const { return uint64_t{rows()} * row_bytes(); }
  };
  // A run of whole tiles of one matrix, or a whole table.
  struct Piece {
    WeightId weight;
    size_t first_row, rows;
  };
  struct LoadJob;
  static Result<Part> FindPart(const WeightSpec& spec, const WeightSource& source);
  void ChooseKernel(const Graph& graph, WeightId id);
  void CutIntoPieces(WeightId id);
  Status LoadPiece(const WeightSource& source, const Piece& piece, uint8_t* staging);
  Status Pack(const WeightSource& source, ThreadPool& pool, const std::function<bool(uint64_t, uint64_t)>& progress);
  Status LoadOrPack(const PackedCache& cache, const WeightSource& source, ThreadPool& pool,
                    const std::function<bool(uint64_t, uint64_t)>& progress);
  Result<PackedCacheKey> CacheKey(const WeightSource& source) const;
  uint8_t* Place(WeightId id) { return memory_.data() + static_cast<size_t>(offsets_[id]); }
  Status BindXnnpack(size_t threads);

  PackingOptions options_;
  std::vector<Part> parts_;             // [weights of the graph]
  std::vector<PackedMatrix> matrices_;  // likewise; empty for tables
  std::vector<uint64_t> offsets_;       // of either in memory_
  std::vector<const float*> vectors_;
  std::vector<std::string> names_;
  std::vector<Piece> pieces_;
  uint64_t staging_bytes_ = 0;  // of a thread
  size_t xnnpack_floats_ = 0;   // of a thread
  uint64_t packed_bytes_ = 0;
  uint64_t file_bytes_ = 0;
  Buffer memory_;
  Buffer xnnpack_scratch_;
};

}  // namespace moonlit
