// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/forward.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "kernels/base/float16.h"

namespace moonlit::reference {
namespace {

using Vector = std::vector<double>;

struct Matrix {
  size_t rows = 0, columns = 0;
  bool quantized = false;     // multiplied with A8 activations by the fast path
  bool half = false;          // F16 or BF16
  std::vector<float> values;  // [rows, columns]
};

struct Config {
  std::string arch;
  size_t layers, d, heads, kv_heads, head_dim, rotated;
  size_t experts, experts_used;
  double eps, rope_base, rope_scale;
  double embedding_scale, residual_scale, logit_divisor, attention_scale;
  bool rope_halves;        // pairs (i, i + rotated / 2); otherwise neighbours (2i, 2i + 1)
  bool normalise_weights;  // of the chosen experts
};

Result<Matrix> ReadMatrix(const WeightSource& source, const std::string& name) {
  const TensorInfo* info = source.Find(name);
  if (info == nullptr) return Errorf(Code::kNotFound, "reference: no tensor %s", name.c_str());
  Matrix m;
  m.rows = info->shape.rows();
  m.columns = info->shape.columns();
  m.quantized = Traits(info->format).block_values > 1;
  m.half = info->format == Format::kF16 || info->format == Format::kBF16;
  std::vector<uint8_t> bytes(info->bytes);
  MOONLIT_RETURN_IF_ERROR(source.Read(*info, 0, bytes.data(), bytes.size()));
  m.values.resize(m.rows * m.columns);
  const size_t row_bytes = RowBytes(info->format, m.columns);
  for (size_t r = 0; r < m.rows; ++r) {
    Traits(info->format).dequantize(bytes.data() + r * row_bytes, m.values.data() + r * m.columns, m.columns);
  }
  return m;
}

// round-to-nearest, ties by `rounding`.
double RoundStep(double steps, Rounding& rounding) {
  const double below = std::floor(steps);
  const double part = steps - below;
  bool up = part > 0.5;
  if (std::fabs(part - 0.5) < rounding.tie_margin && rounding.flipped.contains(rounding.ties++)) up = !up;
  return up ? below + 1 : below;
}

// Groups of 32: scale = max|x| / 127, q = round(x * (127 / max|x|)), as kernels/matmul/a8.h defines it.
Vector RoundToA8(const Vector& x, Rounding& rounding) {
  Vector y(x.size());
  for (size_t g = 0; g < x.size(); g += 32) {
    const size_t end = std::min(x.size(), g + 32);
    double largest = 0;
    for (size_t i = g; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
    if (largest == 0) continue;
    for (size_t i = g; i < end; ++i) y[i] = largest / 127 * RoundStep(x[i] * 127 / largest, rounding);
  }
  return y;
}

// Eight bits of the magnitude are kept.
Vector RoundToBF16(const Vector& x, Rounding& rounding) {
  Vector y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] == 0) continue;
    const double step = std::ldexp(1.0, std::ilogb(x[i]) - 7);
    y[i] = std::copysign(RoundStep(std::fabs(x[i]) / step, rounding) * step, x[i]);
  }
  return y;
}

// Rows [first, first + rows) of w times x.
Vector MultiplyRows(const Matrix& w, size_t first, size_t rows, const Vector& x, Rounding* rounding) {
  const bool in_bf16 = rounding != nullptr && rounding->halves_as_bf16 && w.half;
  Vector input = x;
  if (in_bf16) input = RoundToBF16(x, *rounding);
  if (rounding != nullptr && w.quantized) input = RoundToA8(x, *rounding);
  Vector y(rows);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t c = 0; c < w.columns; ++c) {
      const float value = w.values[(first + r) * w.columns + c];
      y[r] += double{in_bf16 ? F32FromBF16(BF16FromF32(value)) : value} * input[c];
    }
  }
  return y;
}

Vector Multiply(const Matrix& w, const Vector& x, Rounding* rounding) {
  return MultiplyRows(w, 0, w.rows, x, rounding);
}

// The `used` experts of greatest logit, each with its part of the softmax over all logits.
std::vector<std::pair<size_t, double>> ChooseExperts(const Vector& logits, size_t used, bool normalise) {
  std::vector<std::pair<size_t, double>> chosen;
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0, sum_of_chosen = 0;
  for (size_t e = 0; e < logits.size(); ++e) chosen.emplace_back(e, std::exp(logits[e] - largest));
  for (const auto& [expert, weight] : chosen) sum += weight;
  std::stable_sort(chosen.begin(), chosen.end(), [&](const auto& a, const auto& b) { return a.second > b.second; });
  chosen.resize(used);
  for (const auto& [expert, weight] : chosen) sum_of_chosen += weight;
  for (auto& [expert, weight] : chosen) weight /= normalise ? sum_of_chosen : sum;
  return chosen;
}

Vector RmsNorm(const double* x, size_t n, const Matrix& weight, double eps) {
  double squares = 0;
  for (size_t i = 0; i < n; ++i) squares += x[i] * x[i];
  const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(n) + eps);
  Vector y(n);
  for (size_t i = 0; i < n; ++i) y[i] = x[i] * inverse * double{weight.values[i]};
  return y;
}

class Model {
 public:
  Model(const Metadata& metadata, const WeightSource& source) : metadata_(metadata), source_(source) {}

  Status ReadConfig() {
    MOONLIT_ASSIGN_OR_RETURN(config_.arch, metadata_.GetString("general.architecture"));
    MOONLIT_ASSIGN_OR_RETURN(config_.layers, metadata_.GetUint(Key("block_count")));
    MOONLIT_ASSIGN_OR_RETURN(config_.d, metadata_.GetUint(Key("embedding_length")));
    MOONLIT_ASSIGN_OR_RETURN(config_.heads, metadata_.GetUint(Key("attention.head_count")));
    config_.kv_heads = Uint("attention.head_count_kv", config_.heads);
    config_.head_dim = Uint("attention.key_length", config_.d / config_.heads);
    config_.rotated = Uint("rope.dimension_count", config_.head_dim);
    config_.eps = Float("attention.layer_norm_rms_epsilon", 1e-5);
    config_.rope_base = Float("rope.freq_base", 10000.0);
    config_.rope_scale = 1.0 / Float("rope.scaling.factor", 1.0);
    config_.rope_halves = config_.arch != "llama" && config_.arch != "granitemoe";
    config_.experts = Uint("expert_count", 0);
    config_.experts_used = Uint("expert_used_count", 0);
    config_.normalise_weights = config_.arch != "qwen2moe" && config_.arch != "olmoe";
    config_.embedding_scale = Float("embedding_scale", 1);
    config_.residual_scale = Float("residual_scale", 1);
    config_.logit_divisor = Float("logit_scale", 1);
    config_.attention_scale = Float("attention.scale", 1 / std::sqrt(static_cast<double>(config_.head_dim)));
    return Status();
  }

  Result<Vector> Run(const std::vector<int32_t>& tokens, Rounding* rounding, const Places& places) {
    rounding_ = rounding;
    places_ = places;
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* embedding, Get("token_embd.weight"));
    std::vector<Vector> rows;
    for (int32_t id : tokens) {
      const float* row = embedding->values.data() + static_cast<size_t>(id) * config_.d;
      rows.emplace_back(row, row + config_.d);
      for (double& x : rows.back()) x *= config_.embedding_scale;
    }
    for (size_t layer = 0; layer < config_.layers; ++layer) {
      MOONLIT_RETURN_IF_ERROR(AttentionBlock(layer, rows));
      MOONLIT_RETURN_IF_ERROR(FeedForwardBlock(layer, rows));
    }
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* norm, Get("output_norm.weight"));
    const Matrix* head = embedding;
    if (source_.Find("output.weight") != nullptr) {
      MOONLIT_ASSIGN_OR_RETURN(head, Get("output.weight"));
    }
    Vector logits;
    for (const Vector& x : rows) {
      Vector y = Multiply(*head, RmsNorm(x.data(), config_.d, *norm, config_.eps), rounding_);
      for (double& logit : y) logit /= config_.logit_divisor;
      logits.insert(logits.end(), y.begin(), y.end());
    }
    return logits;
  }

 private:
  std::string Key(const char* suffix) const { return config_.arch + "." + suffix; }
  size_t Uint(const char* suffix, size_t otherwise) const {
    auto value = metadata_.GetUint(Key(suffix));
    return value.ok() ? static_cast<size_t>(value.value()) : otherwise;
  }
  double Float(const char* suffix, double otherwise) const {
    auto value = metadata_.GetFloat(Key(suffix));
    return value.ok() ? value.value() : otherwise;
  }
  Result<const Matrix*> Get(const std::string& name) {
    auto it = cache_.find(name);
    if (it == cache_.end()) {
      MOONLIT_ASSIGN_OR_RETURN(Matrix m, ReadMatrix(source_, name));
      it = cache_.emplace(name, std::move(m)).first;
    }
    return &it->second;
  }
  // y = W x (+ b); the bias is optional.
  Result<Vector> Linear(const std::string& stem, const Vector& x) {
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* w, Get(stem + ".weight"));
    Vector y = Multiply(*w, x, rounding_);
    if (source_.Find(stem + ".bias") != nullptr) {
      MOONLIT_ASSIGN_OR_RETURN(const Matrix* b, Get(stem + ".bias"));
      for (size_t i = 0; i < y.size(); ++i) y[i] += double{b->values[i]};
    }
    return y;
  }

  // Su et al. 2021, arXiv:2104.09864. Factors divide the frequencies (Llama 3's rope_freqs tensor).
  void Rotate(double* head, size_t position, const Matrix* factors) const {
    const size_t half = config_.rotated / 2;
    for (size_t i = 0; i < half; ++i) {
      double theta = std::pow(config_.rope_base, -2.0 * static_cast<double>(i) / static_cast<double>(config_.rotated));
      if (factors != nullptr) theta /= double{factors->values[i]};
      const double angle = static_cast<double>(position) * config_.rope_scale * theta;
      double& a = config_.rope_halves ? head[i] : head[2 * i];
      double& b = config_.rope_halves ? head[i + half] : head[2 * i + 1];
      const double rotated_a = a * std::cos(angle) - b * std::sin(angle);
      b = a * std::sin(angle) + b * std::cos(angle);
      a = rotated_a;
    }
  }

  void RotateHeads(size_t position, const Matrix* factors, Vector& x) const {
    for (size_t h = 0; h < x.size() / config_.head_dim; ++h) Rotate(x.data() + h * config_.head_dim, position, factors);
  }

  Status NormHeads(const std::string& norm_name, Vector& x) {
    const Matrix* norm = nullptr;
    if (source_.Find(norm_name) != nullptr) {
      MOONLIT_ASSIGN_OR_RETURN(norm, Get(norm_name));
    }
    // Of every head, or of all together.
    const bool whole = norm != nullptr && norm->columns == x.size();
    if (whole) x = RmsNorm(x.data(), x.size(), *norm, config_.eps);
    for (size_t h = 0; h < x.size() / config_.head_dim; ++h) {
      double* head = x.data() + h * config_.head_dim;
      if (norm != nullptr && !whole) {
        const Vector y = RmsNorm(head, config_.head_dim, *norm, config_.eps);
        std::copy(y.begin(), y.end(), head);
      }
    }
    return Status();
  }

  Status AttentionBlock(size_t layer, std::vector<Vector>& rows) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* norm, Get(blk + "attn_norm.weight"));
    const Matrix* factors = nullptr;
    if (source_.Find("rope_freqs.weight") != nullptr) {
      MOONLIT_ASSIGN_OR_RETURN(factors, Get("rope_freqs.weight"));
    }
    std::vector<Vector> keys, values;
    for (size_t t = 0; t < rows.size(); ++t) {
      const Vector x = RmsNorm(rows[t].data(), config_.d, *norm, config_.eps);
      MOONLIT_ASSIGN_OR_RETURN(Vector q, Linear(blk + "attn_q", x));
      MOONLIT_ASSIGN_OR_RETURN(Vector k, Linear(blk + "attn_k", x));
      MOONLIT_ASSIGN_OR_RETURN(Vector v, Linear(blk + "attn_v", x));
      MOONLIT_RETURN_IF_ERROR(NormHeads(blk + "attn_q_norm.weight", q));
      MOONLIT_RETURN_IF_ERROR(NormHeads(blk + "attn_k_norm.weight", k));
      RotateHeads(places_ ? static_cast<size_t>(places_(t, t)) : t, factors, q);
      if (!places_) RotateHeads(t, factors, k);
      keys.push_back(std::move(k));
      values.push_back(std::move(v));
      const Vector attended = places_ ? AttendPlaced(t, q, factors, keys, values) : Attend(q, keys, values);
      MOONLIT_ASSIGN_OR_RETURN(const Vector y, Linear(blk + "attn_output", attended));
      Add(y, config_.residual_scale, rows[t]);
    }
    return Status();
  }

  static void Add(const Vector& y, double factor, Vector& x) {
    for (size_t i = 0; i < y.size(); ++i) x[i] += factor * y[i];
  }

  // Over the keys that token t sees, each rotated to where it stands then.
  Vector AttendPlaced(size_t t, const Vector& q, const Matrix* factors, const std::vector<Vector>& keys,
                      const std::vector<Vector>& values) const {
    std::vector<Vector> seen_keys, seen_values;
    for (size_t j = 0; j <= t; ++j) {
      const int64_t position = places_(t, j);
      if (position < 0) continue;
      seen_keys.push_back(keys[j]);
      RotateHeads(static_cast<size_t>(position), factors, seen_keys.back());
      seen_values.push_back(values[j]);
    }
    return Attend(q, seen_keys, seen_values);
  }

  // softmax(scale q K^T) V for one query token over all keys so far; query head h reads KV head h / (heads / kv_heads).
  Vector Attend(const Vector& q, const std::vector<Vector>& keys, const std::vector<Vector>& values) const {
    const size_t dim = config_.head_dim;
    Vector out(config_.heads * dim);
    for (size_t h = 0; h < config_.heads; ++h) {
      const size_t kv = h / (config_.heads / config_.kv_heads);
      Vector p(keys.size());
      double largest = -INFINITY, sum = 0;
      for (size_t j = 0; j < keys.size(); ++j) {
        double dot = 0;
        for (size_t i = 0; i < dim; ++i) dot += q[h * dim + i] * keys[j][kv * dim + i];
        p[j] = dot * config_.attention_scale;
        largest = std::max(largest, p[j]);
      }
      for (double& value : p) sum += value = std::exp(value - largest);
      for (size_t j = 0; j < keys.size(); ++j) {
        for (size_t i = 0; i < dim; ++i) out[h * dim + i] += p[j] / sum * values[j][kv * dim + i];
      }
    }
    return out;
  }

  // SwiGLU (Shazeer 2020, arXiv:2002.05202): down(silu(gate x) * up x). `suffix` and `expert` select one of several networks.
  Result<Vector> FeedForward(const std::string& blk, const char* suffix, size_t expert, size_t experts,
                             const Vector& x) {
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* gate, Get(blk + "ffn_gate" + suffix + ".weight"));
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* up, Get(blk + "ffn_up" + suffix + ".weight"));
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* down, Get(blk + "ffn_down" + suffix + ".weight"));
    const size_t width = gate->rows / experts, outputs = down->rows / experts;
    Vector g = MultiplyRows(*gate, expert * width, width, x, rounding_);
    const Vector u = MultiplyRows(*up, expert * width, width, x, rounding_);
    for (size_t i = 0; i < g.size(); ++i) g[i] = g[i] / (1.0 + std::exp(-g[i])) * u[i];
    return MultiplyRows(*down, expert * outputs, outputs, g, rounding_);
  }

  // Mixture of experts (Shazeer et al. 2017, arXiv:1701.06538), with the expert that every token uses where there is one.
  Result<Vector> Mixture(const std::string& blk, const Vector& x) {
    MOONLIT_ASSIGN_OR_RETURN(const Vector logits, Linear(blk + "ffn_gate_inp", x));
    Vector sum(config_.d);
    for (const auto& [expert, weight] : ChooseExperts(logits, config_.experts_used, config_.normalise_weights)) {
      MOONLIT_ASSIGN_OR_RETURN(const Vector y, FeedForward(blk, "_exps", expert, config_.experts, x));
      Add(y, weight, sum);
    }
    if (source_.Find(blk + "ffn_gate_inp_shexp.weight") != nullptr) {
      MOONLIT_ASSIGN_OR_RETURN(const Vector gate, Linear(blk + "ffn_gate_inp_shexp", x));
      MOONLIT_ASSIGN_OR_RETURN(const Vector y, FeedForward(blk, "_shexp", 0, 1, x));
      Add(y, 1 / (1 + std::exp(-gate[0])), sum);
    }
    return sum;
  }

  Status FeedForwardBlock(size_t layer, std::vector<Vector>& rows) {
    const std::string blk = "blk." + std::to_string(layer) + ".";
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* norm, Get(blk + "ffn_norm.weight"));
    for (Vector& row : rows) {
      const Vector x = RmsNorm(row.data(), config_.d, *norm, config_.eps);
      MOONLIT_ASSIGN_OR_RETURN(const Vector y, config_.experts == 0 ? FeedForward(blk, "", 0, 1, x) : Mixture(blk, x));
      Add(y, config_.residual_scale, row);
    }
    return Status();
  }

  const Metadata& metadata_;
  const WeightSource& source_;
  Config config_{};
  Rounding* rounding_ = nullptr;
  Places places_;
  std::map<std::string, Matrix> cache_;
};

}  // namespace

Result<std::vector<double>> Forward(const Metadata& metadata, const WeightSource& source,
                                    const std::vector<int32_t>& tokens, Rounding* rounding, const Places& places) {
  Model model(metadata, source);
  MOONLIT_RETURN_IF_ERROR(model.ReadConfig());
  return model.Run(tokens, rounding, places);
}

}  // namespace moonlit::reference
