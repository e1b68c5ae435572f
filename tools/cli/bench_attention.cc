// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/bench_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>

#include "kernels/base/round.h"
#include "runtime/api/moonlit.h"
#include "runtime/decode/engine.h"
#include "tools/cli/bench_fused.h"
#include "tools/cli/bench_naive.h"
#include "tools/cli/bench_plot.h"

namespace moonlit::cli {
namespace {

// Uniform with a standard deviation of 1.
std::vector<float> RandomValues(size_t count, uint32_t seed) {
  std::minstd_rand random(seed);
  std::vector<float> values(count);
  for (float& v : values) v = (static_cast<float>(random() >> 7) * 0x1p-23f - 1.0f) * std::sqrt(3.0f);
  return values;
}

double VisitedKeys(const AttentionShape& s) {
  const double tokens = static_cast<double>(s.tokens), context = static_cast<double>(s.context);
  return tokens * (context - tokens) + tokens * (tokens + 1) / 2;
}

// Two products of head_dim multiply-adds a query head and visited key.
double Flops(const AttentionShape& s) { return 4.0 * static_cast<double>(s.heads * s.head_dim) * VisitedKeys(s); }

// The rate of a cache type's arithmetic (docs/design.md, numeric contract).
double TypePeak(CacheType type, const MachinePeaks& peaks) {
  switch (type) {
    case CacheType::kBF16:
      return peaks.bf16_gflops > 0 ? peaks.bf16_gflops : peaks.f32_gflops;
    case CacheType::kQ8_0:
    case CacheType::kQ4_0:
      return peaks.int8_gops;
    default:
      return peaks.f32_gflops;
  }
}

// Half of the work is with keys, half with values; each at its own rate.
double ArithmeticPeak(const AttentionShape& s, const MachinePeaks& peaks) {
  const double keys = TypePeak(s.key_type, peaks), values = TypePeak(s.value_type, peaks);
  return keys > 0 && values > 0 ? 2 / (1 / keys + 1 / values) : 0;
}

size_t NaiveLimit(size_t naive_mib) { return BytesOrQuarter(naive_mib, size_t{2} << 30); }

double RelativeDistance(const float* values, const std::vector<float>& reference) {
  double distance = 0, norm = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    const double d = static_cast<double>(values[i]) - reference[i];
    distance += d * d;
    norm += static_cast<double>(reference[i]) * reference[i];
  }
  return std::sqrt(distance / norm);
}

struct Outcome {
  double seconds = 0;
  std::optional<double> naive_seconds;
  double difference = 0;  // of the last outputs, relative to the naive ones
};

// The naive version knows no cache types: it is measured once for each (tokens, context).
struct NaiveOutcome {
  double seconds;
  std::vector<float> out;
};

class AttentionMeasurement {
 public:
  AttentionMeasurement(Variant variant, ThreadPool& pool, const MeasureOptions& options, size_t naive_limit)
      : variant_(variant), pool_(pool), options_(options), naive_limit_(naive_limit) {}

  Result<Outcome> Measure(const AttentionShape& s) {
    const size_t floats = s.kv_heads * s.context * s.head_dim;
    const std::vector<float> keys = RandomValues(floats, 1), values = RandomValues(floats, 2);
    // A single token meets as many layers as lie in memory: a model's layers follow each other too.
    const double cold_bytes = static_cast<double>(BytesOfMib(options_.cold_mib));
    const size_t layers =
        s.tokens > 1 ? 1 : std::max<size_t>(1, static_cast<size_t>(cold_bytes / FusedAttention::CacheBytes(s)));
    auto fused = FusedAttention::Make(s, variant_, pool_, layers, keys.data(), values.data());
    if (!fused.ok()) return fused.status();
    FusedAttention& attention = **fused;
    const size_t q_floats = attention.q_rows() * s.heads * s.head_dim;
    const std::vector<float> q = RandomValues(q_floats, 3);
    std::memcpy(attention.q(), q.data(), q_floats * sizeof(float));
    Outcome outcome;
    Status status;
    size_t layer = 0;
    outcome.seconds = BestSeconds(options_.min_seconds, [&] {
      if (Status s_run = attention.Run(layer++ % layers); !s_run.ok()) status = s_run;
    });
    MOONLIT_RETURN_IF_ERROR(status);
    const NaiveShape naive{s.heads, s.kv_heads, s.head_dim, s.tokens, s.context};
    if (uint64_t{s.tokens} * s.context <= naive_limit_ / sizeof(float)) {
      MOONLIT_RETURN_IF_ERROR(MeasureNaive(naive, keys, values, attention, &outcome));
    }
    return outcome;
  }

 private:
  Status MeasureNaive(const NaiveShape& shape, const std::vector<float>& keys, const std::vector<float>& values,
                      FusedAttention& fused, Outcome* outcome) {
    const std::pair<size_t, size_t> place{shape.tokens, shape.context};
    if (naive_.count(place) == 0) {
      MOONLIT_ASSIGN_OR_RETURN(NaiveAttention naive, NaiveAttention::Make(shape, keys.data(), values.data()));
      std::vector<float> out(fused.q_rows() * shape.heads * shape.head_dim);
      const double seconds = BestSeconds(
          options_.min_seconds, [&] { naive.Run(pool_, fused.q(), fused.q_rows(), fused.scale(), out.data()); });
      naive_[place] = {seconds, std::move(out)};
    }
    outcome->naive_seconds = naive_[place].seconds;
    outcome->difference = RelativeDistance(fused.out(), naive_[place].out);
    return Status();
  }

  Variant variant_;
  ThreadPool& pool_;
  const MeasureOptions& options_;
  size_t naive_limit_;
  std::map<std::pair<size_t, size_t>, NaiveOutcome> naive_;
};

nlohmann::ordered_json ToRow(const AttentionShape& s, const Outcome& o, const MachinePeaks& peaks) {
  const double gflops = 1e-9 * Flops(s) / o.seconds;
  nlohmann::ordered_json gb_s, read_percent, naive_ms, speedup, difference;
  if (s.tokens == 1) {
    gb_s = 1e-9 * FusedAttention::CacheBytes(s) / o.seconds;
    read_percent = Percent(gb_s.get<double>(), peaks.read_gb_s);
  }
  if (o.naive_seconds) {
    naive_ms = 1e3 * *o.naive_seconds;
    speedup = *o.naive_seconds / o.seconds;
    difference = o.difference;
  }
  return {{"threads", peaks.threads},
          {"tokens", s.tokens},
          {"context", s.context},
          {"heads", s.heads},
          {"kv_heads", s.kv_heads},
          {"head_dim", s.head_dim},
          {"type_k", CacheTypeName(s.key_type)},
          {"type_v", CacheTypeName(s.value_type)},
          {"time_ms", 1e3 * o.seconds},
          {"gflops", gflops},
          {"peak_percent", Percent(gflops, ArithmeticPeak(s, peaks))},
          {"gb_s", gb_s},
          {"read_percent", read_percent},
          {"naive_table_mib", 4.0 * static_cast<double>(s.tokens) * static_cast<double>(s.context) / 1048576.0},
          {"naive_ms", naive_ms},
          {"speedup", speedup},
          {"difference", difference}};
}

std::vector<BenchColumn> Columns() {
  return {{"threads", "threads", 0},      {"tokens", "tokens", 0},
          {"context", "context", 0},      {"heads", "heads", 0},
          {"kv_heads", "KV heads", 0},    {"head_dim", "dim", 0},
          {"type_k", "K", kText},         {"type_v", "V", kText},
          {"time_ms", "ms", 3},           {"gflops", "GFLOPS", 1},
          {"peak_percent", "% peak", 1},  {"gb_s", "cache GB/s", 2},
          {"read_percent", "% read", 1},  {"naive_table_mib", "naive table MiB", 1},
          {"naive_ms", "naive ms", 3},    {"speedup", "× naive", 1},
          {"difference", "difference", 5}};
}

Status ParseType(const std::string& name, Variant variant, CacheType* type) {
  *type = DefaultCacheType(variant);
  if (name.empty() || FindCacheType(name.c_str(), type)) return Status();
  return Errorf(Code::kInvalidArgument, "there is no cache type \"%s\": expected f32, f16, bf16, q8_0 or q4_0",
                name.c_str());
}

// Every type of keys with every type of values.
Status ParseTypes(const std::vector<std::string>& keys, const std::vector<std::string>& values, Variant variant,
                  std::vector<std::pair<CacheType, CacheType>>* types) {
  for (const std::string& key : keys) {
    for (const std::string& value : values) {
      std::pair<CacheType, CacheType> pair;
      MOONLIT_RETURN_IF_ERROR(ParseType(key, variant, &pair.first));
      MOONLIT_RETURN_IF_ERROR(ParseType(value, variant, &pair.second));
      types->push_back(pair);
    }
  }
  return Status();
}

// (tokens, context) pairs: every one that fits; and for the plot all tokens of each context.
std::vector<std::pair<size_t, size_t>> Points(const std::vector<size_t>& tokens, const std::vector<size_t>& contexts,
                                              bool plot) {
  std::vector<std::pair<size_t, size_t>> points;
  for (size_t count : tokens) {
    for (size_t context : contexts) {
      if (count <= context) points.push_back({count, context});
    }
  }
  for (size_t context : contexts) {
    const bool there = std::find(points.begin(), points.end(), std::pair(context, context)) != points.end();
    if (plot && !there) points.push_back({context, context});
  }
  return points;
}

// Rows of causal self-attention of T tokens over T keys; one pair of curves for each cache type and thread count.
std::vector<PlotCurve> Curves(const std::vector<nlohmann::ordered_json>& rows) {
  std::vector<PlotCurve> curves;
  auto add = [&](const std::string& name, double x, double y) {
    auto curve = std::find_if(curves.begin(), curves.end(), [&](const PlotCurve& c) { return c.name == name; });
    if (curve == curves.end()) curve = curves.insert(curves.end(), {name, {}});
    const bool there = !curve->points.empty() && curve->points.back().first >= x;  // measured for another cache type
    if (!there) curve->points.push_back({x, y});
  };
  for (const auto& row : rows) {
    const double tokens = row["tokens"].get<double>();
    if (row["tokens"] != row["context"]) continue;
    const std::string threads = ", " + row["threads"].dump() + " threads";
    const std::string types = row["type_k"].get<std::string>() + "/" + row["type_v"].get<std::string>();
    add("fused, " + types + " cache" + threads, tokens, row["time_ms"].get<double>());
    if (!row["naive_ms"].is_null()) add("naive T×T, f32" + threads, tokens, row["naive_ms"].get<double>());
  }
  return curves;
}

std::string PlotTitle(const std::vector<size_t>& shape, Variant variant) {
  return "Causal self-attention, " + std::to_string(shape[0]) + " heads of " + std::to_string(shape[2]) + ", " +
         std::to_string(shape[1]) + " KV heads (" + VariantName(variant) + ")";
}

}  // namespace

void AttentionBench::DeclareFlags(CLI::App& app, CLI::Option* mode) {
  constexpr char kGroup[] = "With --attention";
  app.add_option("--shape", shape_, "Heads,KV heads,head size")
      ->delimiter(',')
      ->expected(3)
      ->needs(mode)
      ->group(kGroup)
      ->check(CLI::Range(size_t{1}, size_t{1024}))
      ->capture_default_str();
  app.add_option("--contexts", contexts_, "Keys in the cache")
      ->delimiter(',')
      ->needs(mode)
      ->group(kGroup)
      ->check(CLI::Range(size_t{1}, size_t{1} << 24))
      ->capture_default_str();
  app.add_option("--tokens", tokens_, "Query tokens, the last ones of the context")
      ->delimiter(',')
      ->needs(mode)
      ->group(kGroup)
      ->check(CLI::Range(size_t{1}, size_t{1} << 24))
      ->capture_default_str();
  app.add_option(
         "--naive-mib", naive_mib_,
         "The naive version is left out where its table of tokens x context floats (of one head) takes more MiB; "
         "0: 2048, or a quarter of the memory if that is less")
      ->needs(mode)
      ->group(kGroup)
      ->check(CLI::Range(size_t{0}, size_t{1} << 24))
      ->capture_default_str();
  app.add_option("--plot", plot_,
                 "Also measure self-attention of T tokens over T keys for every context T, and draw time "
                 "against T, fused and naive, on logarithmic axes into this SVG file")
      ->needs(mode)
      ->group(kGroup);
}

int AttentionBench::Run(const std::vector<uint32_t>& threads, const std::vector<std::string>& key_types,
                        const std::vector<std::string>& value_types, const MeasureOptions& options,
                        const std::string& output) const {
  const Result<Variant> variant = ResolveVariant("");
  if (!variant.ok()) return ReportStatus(variant.status());
  if (shape_[0] % shape_[1] != 0)
    return ReportStatus(
        Errorf(Code::kInvalidArgument, "--shape: %zu heads are no multiple of %zu KV heads", shape_[0], shape_[1]));
  std::vector<std::pair<CacheType, CacheType>> types;
  if (Status s = ParseTypes(key_types, value_types, *variant, &types); !s.ok()) return ReportStatus(s);
  BenchTable peak_table{"peaks", PeakColumns(), {}};
  BenchTable table{"attention", Columns(), {}};
  std::vector<std::pair<AttentionShape, Outcome>> outcomes;
  const auto measure = [&](ThreadPool& pool) {
    outcomes.clear();
    AttentionMeasurement measurement(*variant, pool, options, NaiveLimit(naive_mib_));
    for (const auto& [key_type, value_type] : types) {
      for (const auto& [tokens, context] : Points(tokens_, contexts_, !plot_.empty())) {
        const AttentionShape shape{shape_[0], shape_[1], shape_[2], tokens, context, key_type, value_type};
        MOONLIT_RETURN_IF_ERROR(CheckInterrupt());
        MOONLIT_ASSIGN_OR_RETURN(const Outcome outcome, measurement.Measure(shape));
        outcomes.push_back({shape, outcome});
      }
    }
    return Status();
  };
  const auto finish = [&](const MachinePeaks& peaks) {
    for (const auto& [shape, outcome] : outcomes) table.rows.push_back(ToRow(shape, outcome, peaks));
  };
  const Status measured = OnEachPool(threads, *variant, options, &peak_table, measure, finish);
  if (peak_table.rows.empty() && !measured.ok()) return ReportStatus(measured);
  PrintTables({{"build_version", moonlit_version()},
               {"variant", VariantName(*variant)},
               {"naive_limit_mib", NaiveLimit(naive_mib_) >> 20}},
              {peak_table, table}, output);
  if (!measured.ok()) return ReportStatus(measured);
  if (plot_.empty()) return kOk;
  const Status written = WritePlot(plot_, PlotTitle(shape_, *variant), "T (tokens = keys)", "ms", Curves(table.rows));
  return written.ok() ? kOk : ReportStatus(written);
}

}  // namespace moonlit::cli
