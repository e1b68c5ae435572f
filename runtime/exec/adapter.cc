// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/adapter.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "kernels/base/round.h"
#include "runtime/base/checksum.h"
#include "runtime/base/log.h"

namespace moonlit {
namespace {

constexpr std::string_view kA = ".lora_a", kB = ".lora_b", kNorm = "_norm.weight";
constexpr size_t kAlignment = 64;  // of packed tiles and of rows of B
constexpr uint64_t kMostBytes = SIZE_MAX / 4;

// Weights that plain products multiply with, and those that anything else reads.
struct Roles {
  explicit Roles(const Graph& graph) : product(graph.weights().size()), other(product.size()) {
    for (const Node& node : graph.nodes()) {
      for (size_t i = 0; i < node.weights.size(); ++i) {
        const bool factor = i == 0 && (node.op == Op::kLinear || node.op == Op::kLogits);
        if (node.weights[i] != kNoWeight) (factor ? product : other)[node.weights[i]] = true;
      }
    }
  }
  std::vector<bool> product, other;
};

size_t Tiles(const ProductKernel& kernel, size_t rank) { return CeilDiv(rank, size_t{kernel.n_tile}); }

Status WrongShape(const TensorInfo& tensor, const char* expected, size_t columns, size_t rows) {
  return Errorf(Code::kInvalidArgument,
                "tensor %s is %s: expected %s with %zu columns and %zu rows; the adapter is for another model",
                tensor.name.c_str(), tensor.shape.ToString().c_str(), expected, columns, rows);
}

// The whole tensor as floats, [rows, columns]; its bytes go into the checksum.
Result<std::vector<float>> ReadFloats(const WeightSource& source, const TensorInfo& tensor, Checksum& sum) {
  std::vector<uint8_t> bytes(static_cast<size_t>(tensor.bytes));
  MOONLIT_RETURN_IF_ERROR(source.Read(tensor, 0, bytes.data(), bytes.size()));
  const uint64_t facts[] = {tensor.name.size(), static_cast<uint64_t>(tensor.format), tensor.shape.rows(),
                            tensor.shape.columns()};
  sum.Add(facts, sizeof facts);
  sum.Add(tensor.name.data(), tensor.name.size());
  sum.Add(bytes.data(), bytes.size());
  std::vector<float> values(tensor.shape.elements());
  const size_t columns = tensor.shape.columns(), row_bytes = RowBytes(tensor.format, columns);
  for (size_t r = 0; r < tensor.shape.rows(); ++r) {
    Traits(tensor.format).dequantize(bytes.data() + r * row_bytes, values.data() + r * columns, columns);
  }
  return values;
}

}  // namespace

// One adapted tensor, and the weights that are it or rows of it.
struct Adapter::Pair {
  const TensorInfo* a;
  const TensorInfo* b;
  std::vector<WeightId> weights;
  size_t rank() const { return a->shape.rows(); }
};

Result<std::vector<Adapter::Pair>> Adapter::FindPairs(const Graph& graph, const WeightSource& source) {
  const Roles roles(graph);
  std::vector<Pair> pairs;
  size_t norms = 0;
  for (const TensorInfo* tensor : source.All()) {
    const std::string& name = tensor->name;
    if (name.ends_with(kNorm)) {
      ++norms;
      continue;
    }
    if (!name.ends_with(kA) && !name.ends_with(kB)) {
      return Errorf(Code::kCorrupt, "tensor %s: expected names that end in .lora_a and .lora_b", name.c_str());
    }
    const std::string base = name.substr(0, name.size() - kA.size());
    Pair pair{source.Find(base + std::string(kA)), source.Find(base + std::string(kB)), {}};
    if (pair.a == nullptr || pair.b == nullptr) {
      return Errorf(Code::kCorrupt, "tensor %s: its other half, %s, is missing", name.c_str(),
                    (base + std::string(pair.a == nullptr ? kA : kB)).c_str());
    }
    if (tensor == pair.b) continue;
    bool exists = false, fits = true;
    for (WeightId id = 0; id < graph.weights().size(); ++id) {
      const WeightSpec& spec = graph.weights()[id];
      if (spec.tensor != base) continue;
      exists = true;
      fits = fits && roles.product[id] && !roles.other[id] && spec.tensor_shape.rank() == 2;
      pair.weights.push_back(id);
    }
    if (!exists) {
      return Errorf(Code::kInvalidArgument, "tensor %s: the model has no %s; the adapter is for another model",
                    name.c_str(), base.c_str());
    }
    if (!fits) {
      return Errorf(Code::kUnsupported,
                    "tensor %s: %s is no factor of a plain product (but an embedding, experts or a table), which this "
                    "build can't adapt",
                    name.c_str(), base.c_str());
    }
    pairs.push_back(std::move(pair));
  }
  if (norms > 0) {
    Logf(LogLevel::kWarning, "%s: %zu adapted norms are left out", source.description().c_str(), norms);
  }
  if (pairs.empty()) return Status(Code::kCorrupt, "the adapter has no tensors");
  return pairs;
}

// Checks the shapes, and gives every weight its place in the memory.
Status Adapter::Place(const Graph& graph, const ProductKernel& kernel, const std::vector<Pair>& pairs,
                      const Allocator& allocator) {
  uint64_t bytes = 0;
  const auto take = [&](uint64_t size) {
    const uint64_t at = bytes;
    bytes += (size + kAlignment - 1) / kAlignment * kAlignment;
    return static_cast<size_t>(at);  // too small a type is found out below
  };
  for (const Pair& pair : pairs) {
    const Shape& whole = graph.weights()[pair.weights[0]].tensor_shape;
    const size_t rank = pair.rank();
    if (rank > kMostAdapterRank) {
      return Errorf(Code::kInvalidArgument, "tensor %s has rank %zu: expected 1 to %zu", pair.a->name.c_str(), rank,
                    kMostAdapterRank);
    }
    if (pair.a->shape.rank() > 2 || pair.a->shape.columns() != whole[1]) {
      return WrongShape(*pair.a, "[rank, inputs]", whole[1], rank);
    }
    if (pair.b->shape.rank() > 2 || pair.b->shape.rows() != whole[0] || pair.b->shape.columns() != rank) {
      return WrongShape(*pair.b, "[outputs, rank]", rank, whole[0]);
    }
    for (WeightId id : pair.weights) {
      const uint64_t outputs = graph.weights()[id].shape[0];
      parts_[id].rank = rank;
      parts_[id].a = take(uint64_t{kernel.tile_bytes(whole[1])} * Tiles(kernel, rank));
      parts_[id].b = take(outputs * rank * sizeof(float));
    }
  }
  if (bytes > kMostBytes) return Errorf(Code::kOutOfMemory, "the adapter takes %" PRIu64 " bytes of memory", bytes);
  MOONLIT_ASSIGN_OR_RETURN(memory_, Buffer::Allocate(static_cast<size_t>(bytes), "an adapter", allocator));
  return Status();
}

// REQUIRES: Place has found the shapes to fit.
Status Adapter::Read(const Graph& graph, const ProductKernel& kernel, const WeightSource& source, const Pair& pair) {
  Checksum sum(checksum_);
  MOONLIT_ASSIGN_OR_RETURN(const std::vector<float> a, ReadFloats(source, *pair.a, sum));
  MOONLIT_ASSIGN_OR_RETURN(const std::vector<float> b, ReadFloats(source, *pair.b, sum));
  checksum_ = sum.Value();
  const size_t k = pair.a->shape.columns(), rank = pair.rank();
  for (WeightId id : pair.weights) {
    const WeightSpec& spec = graph.weights()[id];
    uint8_t* packed = memory_.data() + parts_[id].a;
    for (size_t row = 0; row < rank; row += kernel.n_tile) {
      const auto* rows = reinterpret_cast<const uint8_t*>(a.data() + row * k);
      kernel.pack_tile(rows, k * sizeof(float), std::min<size_t>(kernel.n_tile, rank - row), k,
                       packed + row / kernel.n_tile * kernel.tile_bytes(k));
    }
    auto* columns = reinterpret_cast<float*>(memory_.data() + parts_[id].b);
    const size_t outputs = spec.shape[0];
    for (size_t n = 0; n < outputs; ++n) {
      for (size_t j = 0; j < rank; ++j) columns[j * outputs + n] = b[(spec.first_row + n) * rank + j];
    }
  }
  return Status();
}

Result<std::shared_ptr<const Adapter>> Adapter::Load(const Graph& graph, const ProductKernel& kernel,
                                                     const WeightSource& source, float alpha, uint64_t serial,
                                                     const Allocator& allocator) {
  std::shared_ptr<Adapter> adapter(new Adapter());
  adapter->graph_ = &graph;
  adapter->alpha_ = alpha;
  adapter->serial_ = serial;
  adapter->checksum_ = ChecksumOf(&alpha, sizeof alpha);
  adapter->parts_.resize(graph.weights().size());
  const auto load = [&]() -> Status {
    MOONLIT_ASSIGN_OR_RETURN(const std::vector<Pair> pairs, FindPairs(graph, source));
    adapter->tensors_ = pairs.size();
    MOONLIT_RETURN_IF_ERROR(adapter->Place(graph, kernel, pairs, allocator));
    for (const Pair& pair : pairs) MOONLIT_RETURN_IF_ERROR(adapter->Read(graph, kernel, source, pair));
    return Status();
  };
  if (const Status loaded = load(); !loaded.ok()) return loaded.WithContext(source.description());
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

Result<std::shared_ptr<const AdapterSet>> AdapterSet::Make(const Graph& graph, const FusedGraph& fused,
                                                           std::span<const AdapterUse> uses, size_t rows,
                                                           const Allocator& allocator) {
  std::shared_ptr<AdapterSet> set(new AdapterSet());
  set->ranks_.resize(graph.weights().size());
  for (const AdapterUse& use : uses) {
    if (use.adapter == nullptr || use.adapter->graph() != &graph) {
      return Status(Code::kInvalidArgument, "an adapter was loaded for another model than the session's");
    }
    if (!std::isfinite(use.scale)) {
      return Errorf(Code::kInvalidArgument, "an adapter's scale is %g: expected a finite number", double{use.scale});
    }
    if (use.scale == 0) continue;
    if (set->members_.size() == kMostAdapters) {
      return Errorf(Code::kInvalidArgument, "a session has more than %zu adapters", kMostAdapters);
    }
    set->members_.push_back(use);
    for (WeightId id = 0; id < set->ranks_.size(); ++id) {
      set->ranks_[id] += static_cast<uint32_t>(use.adapter->part(id).rank);
    }
    uint32_t bits;
    std::memcpy(&bits, &use.scale, sizeof bits);
    char text[64];
    std::snprintf(text, sizeof text, "adapter %" PRIu64 " x %08" PRIx32 ";", use.adapter->serial(), bits);
    set->key_ += text;
    std::snprintf(text, sizeof text, ", adapter %016" PRIx64 " x %.9g", use.adapter->checksum(), double{use.scale});
    set->identity_ += text;
  }
  if (set->members_.empty()) return std::shared_ptr<const AdapterSet>();
  size_t widest = 0;
  for (const FusedStage& stage : fused.stages) {
    if (!HasLowRankAddends(stage.kind)) continue;
    size_t width = 0;
    for (const ProductPart& part : stage.parts) width += set->ranks_[part.weight];
    widest = std::max(widest, width);
  }
  set->stride_ = RoundUp(widest, kAlignment / sizeof(float));
  const uint64_t bytes = uint64_t{set->stride_} * rows * sizeof(float);
  if (bytes > kMostBytes) {
    return Errorf(Code::kOutOfMemory, "adapters of ranks %zu in all take %" PRIu64 " bytes a step", widest, bytes);
  }
  MOONLIT_ASSIGN_OR_RETURN(set->memory_,
                           Buffer::Allocate(static_cast<size_t>(bytes), "products of adapters", allocator));
  set->products_ = set->memory_.as<float>();
  return std::shared_ptr<const AdapterSet>(std::move(set));
}

}  // namespace moonlit
