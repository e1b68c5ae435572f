// SPDX-License-Identifier: Apache-2.0
// Which variant a machine gets: asked for every machine of the design's table, on whatever machine this runs.
#include "kernels/cpu/variant.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

#include "tests/cpu/machines.h"

namespace moonlit {
namespace {

// The rows that a full build for the architecture has.
std::vector<Variant> RowsOf(const std::string& architecture) {
  size_t count;
  const Variant* all = AllVariants(&count);
  std::vector<Variant> rows;
  for (size_t i = 0; i < count; ++i) {
    const std::string of = VariantArchitecture(all[i]);
    if (of == architecture || of == "ANY") rows.push_back(all[i]);
  }
  return rows;
}

TEST(Variant, EveryMachineGetsItsOwn) {
  for (const Machine& machine : Machines()) {
    const std::vector<Variant> rows = RowsOf(machine.architecture);
    EXPECT_STREQ(machine.variant, VariantName(BestVariant(FeaturesOf(machine), rows.data(), rows.size())))
        << machine.name;
  }
}

TEST(Variant, EveryVariantHasAMachine) {
  std::set<std::string> chosen, existing;
  for (const Machine& machine : Machines()) chosen.insert(machine.variant);
  size_t count;
  const Variant* all = AllVariants(&count);
  for (size_t i = 0; i < count; ++i) existing.insert(VariantName(all[i]));
  EXPECT_EQ(existing, chosen);
}

// A build with fewer variants falls back to the next one that runs, and never picks one that does not.
TEST(Variant, SmallerBuildsFallBack) {
  const Variant some[] = {Variant::x86_avx512_bf16, Variant::x86_avx2, Variant::scalar};
  const struct {
    FeatureMask features;
    Variant expected;
  } rows[] = {
      {kSse41 | kAvx2 | kAvx512 | kAvx512Vnni | kAvx512Bf16, Variant::x86_avx512_bf16},
      {kSse41 | kAvx2 | kAvx512 | kAvx512Vnni, Variant::x86_avx2},
      {kSse41 | kAvx2 | kAvxVnni, Variant::x86_avx2},
      {kSse41, Variant::scalar},
      {kNone, Variant::scalar},
  };
  for (const auto& row : rows) EXPECT_EQ(row.expected, BestVariant(row.features, some, 3)) << row.features;
  const Variant only[] = {Variant::x86_avx2};
  EXPECT_EQ(Variant::x86_avx2, BestVariant(kNone, only, 1)) << "the caller asks CanRun";
  EXPECT_FALSE(CanRun(Variant::x86_avx2, kNone));
}

TEST(Variant, NamesRoundTrip) {
  size_t count;
  const Variant* all = AllVariants(&count);
  for (size_t i = 0; i < count; ++i) {
    Variant found;
    ASSERT_TRUE(FindVariant(VariantName(all[i]), &found));
    EXPECT_EQ(all[i], found);
  }
  Variant untouched = Variant::scalar;
  for (const char* name : {"", "avx2", "x86_avx2 ", "X86_AVX2", "x86_sse4"})
    EXPECT_FALSE(FindVariant(name, &untouched)) << name;
  EXPECT_EQ(Variant::scalar, untouched);
}

TEST(Variant, BuiltOnesKeepTheTablesOrder) {
  size_t count;
  const Variant* built = BuiltVariants(&count);
  ASSERT_GT(count, 0u);
  for (size_t i = 0; i < count; ++i) {
    EXPECT_TRUE(IsBuilt(built[i]));
    if (i > 0) {
      EXPECT_LT(static_cast<int>(built[i - 1]), static_cast<int>(built[i]));
    }
  }
  size_t all_count, seen = 0;
  const Variant* all = AllVariants(&all_count);
  for (size_t i = 0; i < all_count; ++i) seen += IsBuilt(all[i]);
  EXPECT_EQ(count, seen);
}

TEST(Variant, SelectedOneIsBuiltAndTheFirstThatRuns) {
  size_t count;
  const Variant* built = BuiltVariants(&count);
  const Variant selected = SelectVariant(CpuFeatures());
  EXPECT_TRUE(IsBuilt(selected));
  for (size_t i = 0; i < count && built[i] != selected; ++i)
    EXPECT_FALSE(CanRun(built[i], CpuFeatures())) << VariantName(built[i]);
}

// Emulated runs name the variant that their processor must get.
TEST(Variant, SelectedOneIsTheExpectedOne) {
  const char* expected = std::getenv("MOONLIT_EXPECTED_VARIANT");
  if (expected == nullptr) GTEST_SKIP() << "MOONLIT_EXPECTED_VARIANT is not set";
  EXPECT_STREQ(expected, VariantName(SelectVariant(CpuFeatures())));
}

}  // namespace
}  // namespace moonlit
