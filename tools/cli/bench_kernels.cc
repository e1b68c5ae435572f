// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/bench_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>

#include "kernels/activation/activation.h"
#include "kernels/base/round.h"
#include "kernels/matmul/matmul.h"
#include "runtime/api/moonlit.h"
#include "runtime/decode/engine.h"
#include "runtime/exec/float_provider.h"
#include "runtime/exec/packed_weights.h"
#include "runtime/exec/tiling.h"
#include "runtime/exec/xnnpack_matrix.h"
#include "runtime/tensor/buffer.h"

namespace moonlit::cli {
namespace {

struct Shape {
  size_t n, k;
};

bool ParseShape(const std::string& text, Shape* shape) {
  int used = 0;
  const bool read = std::sscanf(text.c_str(), "%zux%zu%n", &shape->n, &shape->k, &used) == 2;
  constexpr size_t kMost = size_t{1} << 20;
  return read && static_cast<size_t>(used) == text.size() && shape->n >= 1 && shape->k >= 1 && shape->n <= kMost &&
         shape->k <= kMost;
}

// Numbers around 0 with a standard deviation of about 1.
std::vector<float> RandomValues(size_t count, uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<float> values(count);
  for (float& v : values) {
    v = -2.0f;
    for (int i = 0; i < 4; ++i) v += static_cast<float>(random() >> 7) * 0x1p-24f;
    v *= std::sqrt(3.0f);
  }
  return values;
}

// `count` rows in file format. Formats without an encoder get bytes whose scales are small normal numbers.
std::vector<uint8_t> EncodedRows(Format format, size_t count, size_t k) {
  const FormatTraits& traits = Traits(format);
  const size_t row_bytes = RowBytes(format, k);
  std::vector<uint8_t> rows(count * row_bytes);
  if (traits.quantize == nullptr) {
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<uint8_t>(i % 61);
    return rows;
  }
  const std::vector<float> values = RandomValues(count * k, 1);
  for (size_t r = 0; r < count; ++r) traits.quantize(&values[r * k], nullptr, &rows[r * row_bytes], k);
  return rows;
}

// What is the same for all measurements of a run.
struct Setting {
  Variant variant;
  FloatProviderChoice float_provider;
  const MeasureOptions& options;
  const std::vector<size_t>& rows;
  const std::vector<FloatProvider>& providers;  // empty: the one that the engine takes
};

// One matrix, packed, as often as it takes to fill `cold_bytes`.
class PackedCopies {
 public:
  static Result<PackedCopies> Make(const Setting& setting, Format format, Shape shape, FloatProvider provider,
                                   ThreadPool& pool);
  const PackedMatrix& Next() { return copies_[next_++ % copies_.size()]; }
  const PackedMatrix& matrix() const { return copies_[0]; }
  double pack_gb_s() const { return pack_gb_s_; }  // bytes of the file that all threads pack in a second

 private:
  void PackOwn(ThreadPool& pool);
  Status PackByXnnpack(ThreadPool& pool);
  Status BindXnnpack(const Setting& setting, ThreadPool& pool);

  PackedMatrix first_;  // packed, not bound
  size_t bytes_ = 0;    // of one
  std::vector<PackedMatrix> copies_;
  size_t next_ = 0;
  double pack_gb_s_ = 0;
  Buffer memory_, scratch_;
};

Result<PackedCopies> PackedCopies::Make(const Setting& setting, Format format, Shape shape, FloatProvider provider,
                                        ThreadPool& pool) {
  PackedCopies p;
  PackedMatrix& m = p.first_;
  m.kernel = &GetProductKernel(setting.variant, format);
  m.provider = provider;
  m.format = format;
  m.n = shape.n;
  m.k = shape.k;
  const bool own = provider == FloatProvider::kOwn;
  m.n_tile = own ? m.kernel->n_tile : FloatProduct::kUnit;
  m.tile_bytes = own ? m.kernel->tile_bytes(m.k) : m.n_tile * m.k * sizeof(float);
  m.tiles = CeilDiv(m.n, m.n_tile);
  p.bytes_ = own ? m.tiles * m.tile_bytes : FloatProduct::LayOut({m.n, m.k}).bytes;
  const size_t copies = std::max<size_t>(1, CeilDiv(BytesOfMib(setting.options.cold_mib), p.bytes_));
  MOONLIT_ASSIGN_OR_RETURN(p.memory_, Buffer::Allocate(copies * p.bytes_, "the packed weights"));
  if (own) {
    p.PackOwn(pool);
  } else {
    MOONLIT_RETURN_IF_ERROR(p.PackByXnnpack(pool));
  }
  ForTasks(pool, copies - 1, [&](size_t copy, size_t) {
    std::memcpy(p.memory_.data() + (copy + 1) * p.bytes_, p.memory_.data(), p.bytes_);
  });
  p.copies_.assign(copies, m);
  for (size_t c = 0; c < copies; ++c) p.copies_[c].data = p.memory_.data() + c * p.bytes_;
  if (!own) MOONLIT_RETURN_IF_ERROR(p.BindXnnpack(setting, pool));
  return p;
}

void PackedCopies::PackOwn(ThreadPool& pool) {
  const PackedMatrix& m = first_;
  const std::vector<uint8_t> rows = EncodedRows(m.format, m.n_tile, m.k);
  const size_t row_bytes = RowBytes(m.format, m.k);
  const double seconds = BestSeconds(0.01, [&] {  // the second time its pages are there
    ForTasks(pool, m.tiles, [&](size_t t, size_t) {
      const size_t valid = std::min<size_t>(m.n_tile, m.n - t * m.n_tile);
      m.kernel->pack_tile(rows.data(), row_bytes, valid, m.k, memory_.data() + t * m.tile_bytes);
    });
  });
  pack_gb_s_ = 1e-9 * static_cast<double>(m.n * row_bytes) / seconds;
}

Status PackedCopies::PackByXnnpack(ThreadPool& pool) {
  const FloatProductShape shape{first_.n, first_.k};
  const FloatLayout layout = FloatProduct::LayOut(shape);
  const std::vector<float> rows = RandomValues(layout.outputs_of(layout.slices - 1, shape.outputs) * shape.inputs, 1);
  std::vector<Status> packed(layout.slices);
  const double seconds = BestSeconds(0.01, [&] {
    ForTasks(pool, layout.slices,
             [&](size_t s, size_t) { packed[s] = FloatProduct::Pack(shape, s, rows.data(), memory_.data()); });
  });
  pack_gb_s_ = 1e-9 * static_cast<double>(shape.outputs * shape.inputs * sizeof(float)) / seconds;
  for (const Status& status : packed) MOONLIT_RETURN_IF_ERROR(status);
  return Status();
}

Status PackedCopies::BindXnnpack(const Setting& setting, ThreadPool& pool) {
  const FloatProductShape shape{first_.n, first_.k};
  const size_t floats = XnnpackMatrix::ScratchFloats(FloatProduct::LayOut(shape));
  MOONLIT_ASSIGN_OR_RETURN(scratch_, Buffer::Allocate(floats * pool.threads() * sizeof(float), "XNNPACK's scratch"));
  for (PackedMatrix& copy : copies_) {
    MOONLIT_ASSIGN_OR_RETURN(
        FloatProduct product,
        FloatProduct::Create(shape, copy.data, RoundUp(shape.inputs, XnnpackMatrix::kInputUnit), pool.threads()));
    copy.xnnpack = std::make_shared<XnnpackMatrix>(std::move(product), GetActivationTable(setting.variant),
                                                   scratch_.as<float>(), floats);
  }
  return Status();
}

// One product of `rows` activations, cut into tasks as the engine does it.
class Product {
 public:
  static Result<Product> Make(Variant variant, const PackedMatrix& matrix, size_t rows);
  // Seconds of quantizing the activations, which the engine does once for all products of one input.
  double Quantize(ThreadPool& pool, double min_seconds);
  void Multiply(ThreadPool& pool, const PackedMatrix& matrix, const Tiling& tiling);
  Tiling ChooseTasks(const PackedMatrix& matrix, size_t threads) const;

 private:
  Activation activation_ = Activation::kF32;
  const ProductTable* table_ = nullptr;
  ProductArgs args_{};
  Buffer x_, a8_, out_;
};

Result<Product> Product::Make(Variant variant, const PackedMatrix& matrix, size_t rows) {
  Product p;
  p.activation_ = matrix.kernel->activation;
  p.table_ = &GetProductTable(variant);
  const size_t n = matrix.n, k = matrix.k, stride = RoundUp(k, XnnpackMatrix::kInputUnit);
  MOONLIT_ASSIGN_OR_RETURN(
      p.x_, Buffer::Allocate((rows * stride + FloatProduct::kReadablePast) * sizeof(float), "the activations"));
  MOONLIT_ASSIGN_OR_RETURN(p.a8_, Buffer::Allocate(A8Bytes(rows, k), "the quantized activations"));
  MOONLIT_ASSIGN_OR_RETURN(p.out_, Buffer::Allocate(rows * n * sizeof(float), "the outputs"));
  const size_t distinct = std::min<size_t>(rows, 8);  // enough: time does not depend on values
  const std::vector<float> values = RandomValues(distinct * k, 2);
  for (size_t r = 0; r < rows; ++r)
    std::memcpy(p.x_.as<float>() + r * stride, &values[r % distinct * k], k * sizeof(float));
  p.args_.k = k;
  p.args_.n = n;
  p.args_.rows = rows;
  p.args_.a8 = MakeA8View(p.a8_.data(), rows, k);
  p.args_.x = p.x_.as<float>();
  p.args_.x_stride = stride;
  p.args_.out = p.out_.as<float>();
  p.args_.out_stride = n;
  return p;
}

double Product::Quantize(ThreadPool& pool, double min_seconds) {
  if (activation_ != Activation::kA8) return 0;
  constexpr size_t kRowsPerTask = 4;
  return BestSeconds(min_seconds, [&] {
    ForTasks(pool, CeilDiv(args_.rows, kRowsPerTask), [&](size_t task, size_t) {
      const size_t first = task * kRowsPerTask;
      table_->quantize_a8(args_.x + first * args_.x_stride, args_.x_stride, std::min(kRowsPerTask, args_.rows - first),
                          args_.k, A8From(args_.a8, first, 0));
    });
  });
}

Tiling Product::ChooseTasks(const PackedMatrix& matrix, size_t threads) const {
  TilingInput cut = matrix.Cut(/*exact=*/false);
  cut.rows = args_.rows;
  cut.threads = threads;
  return ChooseTiling(cut);
}

void Product::Multiply(ThreadPool& pool, const PackedMatrix& matrix, const Tiling& tiling) {
  ForTasks(pool, tiling.tasks(), [&](size_t task, size_t thread) {
    const size_t first = tiling.first_row(task);
    ProductArgs args = args_;
    args.weights = matrix.data;
    args.tile_begin = tiling.first_unit(task);
    args.tile_end = std::min(matrix.tiles, args.tile_begin + tiling.units_per_task);
    args.rows = std::min(tiling.rows_per_block, args_.rows - first);
    args.a8 = A8From(args_.a8, first, 0);
    args.x += first * args.x_stride;
    args.out += first * args.out_stride;
    matrix.Multiply(args, /*exact=*/false, thread);
  });
}

struct Limit {
  const char* name;
  double gops;
};
Limit ArithmeticLimit(const ProductKernel& kernel, const MachinePeaks& peaks) {
  switch (kernel.arithmetic) {
    case Arithmetic::kInt8:
      return {"int8", peaks.int8_gops};
    case Arithmetic::kBF16:
      return {"bf16", peaks.bf16_gflops};
    case Arithmetic::kF32:
      break;
  }
  return {"f32", peaks.f32_gflops};
}

struct KernelResult {
  Format format;
  Shape shape;
  size_t rows;
  const ProductKernel* kernel;  // our own for the format
  FloatProvider provider;
  std::string name;
  double seconds, quantize_seconds, pack_gb_s;
};

nlohmann::ordered_json ToRow(const KernelResult& r, const MachinePeaks& peaks) {
  const Limit limit = ArithmeticLimit(*r.kernel, peaks);
  const double gops = 2e-9 * static_cast<double>(r.rows * r.shape.n * r.shape.k) / r.seconds;
  const double gb_s = 1e-9 * static_cast<double>(r.shape.n * RowBytes(r.format, r.shape.k)) / r.seconds;
  return {{"threads", peaks.threads},
          {"format", Traits(r.format).name},
          {"n", r.shape.n},
          {"k", r.shape.k},
          {"m", r.rows},
          {"provider", FloatProviderName(r.provider)},
          {"kernel", r.name},
          {"time_us", 1e6 * r.seconds},
          {"gops", gops},
          {"peak", limit.name},
          {"peak_percent", Percent(gops, limit.gops)},
          {"gb_s", gb_s},
          {"read_percent", Percent(gb_s, peaks.read_gb_s)},
          {"quantize_us", 1e6 * r.quantize_seconds},
          {"pack_gb_s", r.pack_gb_s}};
}

Status MeasureMatrix(const Setting& setting, ThreadPool& pool, Format format, Shape shape, FloatProvider provider,
                     std::vector<KernelResult>* results) {
  const MeasureOptions& options = setting.options;
  MOONLIT_ASSIGN_OR_RETURN(PackedCopies weights, PackedCopies::Make(setting, format, shape, provider, pool));
  const PackedMatrix& matrix = weights.matrix();
  for (size_t rows : setting.rows) {
    MOONLIT_RETURN_IF_ERROR(CheckInterrupt());
    MOONLIT_ASSIGN_OR_RETURN(Product product, Product::Make(setting.variant, matrix, rows));
    const double quantize = product.Quantize(pool, options.min_seconds / 10);
    const Tiling tiling = product.ChooseTasks(matrix, pool.threads());
    const double seconds = BestSeconds(options.min_seconds, [&] { product.Multiply(pool, weights.Next(), tiling); });
    results->push_back({format, shape, rows, matrix.kernel, provider, matrix.KernelName(/*exact=*/false), seconds,
                        quantize, weights.pack_gb_s()});
  }
  return Status();
}

// F32 weights by every provider that was asked for, everything else by our own kernels.
Status MeasureShape(const Setting& setting, ThreadPool& pool, Format format, Shape shape,
                    std::vector<KernelResult>* results) {
  std::vector<FloatProvider> providers{FloatProvider::kOwn};
  if (format == Format::kF32) {
    providers = setting.providers;
    if (providers.empty()) providers = {ChooseFloatProvider(setting.float_provider, setting.variant, shape.n, shape.k)};
  }
  for (FloatProvider provider : providers)
    MOONLIT_RETURN_IF_ERROR(MeasureMatrix(setting, pool, format, shape, provider, results));
  return Status();
}

std::vector<BenchColumn> Columns() {
  return {{"threads", "threads", 0},
          {"format", "format", kText},
          {"n", "N", 0},
          {"k", "K", 0},
          {"m", "M", 0},
          {"provider", "provider", kText},
          {"kernel", "kernel", kText},
          {"time_us", "µs", 1},
          {"gops", "GOPS", 1},
          {"peak_percent", "% of", 1},
          {"peak", "peak", kText},
          {"gb_s", "file GB/s", 2},
          {"read_percent", "% read", 1},
          {"quantize_us", "A8 µs", 1},
          {"pack_gb_s", "pack GB/s", 2}};
}

Status ParseFormats(const std::vector<std::string>& names, std::vector<Format>* formats) {
  if (names.empty()) formats->assign(std::begin(kAllFormats), std::end(kAllFormats));
  for (const std::string& name : names) {
    Format format;
    if (!FindFormatByName(name.c_str(), &format))
      return Errorf(Code::kInvalidArgument, "--formats: there is no block format \"%s\"", name.c_str());
    formats->push_back(format);
  }
  return Status();
}

// Every K must be whole blocks of every format: a shape that is left out in silence would be missed.
Status ParseShapes(const std::vector<std::string>& texts, const std::vector<Format>& formats,
                   std::vector<Shape>* shapes) {
  for (const std::string& text : texts) {
    Shape shape;
    if (!ParseShape(text, &shape))
      return Errorf(Code::kInvalidArgument, "--shapes: expected NxK like 2048x8192, found \"%s\"", text.c_str());
    for (Format format : formats) {
      const FormatTraits& traits = Traits(format);
      if (shape.k % traits.block_values == 0) continue;
      return Errorf(Code::kInvalidArgument, "--shapes: K of %s is no multiple of %u, a block of %s", text.c_str(),
                    traits.block_values, traits.name);
    }
    shapes->push_back(shape);
  }
  return Status();
}

Status ParseProviders(const std::vector<std::string>& names, std::vector<FloatProvider>* providers) {
  for (const std::string& name : names) {
    Result<FloatProviderChoice> choice = ResolveFloatProvider(name);
    if (!choice.ok()) return choice.status().WithContext("--float-providers");
    providers->push_back(*choice == FloatProviderChoice::kXnnpack ? FloatProvider::kXnnpack : FloatProvider::kOwn);
  }
  return Status();
}

}  // namespace

void KernelBench::DeclareFlags(CLI::App& app, CLI::Option* mode) {
  constexpr char kGroup[] = "With --kernels";
  app.add_option("--formats", formats_, "Block formats, like Q4_0,Q4_K (default: all)")
      ->delimiter(',')
      ->needs(mode)
      ->group(kGroup);
  app.add_option("--shapes", shapes_, "Outputs x inputs of the weights, NxK")
      ->delimiter(',')
      ->needs(mode)
      ->group(kGroup)
      ->capture_default_str();
  app.add_option("--rows", rows_, "Rows of activations (tokens), M")
      ->delimiter(',')
      ->needs(mode)
      ->group(kGroup)
      ->check(CLI::Range(size_t{1}, size_t{65536}))
      ->capture_default_str();
  app.add_option(
         "--float-providers", float_providers_,
         "Who multiplies with F32 weights: own, xnnpack or both (default: as MOONLIT_FLOAT_PROVIDER or the table says)")
      ->delimiter(',')
      ->needs(mode)
      ->group(kGroup);
}

int KernelBench::Run(const std::vector<uint32_t>& threads, const MeasureOptions& options,
                     const std::string& output) const {
  std::vector<Format> formats;
  std::vector<Shape> shapes;
  if (Status s = ParseFormats(formats_, &formats); !s.ok()) return ReportStatus(s);
  if (Status s = ParseShapes(shapes_, formats, &shapes); !s.ok()) return ReportStatus(s);
  const Result<Variant> variant = ResolveVariant("");
  if (!variant.ok()) return ReportStatus(variant.status());
  const Result<FloatProviderChoice> float_provider = ResolveFloatProvider("");
  if (!float_provider.ok()) return ReportStatus(float_provider.status());
  std::vector<FloatProvider> providers;
  if (Status s = ParseProviders(float_providers_, &providers); !s.ok()) return ReportStatus(s);
  const Setting setting{*variant, *float_provider, options, rows_, providers};
  BenchTable peak_table{"peaks", PeakColumns(), {}};
  BenchTable table{"kernels", Columns(), {}};
  std::vector<KernelResult> results;
  const auto measure = [&](ThreadPool& pool) {
    results.clear();
    for (Format format : formats) {
      for (Shape shape : shapes) MOONLIT_RETURN_IF_ERROR(MeasureShape(setting, pool, format, shape, &results));
    }
    return Status();
  };
  const auto finish = [&](const MachinePeaks& peaks) {
    for (const KernelResult& result : results) table.rows.push_back(ToRow(result, peaks));
  };
  const Status measured = OnEachPool(threads, *variant, options, &peak_table, measure, finish);
  if (peak_table.rows.empty() && !measured.ok()) return ReportStatus(measured);
  PrintTables({{"build_version", moonlit_version()}, {"variant", VariantName(*variant)}}, {peak_table, table}, output);
  return measured.ok() ? kOk : ReportStatus(measured);
}

}  // namespace moonlit::cli
