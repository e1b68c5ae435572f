// SPDX-License-Identifier: Apache-2.0
#include "tests/reference/forward.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tests/reference/attention.h"
#include "tests/reference/family.h"
#include "tests/reference/math.h"

namespace moonlit::reference {
namespace {

struct Config {
  std::string arch;
  size_t layers, d, heads, kv_heads, head_dim, ffn;
  size_t experts, experts_used;
  double eps, clamp, softcap, logit_softcap;
  double embedding_scale, residual_scale, logit_factor, attention_scale;
};

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

class Model {
 public:
  Model(const Metadata& metadata, const WeightSource& source) : metadata_(metadata), source_(source) {}

  Status ReadConfig() {
    MOONLIT_ASSIGN_OR_RETURN(config_.arch, metadata_.GetString("general.architecture"));
    family_ = FamilyOf(config_.arch, metadata_, source_);
    MOONLIT_ASSIGN_OR_RETURN(config_.layers, metadata_.GetUint(Key("block_count")));
    MOONLIT_ASSIGN_OR_RETURN(config_.d, metadata_.GetUint(Key("embedding_length")));
    MOONLIT_ASSIGN_OR_RETURN(config_.heads, metadata_.GetUint(Key("attention.head_count")));
    config_.ffn = Uint("feed_forward_length", 0);
    config_.kv_heads = Uint("attention.head_count_kv", config_.heads);
    config_.head_dim = Uint("attention.key_length", config_.d / config_.heads);
    config_.eps = Float(family_.layer_norms ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon", 0);
    config_.experts = Uint("expert_count", 0);
    config_.experts_used = Uint("expert_used_count", 0);
    config_.clamp = Float("attention.clamp_kqv", 0);
    config_.softcap = Float("attn_logit_softcapping", 0);
    config_.logit_softcap = Float("final_logit_softcapping", 0);
    config_.embedding_scale = Float("embedding_scale", family_.scaled_embedding ? std::sqrt(config_.d) : 1);
    config_.residual_scale = Float("residual_scale", 1);
    config_.logit_factor = Float("logit_scale", 1);
    if (!family_.multiplies_logits) config_.logit_factor = 1 / config_.logit_factor;
    const double usual = family_.unscaled_scores ? 1 : 1 / std::sqrt(static_cast<double>(config_.head_dim));
    config_.attention_scale = Float("attention.scale", usual);
    return ReadRotation();
  }

  Result<Vector> Run(const std::vector<int32_t>& tokens, Rounding* rounding, const Places& places,
                     std::vector<Vector>* streams) {
    rounding_ = rounding;
    places_ = places;
    MOONLIT_ASSIGN_OR_RETURN(std::vector<Vector> rows, Embed(tokens));
    MOONLIT_RETURN_IF_ERROR(MakeLayerInputs(tokens, rows));
    for (size_t layer = 0; layer < config_.layers; ++layer) {
      MOONLIT_RETURN_IF_ERROR(Layer(layer, rows));
      MOONLIT_RETURN_IF_ERROR(AddLayerInputs(layer, rows));
      if (streams == nullptr) continue;
      streams->emplace_back();
      for (const Vector& x : rows) streams->back().insert(streams->back().end(), x.begin(), x.end());
    }
    if (family_.encoder) return Flat(rows);
    const bool tied = source_.Find("output.weight") == nullptr;
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* head, Get(tied ? "token_embd.weight" : "output.weight"));
    Vector logits;
    for (const Vector& x : rows) {
      MOONLIT_ASSIGN_OR_RETURN(const Vector h, Norm("output_norm", x));
      Vector y = MultiplyRows(*head, 0, head->rows, h, rounding_, true);
      for (double& logit : y) logit *= config_.logit_factor;
      MOONLIT_RETURN_IF_ERROR(AddBias("output.bias", 0, y));
      if (config_.logit_softcap != 0) Cap(config_.logit_softcap, y);
      logits.insert(logits.end(), y.begin(), y.end());
    }
    return logits;
  }

 private:
  static Vector Flat(const std::vector<Vector>& rows) {
    Vector all;
    for (const Vector& row : rows) all.insert(all.end(), row.begin(), row.end());
    return all;
  }
  std::string Key(const char* suffix) const { return config_.arch + "." + suffix; }
  size_t Uint(const char* suffix, size_t otherwise) const {
    auto value = metadata_.GetUint(Key(suffix));
    return value.ok() ? static_cast<size_t>(value.value()) : otherwise;
  }
  double Float(const char* suffix, double otherwise) const {
    auto value = metadata_.GetFloat(Key(suffix));
    return value.ok() ? value.value() : otherwise;
  }
  bool Has(const std::string& name) const { return source_.Find(name) != nullptr; }
  Result<const Matrix*> Get(const std::string& name) {
    auto it = cache_.find(name);
    if (it == cache_.end()) {
      MOONLIT_ASSIGN_OR_RETURN(Matrix m, ReadMatrix(source_, name));
      it = cache_.emplace(name, std::move(m)).first;
    }
    return &it->second;
  }
  // Null where the file has none.
  Result<const float*> Values(const std::string& name) {
    if (!Has(name)) return nullptr;
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* m, Get(name));
    return m->values.data();
  }
  static std::string Block(size_t layer) { return "blk." + std::to_string(layer) + "."; }

  // y += the bias from `first` on, where the file has one.
  Status AddBias(const std::string& name, size_t first, Vector& y) {
    MOONLIT_ASSIGN_OR_RETURN(const float* bias, Values(name));
    for (size_t i = 0; bias != nullptr && i < y.size(); ++i) y[i] += double{bias[first + i]};
    return Status();
  }

  // Rows [first, first + count) of W x + b; the bias is optional.
  Result<Vector> LinearRows(const std::string& stem, size_t first, size_t count, const Vector& x,
                            bool two_terms = false) {
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* w, Get(stem + ".weight"));
    Vector y = MultiplyRows(*w, first, count, x, rounding_, two_terms);
    MOONLIT_RETURN_IF_ERROR(AddBias(stem + ".bias", first, y));
    return y;
  }
  Result<Vector> Linear(const std::string& stem, const Vector& x) {
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* w, Get(stem + ".weight"));
    return LinearRows(stem, 0, w->rows, x);
  }

  // x itself where the model has no such norm.
  Result<Vector> Norm(const std::string& stem, const Vector& x) {
    if (!Has(stem + ".weight") && !family_.bare_norms) return x;
    MOONLIT_ASSIGN_OR_RETURN(const float* weight, Values(stem + ".weight"));
    MOONLIT_ASSIGN_OR_RETURN(const float* bias, Values(stem + ".bias"));
    return family_.layer_norms ? LayerNorm(x.data(), x.size(), weight, bias, config_.eps)
                               : RmsNorm(x.data(), x.size(), weight, config_.eps);
  }

  static void Cap(double cap, Vector& x) {
    for (double& value : x) value = cap * std::tanh(value / cap);
  }

  Status ReadRotation() {
    rotation_.pairs = family_.pairs;
    rotation_.rotated = Uint("rope.dimension_count", config_.head_dim);
    rotation_.base = Float("rope.freq_base", 10000.0);
    rotation_.scale = 1.0 / Float("rope.scaling.factor", 1.0);
    rotation_.magnitude = Float("rope.scaling.attn_factor", 1.0);
    rotation_.factors = nullptr;
    const auto scaling = metadata_.GetString(Key("rope.scaling.type"));
    if (scaling.ok() && *scaling == "yarn") MakeYarn();
    const size_t trained = Uint("rope.scaling.original_context_length", SIZE_MAX);
    const bool longer = Uint("context_length", 0) > trained;
    for (const char* name : {"rope_freqs.weight", longer ? "rope_factors_long.weight" : "rope_factors_short.weight"}) {
      MOONLIT_ASSIGN_OR_RETURN(const float* factors, Values(name));
      if (factors != nullptr) rotation_.factors = factors;
    }
    return Status();
  }

  // Peng et al. 2023, arXiv:2309.00071, section 3.2: pairs that turn often keep their frequency, those that turn seldom are
  // interpolated, and what lies between goes from one to the other; the numbers of the pairs in whole, as transformers has them.
  void MakeYarn() {
    const double s = Float("rope.scaling.factor", 1), n = static_cast<double>(rotation_.rotated);
    const double context = static_cast<double>(Uint("rope.scaling.original_context_length", 0));
    const auto pair = [&](double turns) {
      return n * std::log(context / (turns * 2 * M_PI)) / (2 * std::log(rotation_.base));
    };
    const double low = std::max(0.0, std::floor(pair(Float("rope.scaling.yarn_beta_fast", 32))));
    const double high = std::min(n - 1, std::ceil(pair(Float("rope.scaling.yarn_beta_slow", 1))));
    yarn_.clear();
    for (size_t i = 0; i < rotation_.rotated / 2; ++i) {
      const double ramp = std::clamp((static_cast<double>(i) - low) / std::max(high - low, 0.001), 0.0, 1.0);
      yarn_.push_back(static_cast<float>(1 / (ramp / s + (1 - ramp))));
    }
    rotation_.factors = yarn_.data();
    rotation_.scale = 1;
    rotation_.magnitude *= 0.1 * std::log(s) + 1;
  }

  bool IsLocal(size_t layer) const {
    if (!family_.pattern.empty()) return family_.pattern[layer] != 0;
    return family_.period != 0 && (layer + 1) % family_.period != 0;
  }
  size_t HeadDim(size_t layer) const {
    return IsLocal(layer) && family_.local_head != 0 ? family_.local_head : config_.head_dim;
  }

  void RotateHeads(size_t layer, size_t position, Vector& x) const {
    Rotation rotation = rotation_;
    if (!IsLocal(layer)) rotation.pairs = family_.global_pairs;
    if (IsLocal(layer) && family_.local_base != 0) {
      rotation.base = family_.local_base;
      rotation.scale = 1;
      rotation.rotated = Uint("rope.dimension_count_swa", rotation.rotated);
      if (family_.local_head != 0) rotation.factors = nullptr;
    }
    const size_t dim = HeadDim(layer);
    for (size_t h = 0; h < x.size() / dim; ++h) Rotate(rotation, static_cast<double>(position), x.data() + h * dim);
  }

  Result<std::vector<Vector>> Embed(const std::vector<int32_t>& tokens) {
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* embedding, Get("token_embd.weight"));
    MOONLIT_ASSIGN_OR_RETURN(const float* positions, Values("position_embd.weight"));
    MOONLIT_ASSIGN_OR_RETURN(const float* first_type, Values("token_types.weight"));
    std::vector<Vector> rows;
    for (size_t t = 0; t < tokens.size(); ++t) {
      const float* row = embedding->values.data() + static_cast<size_t>(tokens[t]) * config_.d;
      Vector x(row, row + config_.d);
      for (double& value : x) value *= config_.embedding_scale;
      for (size_t i = 0; positions != nullptr && i < x.size(); ++i) x[i] += double{positions[t * config_.d + i]};
      for (size_t i = 0; first_type != nullptr && i < x.size(); ++i) x[i] += double{first_type[i]};
      MOONLIT_ASSIGN_OR_RETURN(x, Has("token_embd_norm.weight") ? Norm("token_embd_norm", x) : x);
      rows.push_back(std::move(x));
    }
    return rows;
  }

  // Of every head with one weight for all or one for each, or of all heads together.
  Status NormHeads(const std::string& stem, Vector& x) {
    MOONLIT_ASSIGN_OR_RETURN(const float* weight, Values(stem + ".weight"));
    if (weight == nullptr) return Status();
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* norm, Get(stem + ".weight"));
    const size_t n = norm->columns;
    for (size_t h = 0; h < x.size() / n; ++h) {
      const float* own = weight + (norm->rows > 1 ? h * n : 0);
      const Vector y = family_.layer_norms ? LayerNorm(x.data() + h * n, n, own, nullptr, config_.eps)
                                           : RmsNorm(x.data() + h * n, n, own, config_.eps);
      std::copy(y.begin(), y.end(), x.begin() + static_cast<ptrdiff_t>(h * n));
    }
    return Status();
  }

  // Queries, keys and values of one token, normalised, not rotated. The latter two are empty where the layer has none of its own.
  Status Project(size_t layer, const Vector& x, Vector (&qkv)[3]) {
    const std::string blk = Block(layer);
    const size_t dim = HeadDim(layer);
    const size_t counts[] = {config_.heads * dim, config_.kv_heads * dim, config_.kv_heads * dim};
    const char* names[] = {"attn_q", "attn_k", "attn_v"};
    const bool fused = Has(blk + "attn_qkv.weight");
    for (size_t i = 0, first = 0; i < 3; first += counts[i++]) {
      if (!fused && !Has(blk + names[i] + ".weight")) continue;
      // Values that go to attention as they are multiplied have two terms.
      const bool two_terms = i == 2 && config_.clamp == 0;
      MOONLIT_ASSIGN_OR_RETURN(
          qkv[i], LinearRows(blk + (fused ? "attn_qkv" : names[i]), fused ? first : 0, counts[i], x, two_terms));
      for (double& value : qkv[i]) {
        if (config_.clamp != 0) value = std::clamp(value, -config_.clamp, config_.clamp);
      }
    }
    for (size_t h = 0; family_.value_norms && h < qkv[2].size() / dim; ++h) {
      const Vector y = RmsNorm(qkv[2].data() + h * dim, dim, nullptr, config_.eps);
      std::copy(y.begin(), y.end(), qkv[2].begin() + static_cast<ptrdiff_t>(h * dim));
    }
    MOONLIT_RETURN_IF_ERROR(NormHeads(blk + "attn_q_norm", qkv[0]));
    return NormHeads(blk + "attn_k_norm", qkv[1]);
  }

  // What attention adds to each row.
  Result<std::vector<Vector>> AttentionBlock(size_t layer, const std::vector<Vector>& inputs) {
    const std::string blk = Block(layer);
    std::vector<Vector> added;
    const bool owns = Has(blk + "attn_k.weight") || Has(blk + "attn_qkv.weight");
    auto& [keys, values] = kept_[IsLocal(layer)];  // else they are those of the last layer of the kind
    if (owns) keys.clear(), values.clear();
    std::vector<Vector> queries;
    for (size_t t = 0; t < inputs.size(); ++t) {
      Vector qkv[3];
      MOONLIT_RETURN_IF_ERROR(Project(layer, inputs[t], qkv));
      RotateHeads(layer, places_ ? static_cast<size_t>(places_(t, t)) : t, qkv[0]);
      if (!places_) RotateHeads(layer, t, qkv[1]);
      queries.push_back(std::move(qkv[0]));
      if (owns) keys.push_back(std::move(qkv[1]));
      if (owns) values.push_back(std::move(qkv[2]));
    }
    for (size_t t = 0; t < inputs.size(); ++t) {
      const Vector attended = AttendVisible(layer, t, queries[t], keys, values);
      MOONLIT_ASSIGN_OR_RETURN(const Vector normed, OptionalNorm(blk + "attn_sub_norm", attended));
      MOONLIT_ASSIGN_OR_RETURN(const Vector y, Linear(blk + "attn_output", normed));
      MOONLIT_ASSIGN_OR_RETURN(added.emplace_back(), OptionalNorm(blk + family_.added_norm, y));
    }
    return added;
  }

  Result<Vector> OptionalNorm(const std::string& stem, const Vector& x) {
    return Has(stem + ".weight") ? Norm(stem, x) : x;
  }

  static void Add(const Vector& y, double factor, Vector& x) {
    for (size_t i = 0; i < y.size(); ++i) x[i] += factor * y[i];
  }

  // Over the keys that token t sees, each rotated to where it stands then.
  Vector AttendVisible(size_t layer, size_t t, const Vector& q, const std::vector<Vector>& keys,
                       const std::vector<Vector>& values) const {
    const size_t window = IsLocal(layer) || family_.period == 0 ? family_.window : 0;
    std::vector<Vector> seen_keys, seen_values;
    std::vector<int64_t> positions;
    for (size_t j = 0; j < (family_.encoder ? keys.size() : t + 1); ++j) {
      if (window != 0 && t - j >= window) continue;
      const int64_t position = places_ ? places_(t, j) : static_cast<int64_t>(j);
      if (position < 0) continue;
      seen_keys.push_back(keys[j]);
      if (places_) RotateHeads(layer, static_cast<size_t>(position), seen_keys.back());
      seen_values.push_back(values[j]);
      positions.push_back(position);
    }
    const size_t dim = HeadDim(layer);
    AttentionRule rule{.heads = config_.heads,
                       .kv_heads = config_.kv_heads,
                       .key_dim = dim,
                       .value_dim = dim,
                       .scale = config_.attention_scale,
                       .softcap = config_.softcap};
    const double slopes = family_.scaled_alibi ? config_.attention_scale : 1;
    for (size_t h = 0; family_.alibi != 0 && h < config_.heads; ++h) rule.slopes.push_back(slopes * Slope(h));
    return Attend(rule, q, positions.back(), seen_keys, seen_values, positions);
  }

  // Press et al. 2022, arXiv:2108.12409: a geometric series for a power of two of heads; what lies between the members of the next
  // series for the heads beyond.
  double Slope(size_t head) const {
    double n = 1;
    while (2 * n <= static_cast<double>(config_.heads)) n *= 2;
    const double h = static_cast<double>(head);
    return h < n ? std::exp2(-family_.alibi / n * (h + 1)) : std::exp2(-family_.alibi / (2 * n) * (2 * (h - n) + 1));
  }

  // down(f(up x)), or down(f(gate x) * up x) where there is a gate: a tensor, or the first half of up. `suffix` and `expert` select one
  // of several networks.
  Result<Vector> FeedForward(const std::string& blk, const char* suffix, size_t expert, size_t experts,
                             const Vector& x) {
    const std::string up_name = blk + "ffn_up" + suffix, gate_name = blk + "ffn_gate" + suffix;
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* up, Get(up_name + ".weight"));
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* down, Get(blk + "ffn_down" + suffix + ".weight"));
    const bool gated = Has(gate_name + ".weight"), halves = !gated && up->rows == 2 * config_.ffn;
    const size_t width = up->rows / experts / (halves ? 2 : 1), outputs = down->rows / experts;
    Vector h;
    MOONLIT_ASSIGN_OR_RETURN(h, LinearRows(gated ? gate_name : up_name, expert * width, width, x));
    for (double& value : h) value = Apply(family_.curve, value);
    if (gated || halves) {
      MOONLIT_ASSIGN_OR_RETURN(const Vector u, LinearRows(up_name, halves ? width : expert * width, width, x));
      for (size_t i = 0; i < h.size(); ++i) h[i] *= u[i];
    }
    MOONLIT_ASSIGN_OR_RETURN(h, OptionalNorm(blk + "ffn_sub_norm", h));
    const bool two_terms = down->format == Format::kQ2_K && experts == 1 && !Has(blk + "ffn_sub_norm.weight");
    return LinearRows(blk + "ffn_down" + suffix, expert * outputs, outputs, h, two_terms);
  }

  // Mixture of experts (Shazeer et al. 2017, arXiv:1701.06538), with the expert that every token uses where there is one.
  Result<Vector> Mixture(const std::string& blk, const Vector& x) {
    MOONLIT_ASSIGN_OR_RETURN(const Vector logits, Linear(blk + "ffn_gate_inp", x));
    Vector sum(config_.d);
    for (const auto& [expert, weight] : ChooseExperts(logits, config_.experts_used, family_.normalise_experts)) {
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

  // Norms of the sums, as the first transformers had them (Vaswani et al. 2017, arXiv:1706.03762).
  Status EncoderLayer(size_t layer, std::vector<Vector>& rows) {
    const std::string blk = Block(layer);
    MOONLIT_ASSIGN_OR_RETURN(const std::vector<Vector> added, AttentionBlock(layer, rows));
    for (size_t t = 0; t < rows.size(); ++t) {
      Add(added[t], 1, rows[t]);
      MOONLIT_ASSIGN_OR_RETURN(rows[t], Norm(blk + "attn_output_norm", rows[t]));
      MOONLIT_ASSIGN_OR_RETURN(const Vector y, FeedForward(blk, "", 0, 1, rows[t]));
      Add(y, 1, rows[t]);
      MOONLIT_ASSIGN_OR_RETURN(rows[t], Norm(blk + "layer_output_norm", rows[t]));
    }
    return Status();
  }

  Status Layer(size_t layer, std::vector<Vector>& rows) {
    if (family_.encoder) return EncoderLayer(layer, rows);
    const std::string blk = Block(layer);
    std::vector<Vector> inputs;
    for (const Vector& row : rows) {
      MOONLIT_ASSIGN_OR_RETURN(inputs.emplace_back(), Norm(blk + family_.attention_norm, row));
    }
    MOONLIT_ASSIGN_OR_RETURN(const std::vector<Vector> added, AttentionBlock(layer, inputs));
    for (size_t t = 0; t < rows.size(); ++t) {
      const Vector before = rows[t];
      Add(added[t], config_.residual_scale, rows[t]);
      const std::string norm = blk + family_.network_norm;
      const bool own_norm = Has(norm + ".weight") || family_.bare_norms;
      Vector x = family_.parallel && !own_norm ? inputs[t] : family_.parallel ? before : rows[t];
      if (own_norm) {
        MOONLIT_ASSIGN_OR_RETURN(x, Norm(norm, x));
      }
      MOONLIT_ASSIGN_OR_RETURN(const Vector y, config_.experts == 0 ? FeedForward(blk, "", 0, 1, x) : Mixture(blk, x));
      MOONLIT_ASSIGN_OR_RETURN(const Vector normed, OptionalNorm(blk + "post_ffw_norm", y));
      Add(normed, config_.residual_scale, rows[t]);
    }
    return Status();
  }

  // Gemma 4: of every token, for every layer, (norm(P x / sqrt(d)) + sqrt(n) e) / sqrt(2) from its embedding x and one more, e.
  Status MakeLayerInputs(const std::vector<int32_t>& tokens, const std::vector<Vector>& rows) {
    layer_inputs_.clear();
    if (!Has("per_layer_token_embd.weight")) return Status();
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* table, Get("per_layer_token_embd.weight"));
    MOONLIT_ASSIGN_OR_RETURN(const Matrix* norm, Get("per_layer_proj_norm.weight"));
    const size_t n = norm->columns;
    for (size_t t = 0; t < tokens.size(); ++t) {
      MOONLIT_ASSIGN_OR_RETURN(Vector context, Linear("per_layer_model_proj", rows[t]));
      for (double& value : context) value /= std::sqrt(static_cast<double>(config_.d));
      for (size_t first = 0; first < context.size(); first += n) {
        const Vector y = RmsNorm(context.data() + first, n, norm->values.data(), config_.eps);
        for (size_t i = 0; i < n; ++i) {
          const double e = table->values[static_cast<size_t>(tokens[t]) * table->columns + first + i];
          context[first + i] = (y[i] + std::sqrt(static_cast<double>(n)) * e) / std::sqrt(2.0);
        }
      }
      layer_inputs_.push_back(std::move(context));
    }
    return Status();
  }

  // x + norm(proj(f(gate x) * input)), times a factor; both where the file has them.
  Status AddLayerInputs(size_t layer, std::vector<Vector>& rows) {
    const std::string blk = Block(layer);
    MOONLIT_ASSIGN_OR_RETURN(const float* factor, Values(blk + "layer_output_scale.weight"));
    for (size_t t = 0; t < rows.size(); ++t) {
      if (!layer_inputs_.empty()) {
        MOONLIT_ASSIGN_OR_RETURN(Vector gate, Linear(blk + "inp_gate", rows[t]));
        for (size_t i = 0; i < gate.size(); ++i)
          gate[i] = Apply(family_.curve, gate[i]) * layer_inputs_[t][layer * gate.size() + i];
        MOONLIT_ASSIGN_OR_RETURN(Vector y, Linear(blk + "proj", gate));
        MOONLIT_ASSIGN_OR_RETURN(y, Norm(blk + "post_norm", y));
        Add(y, 1, rows[t]);
      }
      for (double& value : rows[t]) value *= factor == nullptr ? 1 : double{*factor};
    }
    return Status();
  }

  const Metadata& metadata_;
  const WeightSource& source_;
  Config config_{};
  Family family_;
  Rotation rotation_{};
  std::vector<float> yarn_;  // divisors of the frequencies
  Rounding* rounding_ = nullptr;
  Places places_;
  std::pair<std::vector<Vector>, std::vector<Vector>> kept_[2];  // keys and values of global, local layers
  std::vector<Vector> layer_inputs_;                             // [tokens][layers * n]
  std::map<std::string, Matrix> cache_;
};

}  // namespace

Result<std::vector<double>> Forward(const Metadata& metadata, const WeightSource& source,
                                    const std::vector<int32_t>& tokens, Rounding* rounding, const Places& places,
                                    std::vector<std::vector<double>>* streams) {
  Model model(metadata, source);
  MOONLIT_RETURN_IF_ERROR(model.ReadConfig());
  return model.Run(tokens, rounding, places, streams);
}

}  // namespace moonlit::reference
