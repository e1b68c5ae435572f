// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/bench_kernels.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>

#include "kernels/base/round.h"
#include "kernels/matmul/matmul.h"
#include "runtime/api/moonlit.h"
#include "runtime/decode/engine.h"
#include "runtime/exec/tiling.h"
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

// One matrix, packed, as often as it takes to fill `cold_bytes`.
class PackedCopies {
 public:
  static Result<PackedCopies> Make(const ProductKernel& kernel, Format format, Shape shape, size_t cold_bytes,
                                   ThreadPool& pool);
  const uint8_t* Next() { return memory_.data() + (next_++ % copies_) * bytes_; }
  size_t tiles() const { return tiles_; }
  size_t tile_bytes() const { return tile_bytes_; }
  double pack_gb_s() const { return pack_gb_s_; }  // bytes of the file that all threads pack in a second

 private:
  size_t tiles_ = 0, tile_bytes_ = 0, bytes_ = 0, copies_ = 0, next_ = 0;
  double pack_gb_s_ = 0;
  Buffer memory_;
};

Result<PackedCopies> PackedCopies::Make(const ProductKernel& kernel, Format format, Shape shape, size_t cold_bytes,
                                        ThreadPool& pool) {
  PackedCopies p;
  p.tiles_ = CeilDiv(shape.n, kernel.n_tile);
  p.tile_bytes_ = kernel.tile_bytes(shape.k);
  p.bytes_ = p.tiles_ * p.tile_bytes_;
  p.copies_ = std::max<size_t>(1, CeilDiv(cold_bytes, p.bytes_));
  MOONLIT_ASSIGN_OR_RETURN(p.memory_, Buffer::Allocate(p.copies_ * p.bytes_, "the packed weights"));
  const std::vector<uint8_t> rows = EncodedRows(format, kernel.n_tile, shape.k);
  const size_t row_bytes = RowBytes(format, shape.k);
  const double seconds = BestSeconds(0.01, [&] {  // the second time its pages are there
    ForTasks(pool, p.tiles_, [&](size_t t, size_t) {
      const size_t valid = std::min<size_t>(kernel.n_tile, shape.n - t * kernel.n_tile);
      kernel.pack_tile(rows.data(), row_bytes, valid, shape.k, p.memory_.data() + t * p.tile_bytes_);
    });
  });
  p.pack_gb_s_ = 1e-9 * static_cast<double>(shape.n * row_bytes) / seconds;
  ForTasks(pool, p.copies_ - 1, [&](size_t copy, size_t) {
    std::memcpy(p.memory_.data() + (copy + 1) * p.bytes_, p.memory_.data(), p.bytes_);
  });
  return p;
}

// One product of `rows` activations, cut into tasks as the engine does it.
class Product {
 public:
  static Result<Product> Make(Variant variant, const ProductKernel& kernel, Shape shape, size_t rows);
  // Seconds of quantizing the activations, which the engine does once for all products of one input.
  double Quantize(ThreadPool& pool, double min_seconds);
  void Multiply(ThreadPool& pool, const uint8_t* weights, const Tiling& tiling);
  Tiling ChooseTasks(const PackedCopies& weights, size_t threads) const;

 private:
  const ProductKernel* kernel_ = nullptr;
  const ProductTable* table_ = nullptr;
  ProductArgs args_{};
  Buffer x_, a8_, out_;
};

Result<Product> Product::Make(Variant variant, const ProductKernel& kernel, Shape shape, size_t rows) {
  Product p;
  p.kernel_ = &kernel;
  p.table_ = &GetProductTable(variant);
  MOONLIT_ASSIGN_OR_RETURN(p.x_, Buffer::Allocate(rows * shape.k * sizeof(float), "the activations"));
  MOONLIT_ASSIGN_OR_RETURN(p.a8_, Buffer::Allocate(A8Bytes(rows, shape.k), "the quantized activations"));
  MOONLIT_ASSIGN_OR_RETURN(p.out_, Buffer::Allocate(rows * shape.n * sizeof(float), "the outputs"));
  const size_t distinct = std::min<size_t>(rows, 8);  // enough: time does not depend on values
  const std::vector<float> values = RandomValues(distinct * shape.k, 2);
  for (size_t r = 0; r < rows; ++r)
    std::memcpy(p.x_.as<float>() + r * shape.k, &values[r % distinct * shape.k], shape.k * sizeof(float));
  p.args_.k = shape.k;
  p.args_.n = shape.n;
  p.args_.rows = rows;
  p.args_.a8 = MakeA8View(p.a8_.data(), rows, shape.k);
  p.args_.x = p.x_.as<float>();
  p.args_.x_stride = shape.k;
  p.args_.out = p.out_.as<float>();
  p.args_.out_stride = shape.n;
  return p;
}

double Product::Quantize(ThreadPool& pool, double min_seconds) {
  if (kernel_->activation != Activation::kA8) return 0;
  constexpr size_t kRowsPerTask = 4;
  return BestSeconds(min_seconds, [&] {
    ForTasks(pool, CeilDiv(args_.rows, kRowsPerTask), [&](size_t task, size_t) {
      const size_t first = task * kRowsPerTask;
      table_->quantize_a8(args_.x + first * args_.k, args_.k, std::min(kRowsPerTask, args_.rows - first), args_.k,
                          A8From(args_.a8, first, 0));
    });
  });
}

Tiling Product::ChooseTasks(const PackedCopies& weights, size_t threads) const {
  return ChooseTiling({.rows = args_.rows,
                       .bytes_per_row = kernel_->activation == Activation::kA8 ? args_.k : args_.k * sizeof(float),
                       .k = args_.k,
                       .unit_outputs = kernel_->n_tile,
                       .unit_bytes = weights.tile_bytes(),
                       .units = weights.tiles(),
                       .threads = threads,
                       .max_task_floats = 0});
}

void Product::Multiply(ThreadPool& pool, const uint8_t* weights, const Tiling& tiling) {
  const size_t tiles = CeilDiv(args_.n, kernel_->n_tile);
  ForTasks(pool, tiling.tasks(), [&](size_t task, size_t) {
    const size_t first = task / tiling.runs * tiling.rows_per_block;
    ProductArgs args = args_;
    args.weights = weights;
    args.tile_begin = task % tiling.runs * tiling.units_per_task;
    args.tile_end = std::min(tiles, args.tile_begin + tiling.units_per_task);
    args.rows = std::min(tiling.rows_per_block, args_.rows - first);
    args.a8 = A8From(args_.a8, first, 0);
    args.x += first * args.x_stride;
    args.out += first * args.out_stride;
    kernel_->multiply(args);
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
  const ProductKernel* kernel;
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
          {"provider", "moonlit"},
          {"kernel", r.kernel->name},
          {"time_us", 1e6 * r.seconds},
          {"gops", gops},
          {"peak", limit.name},
          {"peak_percent", Percent(gops, limit.gops)},
          {"gb_s", gb_s},
          {"read_percent", Percent(gb_s, peaks.read_gb_s)},
          {"quantize_us", 1e6 * r.quantize_seconds},
          {"pack_gb_s", r.pack_gb_s}};
}

// What is the same for all measurements of a run.
struct Setting {
  Variant variant;
  const MeasureOptions& options;
  const std::vector<size_t>& rows;
};

Status MeasureShape(const Setting& setting, ThreadPool& pool, Format format, Shape shape,
                    std::vector<KernelResult>* results) {
  const ProductKernel& kernel = GetProductKernel(setting.variant, format);
  const MeasureOptions& options = setting.options;
  MOONLIT_ASSIGN_OR_RETURN(PackedCopies weights,
                           PackedCopies::Make(kernel, format, shape, BytesOfMib(options.cold_mib), pool));
  for (size_t rows : setting.rows) {
    MOONLIT_RETURN_IF_ERROR(CheckInterrupt());
    MOONLIT_ASSIGN_OR_RETURN(Product product, Product::Make(setting.variant, kernel, shape, rows));
    const double quantize = product.Quantize(pool, options.min_seconds / 10);
    const Tiling tiling = product.ChooseTasks(weights, pool.threads());
    const double seconds = BestSeconds(options.min_seconds, [&] { product.Multiply(pool, weights.Next(), tiling); });
    results->push_back({format, shape, rows, &kernel, seconds, quantize, weights.pack_gb_s()});
  }
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
}

int KernelBench::Run(const std::vector<uint32_t>& threads, const MeasureOptions& options,
                     const std::string& output) const {
  std::vector<Format> formats;
  std::vector<Shape> shapes;
  if (Status s = ParseFormats(formats_, &formats); !s.ok()) return ReportStatus(s);
  if (Status s = ParseShapes(shapes_, formats, &shapes); !s.ok()) return ReportStatus(s);
  const Result<Variant> variant = ResolveVariant("");
  if (!variant.ok()) return ReportStatus(variant.status());
  const Setting setting{*variant, options, rows_};
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
