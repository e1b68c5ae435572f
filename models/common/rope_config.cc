// SPDX-License-Identifier: Apache-2.0
#include "models/common/rope_config.h"

namespace moonlit {
namespace {

void RefuseOtherYarn(ConfigReader& reader) {
  // How much of the ramp is used (negative: all of it, as without the key), and DeepSeek's part of the temperature.
  const double extent = reader.Number("rope.scaling.yarn_ext_factor", -1e6, 1e6, 1.0);
  const double logarithm = reader.Number("rope.scaling.yarn_log_multiplier", -1e6, 1e6, 0.0);
  if ((extent < 0 || extent == 1) && logarithm == 0) return;
  const char* key = logarithm == 0 ? "yarn_ext_factor" : "yarn_log_multiplier";
  reader.Fail(Errorf(Code::kUnsupported, "%srope.scaling.%s is %g, which this build can't compute",
                     reader.prefix().c_str(), key, logarithm == 0 ? extent : logarithm));
}

}  // namespace

RopeSpec ReadRopeSpec(ConfigReader& reader, size_t key_dim, size_t n_ctx_train) {
  RopeSpec spec;
  spec.dims = reader.Count("rope.dimension_count", 2, key_dim, key_dim);
  if (spec.dims % 2 != 0) {
    reader.Fail(Errorf(Code::kCorrupt, "%srope.dimension_count is %zu: expected an even number",
                       reader.prefix().c_str(), spec.dims));
  }
  spec.base = reader.Number("rope.freq_base", 1.001, 1e15, 10000.0);
  spec.original_context =
      static_cast<double>(reader.Count("rope.scaling.original_context_length", 1, INT32_MAX, n_ctx_train));
  spec.magnitude = reader.Number("rope.scaling.attn_factor", 1e-3, 1e3, 1.0) *
                   reader.Number("rope.scaling.yarn_attn_factor", 1e-3, 1e3, 1.0);
  // Without a type, a factor means linear scaling; rope.scale_linear is that factor's old name.
  const std::string type = reader.Text("rope.scaling.type", "linear");
  const char* factor_key = reader.Has("rope.scaling.factor") ? "rope.scaling.factor" : "rope.scale_linear";
  double factor = reader.Number(factor_key, 0.0, 1e6, 1.0);
  if (factor == 0.0) factor = 1.0;  // files write 0 for "none"
  if (type == "none" || factor == 1.0) return spec;
  spec.factor = factor;
  if (type == "linear") {
    spec.method = RopeMethod::kLinear;
    return spec;
  }
  if (type != "yarn") {
    reader.Fail(Errorf(Code::kUnsupported, "%srope.scaling.type is \"%s\": this build knows none, linear and yarn",
                       reader.prefix().c_str(), type.c_str()));
    return spec;
  }
  // Peng et al. 2023, arXiv:2309.00071. The temperature 0.1 ln(factor) + 1 is kernels/rope's part.
  spec.method = RopeMethod::kYarn;
  spec.beta_fast = reader.Number("rope.scaling.yarn_beta_fast", 1e-3, 1e6, 32.0);
  spec.beta_slow = reader.Number("rope.scaling.yarn_beta_slow", 1e-3, 1e6, 1.0);
  RefuseOtherYarn(reader);
  return spec;
}

RopeSpec UnscaledRope(const RopeSpec& rope) {
  RopeSpec plain;
  plain.pairs = rope.pairs;
  plain.dims = rope.dims;
  plain.base = rope.base;
  return plain;
}

void BindLongRope(WeightBinder& bind, ModelConfig& config) {
  const size_t pairs = config.rope.dims / 2;
  const WeightId longer = bind.OptionalVector("rope_factors_long.weight", pairs);
  const WeightId shorter = bind.OptionalVector("rope_factors_short.weight", pairs);
  const bool stretched = static_cast<double>(config.n_ctx_train) > config.rope.original_context;
  config.rope.divisors = stretched ? longer : shorter;
}

}  // namespace moonlit
