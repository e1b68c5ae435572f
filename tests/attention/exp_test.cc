// SPDX-License-Identifier: Apache-2.0
// Error of the vector exponentials in ulp against the C library in double, over floats of every exponent.
#include <gtest/gtest.h>
#include <math.h>

#include <vector>

#include "kernels/base/float16.h"
#include "tests/attention/exp_probe.h"

namespace moonlit {
namespace {

struct Named {
  Variant variant;
  const ExpProbeTable* table;
};

std::vector<Named> Tables() {
  std::vector<Named> tables;
#define MOONLIT_BUILT_VARIANT(name, bytes, halves, floats) \
  if (CanRun(Variant::name, CpuFeatures())) tables.push_back({Variant::name, &floats::kExpProbeTable});
#include "moonlit/variants_built.inc"
#undef MOONLIT_BUILT_VARIANT
  return tables;
}

double UlpOf(double value) {
  int exponent = 0;
  frexp(value, &exponent);
  return ldexp(1.0, exponent - 24);
}

// Every 997th float inside [low, high].
double WorstUlp(void (*function)(const float*, float*, size_t), double (*truth)(double), float low, float high) {
  double worst = 0;
  std::vector<float> x, out;
  for (uint64_t bits = 0; bits < 0xFF800000u; bits += 997) {
    const float value = F32FromBits(static_cast<uint32_t>(bits));
    if (!(value >= low && value <= high)) continue;
    x.push_back(value);
    if (x.size() < 4096) continue;
    out.resize(x.size());
    function(x.data(), out.data(), x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const double expected = truth(x[i]);
      if (fabs(expected) < 0x1p-126 || fabs(expected) > 0x1.fffffep127) continue;
      const double ulps = fabs(out[i] - expected) / UlpOf(expected);
      if (!(ulps <= worst)) worst = ulps;
    }
    x.clear();
  }
  return worst;
}

TEST(Exp, BelowTwoUlp) {
  for (const Named& named : Tables()) {
    EXPECT_LT(WorstUlp(
                  named.table->exp2, [](double x) { return exp2(x); }, -130, 130),
              2.0)
        << VariantName(named.variant);
    EXPECT_LT(WorstUlp(
                  named.table->exp2_up_to_127, [](double x) { return exp2(x); }, -130, 127),  // attention has up to 8
              2.0)
        << VariantName(named.variant);
    EXPECT_LT(WorstUlp(
                  named.table->exp, [](double x) { return exp(x); }, -90, 90),
              2.0)
        << VariantName(named.variant);
    EXPECT_LT(WorstUlp(
                  named.table->tanh, [](double x) { return tanh(x); }, -12, 12),
              2.0)
        << VariantName(named.variant);
  }
}

TEST(Exp, AtTheEdges) {
  const float inf = INFINITY;
  const float nan = nanf("");
  const float x[16] = {0, -0.0f, inf, -inf, nan, 128, -126, -127, 1000, -1000, 3e38f, -3e38f, 1, -1, 88.8f, -87.4f};
  for (const Named& named : Tables()) {
    SCOPED_TRACE(VariantName(named.variant));
    float out[16];
    named.table->exp2(x, out, 16);
    const float powers[16] = {1, 1, inf, 0, nan, inf, 0x1p-126f, 0, inf, 0, inf, 0, 2, 0.5f};
    for (size_t i = 0; i < 14; ++i)
      EXPECT_TRUE(isnan(powers[i]) ? isnan(out[i]) : powers[i] == out[i]) << x[i] << ": " << out[i];
    named.table->exp2_up_to_127(x, out, 16);
    for (size_t i : {0, 1, 3, 4, 6, 7, 9, 11, 13}) {
      EXPECT_TRUE(isnan(powers[i]) ? isnan(out[i]) : powers[i] == out[i]) << x[i] << ": " << out[i];
    }
    named.table->exp(x, out, 16);
    EXPECT_EQ(1.0f, out[0]);
    EXPECT_EQ(inf, out[2]);
    EXPECT_EQ(0.0f, out[3]);
    EXPECT_TRUE(isnan(out[4]));
    EXPECT_EQ(inf, out[14]);
    EXPECT_EQ(0.0f, out[15]);
    named.table->tanh(x, out, 16);
    EXPECT_EQ(0.0f, out[0]);
    EXPECT_EQ(1.0f, out[2]);
    EXPECT_EQ(-1.0f, out[3]);
    EXPECT_TRUE(isnan(out[4]));
    EXPECT_EQ(-1.0f, out[11]);
  }
}

}  // namespace
}  // namespace moonlit
