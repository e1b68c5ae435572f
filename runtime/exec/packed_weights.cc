// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/packed_weights.h"

#include <algorithm>
#include <map>
#include <new>

#include "kernels/activation/activation.h"
#include "kernels/base/round.h"
#include "runtime/base/checksum.h"
#include "runtime/base/log.h"
#include "runtime/exec/load_progress.h"
#include "runtime/exec/tiling.h"
#include "runtime/exec/xnnpack_matrix.h"

namespace moonlit {
namespace {

// Read pieces stay in a core's L2 between pread and pack_tile; the design's upper bound is 4 MiB, 512 KiB loads fastest.
constexpr size_t kPieceBytes = size_t{512} << 10;
constexpr size_t kAlignment = 128;

// Sizes of models are 64 bits wide wherever they are added up: a plan of memory reports them on machines that can't hold them.
uint64_t Aligned(uint64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

FloatProductShape XnnpackShape(const PackedMatrix& m) { return {m.n, m.k}; }

// Checksum of a few packed rows: it changes with the layout, whether or not anybody thought of a version number.
Result<uint64_t> PackedSample(const PackedMatrix& m) {
  constexpr size_t kInputs = 512;  // whole blocks of every format
  const size_t outputs = m.n_tile;
  std::vector<uint8_t> rows(outputs * RowBytes(m.format, kInputs));
  for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(i * 37 + i / 251);
  const FloatProductShape shape{outputs, kInputs};
  const bool own = m.provider == FloatProvider::kOwn;
  const size_t bytes = own ? m.kernel->tile_bytes(kInputs) : FloatProduct::LayOut(shape).bytes;
  MOONLIT_ASSIGN_OR_RETURN(Buffer packed, Buffer::Allocate(bytes, "a sample of packed weights"));
  if (own) {
    m.kernel->pack_tile(rows.data(), RowBytes(m.format, kInputs), outputs, kInputs, packed.data());
  } else {
    std::vector<float> floats(outputs * kInputs);
    for (size_t i = 0; i < floats.size(); ++i) floats[i] = static_cast<float>(i);
    MOONLIT_RETURN_IF_ERROR(FloatProduct::Pack(shape, 0, floats.data(), packed.data()));
  }
  return ChecksumOf(packed.data(), bytes);
}

// Whether rows of the matrix are decoded, which needs our own packing.
bool IsEmbedding(const Graph& graph, WeightId id) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [id](const Node& node) { return node.op == Op::kEmbed && node.weights[0] == id; });
}

}  // namespace

void PackedMatrix::Multiply(const ProductArgs& args, bool exact, size_t thread) const {
  if (xnnpack != nullptr) return xnnpack->Multiply(args, thread);
  (exact ? kernel->multiply_exact : kernel->multiply)(args);
}

TilingInput PackedMatrix::Cut(bool exact) const {
  TilingInput cut{};
  cut.bytes_per_row = !exact && kernel->activation == Activation::kA8 ? k : k * sizeof(float);
  cut.k = k;
  cut.unit_outputs = n_tile;
  cut.unit_bytes = tile_bytes;
  cut.units = tiles;
  if (xnnpack != nullptr) {
    cut.row_unit = xnnpack->product().tile_rows();
  } else if (!exact && kernel->arithmetic == Arithmetic::kBF16) {
    // One pass over a run of tiles, whose weights then lie in the second-level cache for the next rows, is faster than more rows at
    // once, whose sums drive weights and activations out of the first (Zen 4, 512 rows of 2048: 82% of the peak against 66 to 77).
    cut.most_rows = kRowUnit;
    // Rounding a block's activations pays for some eight tiles; bf16 dots do twice the work of floats in the same time.
    cut.task_macs = 2 * kTaskMacs;
  }
  return cut;
}

std::string PackedMatrix::KernelName(bool exact) const {
  if (exact) return "exact";
  return xnnpack != nullptr ? xnnpack->product().name() : kernel->name;
}

std::string PackedMatrix::Describe(bool exact) const {
  return std::string(" ") + name + " [" + std::to_string(n) + ", " + std::to_string(k) + "] " + KernelName(exact) +
         " " + std::to_string(tiles * tile_bytes) + " bytes";
}

// Shared by the tasks of one Load. Task i is piece i.
struct WeightStore::LoadJob {
  WeightStore* store;
  const WeightSource* source;
  LoadProgress* progress;
  Buffer staging;

  static void RunTask(void* context, size_t task, size_t thread) {
    LoadJob& job = *static_cast<LoadJob*>(context);
    WeightStore& store = *job.store;
    const Piece& piece = store.pieces_[task];
    uint8_t* staging = job.staging.data() + thread * static_cast<size_t>(store.staging_bytes_);
    try {
      Status fault = store.LoadPiece(*job.source, piece, staging);  // sources may decode through memory of their own
      if (!fault.ok()) return job.progress->Fail(std::move(fault));
      job.progress->Add(store.parts_[piece.weight].row_bytes() * piece.rows, thread);
    } catch (const std::bad_alloc&) {
      job.progress->FailForMemory();
    }
  }
};

// Parts of a tensor of one dimension begin anywhere, so its values must not be in blocks.
Result<WeightStore::Part> WeightStore::FindPart(const WeightSpec& spec, const WeightSource& source) {
  const TensorInfo* tensor = source.Find(spec.tensor);
  if (tensor == nullptr) {
    return Errorf(Code::kNotFound, "%s: no tensor %s", source.description().c_str(), spec.tensor.c_str());
  }
  const size_t block = Traits(tensor->format).block_values;
  const bool is_part = !(spec.shape == spec.tensor_shape);
  const size_t row_values = is_part && spec.tensor_shape.rank() < 2 ? 1 : tensor->shape.columns();
  if (!tensor->shape.Matches(spec.tensor_shape) || row_values % block != 0) {
    return Errorf(Code::kCorrupt, "%s: tensor %s: expected %s in whole blocks of %s, the file has %s",
                  source.description().c_str(), spec.tensor.c_str(), spec.tensor_shape.ToString().c_str(),
                  Traits(tensor->format).name, tensor->shape.ToString().c_str());
  }
  return Part{tensor, spec.shape, spec.first_row, row_values};
}

Result<std::unique_ptr<WeightStore>> WeightStore::Plan(const Graph& graph, const WeightSource& source,
                                                       const PackingOptions& options) {
  if (options.floats == FloatProviderChoice::kXnnpack) MOONLIT_RETURN_IF_ERROR(FloatProduct::Available());
  auto store = std::make_unique<WeightStore>();
  store->options_ = options;
  const size_t count = graph.weights().size();
  store->parts_.resize(count);
  store->matrices_.resize(count);
  store->offsets_.resize(count);
  store->vectors_.resize(count);
  store->names_.resize(count);
  for (size_t id = 0; id < count; ++id) {
    const WeightSpec& spec = graph.weights()[id];
    MOONLIT_ASSIGN_OR_RETURN(const Part part, FindPart(spec, source));
    store->parts_[id] = part;
    store->names_[id] = spec.name;
    store->file_bytes_ += part.bytes();
    store->offsets_[id] = store->packed_bytes_;
    uint64_t bytes = uint64_t{part.shape.elements()} * sizeof(float);
    if (!spec.is_table) {
      store->ChooseKernel(graph, static_cast<WeightId>(id));
      const PackedMatrix& m = store->matrices_[id];
      bytes = uint64_t{m.experts} * m.tiles * m.tile_bytes;
      if (m.provider == FloatProvider::kXnnpack) {
        const FloatLayout layout = FloatProduct::LayOut(XnnpackShape(m));
        bytes = layout.bytes;
        const size_t floats = RoundUp(XnnpackMatrix::ScratchFloats(layout), kAlignment);
        store->xnnpack_floats_ = std::max(store->xnnpack_floats_, floats);
      }
    }
    store->packed_bytes_ += Aligned(bytes);
    store->CutIntoPieces(static_cast<WeightId>(id));
  }
  return store;
}

void WeightStore::ChooseKernel(const Graph& graph, WeightId id) {
  const Part& part = parts_[id];
  PackedMatrix& m = matrices_[id];
  m.format = part.tensor->format;
  m.kernel = &GetProductKernel(options_.variant, m.format);
  m.k = part.shape.columns();
  m.experts = part.shape.rank() > 2 ? part.shape[0] : 1;
  m.n = part.shape.rows() / m.experts;
  m.name = names_[id].c_str();
  if (m.format == Format::kF32 && part.shape.rank() == 2 && !IsEmbedding(graph, id)) {
    m.provider = ChooseFloatProvider(options_.floats, options_.variant, m.n, m.k);
  }
  const bool own = m.provider == FloatProvider::kOwn;
  m.n_tile = own ? m.kernel->n_tile : FloatProduct::kUnit;
  m.tile_bytes = own ? m.kernel->tile_bytes(m.k) : m.n_tile * m.k * sizeof(float);
  m.tiles = CeilDiv(m.n, m.n_tile);
}

void WeightStore::CutIntoPieces(WeightId id) {
  const size_t row_bytes = parts_[id].row_bytes();
  const size_t rows = parts_[id].rows();
  size_t step = rows, n = rows;
  const PackedMatrix& m = matrices_[id];
  if (m.provider == FloatProvider::kXnnpack) {
    const FloatLayout layout = FloatProduct::LayOut(XnnpackShape(m));
    for (size_t s = 0; s < layout.slices; ++s) {
      const size_t count = layout.outputs_of(s, m.n);
      pieces_.push_back({id, s * layout.slice_outputs, count});
      staging_bytes_ = std::max(staging_bytes_, Aligned(uint64_t{row_bytes} * count));
    }
    return;
  }
  if (m.kernel != nullptr) {
    step = std::max(m.n_tile, kPieceBytes / row_bytes / m.n_tile * m.n_tile);
    n = m.n;
  }
  staging_bytes_ = std::max(staging_bytes_, Aligned(uint64_t{row_bytes} * std::min(step, n)));
  for (size_t first = 0; first < rows; first += n) {
    for (size_t row = 0; row < n; row += step) pieces_.push_back({id, first + row, std::min(step, n - row)});
  }
}

Status WeightStore::LoadPiece(const WeightSource& source, const Piece& piece, uint8_t* staging) {
  const Part& part = parts_[piece.weight];
  const size_t row_bytes = part.row_bytes();
  MOONLIT_RETURN_IF_ERROR(source.Read(*part.tensor, uint64_t{part.first_row + piece.first_row} * row_bytes, staging,
                                      piece.rows * row_bytes));
  uint8_t* out = Place(piece.weight);
  const PackedMatrix& m = matrices_[piece.weight];
  if (m.kernel == nullptr) {
    Traits(part.tensor->format).dequantize(staging, reinterpret_cast<float*>(out), part.row_values * piece.rows);
    return Status();
  }
  if (m.provider == FloatProvider::kXnnpack) {
    const FloatProductShape shape = XnnpackShape(m);
    return FloatProduct::Pack(shape, piece.first_row / FloatProduct::LayOut(shape).slice_outputs,
                              reinterpret_cast<const float*>(staging), out);
  }
  const size_t n_tile = m.n_tile;
  const size_t first_tile = piece.first_row / m.n * m.tiles + piece.first_row % m.n / n_tile;
  for (size_t row = 0; row < piece.rows; row += n_tile) {
    m.kernel->pack_tile(staging + row * row_bytes, row_bytes, std::min(n_tile, piece.rows - row), m.k,
                        out + (first_tile + row / n_tile) * m.tile_bytes);
  }
  return Status();
}

uint64_t WeightStore::StagingBytes(size_t threads) const {
  return staging_bytes_ * threads + FloatProduct::kReadablePast * sizeof(float);
}

Status WeightStore::Pack(const WeightSource& source, ThreadPool& pool,
                         const std::function<bool(uint64_t, uint64_t)>& progress) {
  MOONLIT_ASSIGN_OR_RETURN(memory_, Buffer::Allocate(packed_bytes_, "the packed weights", options_.allocator));
  LoadProgress shared(&progress, file_bytes_);
  LoadJob job{.store = this, .source = &source, .progress = &shared, .staging = {}};
  MOONLIT_ASSIGN_OR_RETURN(
      job.staging, Buffer::Allocate(StagingBytes(pool.threads()), "staging for loading weights", options_.allocator));
  const Stage stage{pieces_.size(), &LoadJob::RunTask, &job};
  return shared.Finish(pool.Run({&stage, 1}, shared.stop()));
}

// Who multiplies, where everything lies, and what packing makes of samples.
Result<PackedCacheKey> WeightStore::CacheKey(const WeightSource& source) const {
  MOONLIT_ASSIGN_OR_RETURN(const uint64_t fingerprint, source.Fingerprint());
  Checksum layout;
  const std::string variant = VariantName(options_.variant);
  layout.Add(variant.data(), variant.size());
  std::map<std::pair<const ProductKernel*, FloatProvider>, uint64_t> samples;
  for (size_t id = 0; id < parts_.size(); ++id) {
    const PackedMatrix& m = matrices_[id];
    uint64_t sample = 0;
    if (m.kernel != nullptr) {
      const auto [found, added] = samples.try_emplace({m.kernel, m.provider}, 0);
      if (added) {
        MOONLIT_ASSIGN_OR_RETURN(found->second, PackedSample(m));
      }
      sample = found->second;
    }
    const uint64_t words[] = {names_[id].size(),
                              static_cast<uint64_t>(parts_[id].tensor->format),
                              m.n,
                              m.k,
                              m.tile_bytes,
                              offsets_[id],
                              sample};
    layout.Add(words, sizeof words);
    layout.Add(names_[id].data(), names_[id].size());
  }
  return PackedCacheKey{fingerprint, layout.Value()};
}

// A cache that does not serve costs a warning and the time of packing, never the load.
Status WeightStore::LoadOrPack(const PackedCache& cache, const WeightSource& source, ThreadPool& pool,
                               const std::function<bool(uint64_t, uint64_t)>& progress) {
  MOONLIT_ASSIGN_OR_RETURN(memory_, Buffer::Allocate(packed_bytes_, "the packed weights", options_.allocator));
  const Status read = cache.Read(memory_.data(), memory_.size(), pool, progress);
  if (read.ok() || read.code() == Code::kCancelled) return read;
  if (read.code() != Code::kNotFound) {
    Logf(LogLevel::kWarning, "packed weights are made anew: %s", std::string(read.message()).c_str());
  }
  memory_ = Buffer();  // packing starts from zeros
  MOONLIT_RETURN_IF_ERROR(Pack(source, pool, progress));
  const Status written = cache.Write(memory_.data(), memory_.size(), pool);
  if (!written.ok()) {
    Logf(LogLevel::kWarning, "packed weights are not kept for the next time: %s",
         std::string(written.message()).c_str());
  }
  return Status();
}

Status WeightStore::Load(const WeightSource& source, ThreadPool& pool,
                         const std::function<bool(uint64_t, uint64_t)>& progress) {
  if (options_.cache.empty()) {
    MOONLIT_RETURN_IF_ERROR(Pack(source, pool, progress));
  } else if (const Result<PackedCacheKey> key = CacheKey(source); key.ok()) {
    MOONLIT_RETURN_IF_ERROR(LoadOrPack(PackedCache(options_.cache, *key), source, pool, progress));
  } else {
    Logf(LogLevel::kWarning, "packed weights are not kept: %s", std::string(key.status().message()).c_str());
    MOONLIT_RETURN_IF_ERROR(Pack(source, pool, progress));
  }
  for (size_t id = 0; id < parts_.size(); ++id) {
    const uint8_t* data = Place(static_cast<WeightId>(id));
    if (matrices_[id].kernel != nullptr) {
      matrices_[id].data = data;
    } else {
      vectors_[id] = reinterpret_cast<const float*>(data);
    }
  }
  parts_.clear();
  pieces_.clear();
  return BindXnnpack(pool.threads());
}

Status WeightStore::BindXnnpack(size_t threads) {
  if (xnnpack_floats_ == 0) return Status();
  MOONLIT_ASSIGN_OR_RETURN(
      xnnpack_scratch_, Buffer::Allocate(ScratchBytes(threads), "scratch for XNNPACK's products", options_.allocator));
  for (PackedMatrix& m : matrices_) {
    if (m.provider != FloatProvider::kXnnpack) continue;
    Result<FloatProduct> product =
        FloatProduct::Create(XnnpackShape(m), m.data, RoundUp(m.k, XnnpackMatrix::kInputUnit), threads);
    if (!product.ok()) return product.status().WithContext(std::string("tensor ") + m.name);
    m.xnnpack = std::make_shared<XnnpackMatrix>(std::move(product).value(), GetActivationTable(options_.variant),
                                                xnnpack_scratch_.as<float>(), xnnpack_floats_);
  }
  return Status();
}

}  // namespace moonlit
