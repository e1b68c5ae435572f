// SPDX-License-Identifier: Apache-2.0
// LoRA adapters (Hu et al. 2021, arXiv:2106.09685):  y = W x + scale * (alpha / rank) * B (A x)
//
// Neither W nor its packed form knows of them: a step's rows bring their own, so sessions with different adapters and without any
// share a step, and each has the bits that it has alone. An addend's bits (ops/low_rank.cc) depend on its row:
//   t[j]  = (A x)[j] * (scale * alpha / rank)        by the kernel of F32 products: k ascending, one accumulator
//   y[n]  = MulAdd(B[n, j], t[j], y[n])              j ascending; behind bias and addend of the product, before what follows it
// adapters in the order of the set. x is what the product reads: floats, or the values that its A8 form stands for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/matmul/matmul.h"
#include "runtime/base/memory.h"
#include "runtime/base/status.h"
#include "runtime/exec/plan.h"
#include "runtime/graph/fusion.h"
#include "runtime/graph/graph.h"
#include "runtime/tensor/buffer.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

inline constexpr size_t kMostAdapterRank = 4096;
inline constexpr size_t kMostAdapters = 64;  // of one set

// Immutable; thread safe. Belongs to the plan whose graph it was loaded for, but may outlive it.
class Adapter {
 public:
  // Of one weight of the graph.
  struct Part {
    size_t rank = 0;      // 0: the weight stays as it is
    size_t a = 0, b = 0;  // places in the memory
  };

  // Reads every NAME.lora_a and NAME.lora_b of the source. `serial`: differs for all adapters of a plan.
  // Errors, naming the tensor: kCorrupt (one of a pair is missing, their shapes do not fit each other, another tensor), kInvalidArgument
  // (the model has no such tensor, or of another shape), kUnsupported (the tensor is no factor of a plain product: an embedding,
  // experts), kOutOfMemory. Adapted norms, which llama.cpp leaves out too, cost a warning.
  static Result<std::shared_ptr<const Adapter>> Load(const Graph& graph, const ProductKernel& kernel,
                                                     const WeightSource& source, float alpha, uint64_t serial,
                                                     const Allocator& allocator = {});

  const Part& part(WeightId id) const { return parts_[id]; }
  const uint8_t* a(const Part& part) const {
    return memory_.data() + part.a;
  }  // [rank, inputs], packed for the F32 product
  // [rank, outputs]: the columns of B.
  const float* b(const Part& part) const { return reinterpret_cast<const float*>(memory_.data() + part.b); }
  float factor(const Part& part) const { return alpha_ == 0 ? 1 : alpha_ / static_cast<float>(part.rank); }
  const Graph* graph() const { return graph_; }  // which it was loaded for; to be compared, not read
  uint64_t serial() const { return serial_; }
  uint64_t checksum() const { return checksum_; }  // of names, shapes, bytes and alpha
  size_t tensors() const { return tensors_; }      // of the model that it adapts
  size_t bytes() const { return memory_.size(); }

 private:
  struct Pair;
  Adapter() = default;
  static Result<std::vector<Pair>> FindPairs(const Graph& graph, const WeightSource& source);
  Status Place(const Graph& graph, const ProductKernel& kernel, const std::vector<Pair>& pairs,
               const Allocator& allocator);
  Status Read(const Graph& graph, const ProductKernel& kernel, const WeightSource& source, const Pair& pair);

  const Graph* graph_ = nullptr;
  float alpha_ = 0;
  uint64_t serial_ = 0, checksum_ = 0;
  size_t tensors_ = 0;
  std::vector<Part> parts_;  // [weights of the graph]
  Buffer memory_;
};

// What one session's products have added. Immutable but for memory that the running step writes to.
class AdapterSet {
 public:
  // `rows`: most of a step. kInvalidArgument: more than kMostAdapters, an adapter of another plan, a scale that is not finite;
  // kOutOfMemory. Adapters of scale 0 are left out; null when none is left.
  static Result<std::shared_ptr<const AdapterSet>> Make(const Graph& graph, const FusedGraph& fused,
                                                        std::span<const AdapterUse> uses, size_t rows,
                                                        const Allocator& allocator = {});

  const std::vector<AdapterUse>& members() const { return members_; }
  size_t rank(WeightId id) const { return ranks_[id]; }  // of all members together
  // Equal for sets with the same loaded adapters, scales and order: what keys and values in the cache depend on beside tokens.
  const std::string& key() const { return key_; }
  // The same by what the adapters hold, for files.
  const std::string& identity() const { return identity_; }
  // t of the rows of a stage, [rows, stride()]: for each of its products in turn those of all members.
  float* products() const { return products_; }
  size_t stride() const { return stride_; }

 private:
  AdapterSet() = default;
  std::vector<AdapterUse> members_;
  std::vector<uint32_t> ranks_;  // [weights of the graph]
  std::string key_, identity_;
  size_t stride_ = 0;
  Buffer memory_;
  float* products_ = nullptr;
};

}  // namespace moonlit
