// SPDX-License-Identifier: Apache-2.0
// Who multiplies with F32 weights, and that it makes no difference to a stage.
#include "runtime/exec/float_provider.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>

#include "kernels/base/round.h"
#include "runtime/exec/xnnpack_matrix.h"
#include "runtime/tensor/buffer.h"
#include "tests/models/loaded_model.h"

namespace moonlit::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Environment {
 public:
  explicit Environment(const char* value) {
    if (const char* old = std::getenv(kName)) old_ = old;
    value != nullptr ? setenv(kName, value, 1) : unsetenv(kName);
  }
  ~Environment() { old_.empty() ? unsetenv(kName) : setenv(kName, old_.c_str(), 1); }

 private:
  static constexpr const char* kName = "MOONLIT_FLOAT_PROVIDER";
  std::string old_;
};

TEST(FloatProviderTest, NamesForceAProviderAndTheEnvironmentStandsInForNone) {
  const Environment none(nullptr);
  EXPECT_EQ(ResolveFloatProvider("").value(), FloatProviderChoice::kTable);
  EXPECT_EQ(ResolveFloatProvider("own").value(), FloatProviderChoice::kOwn);
  const Environment own("own");
  EXPECT_EQ(ResolveFloatProvider("").value(), FloatProviderChoice::kOwn);
  const Environment other("mkl");
  EXPECT_EQ(ResolveFloatProvider("own").value(), FloatProviderChoice::kOwn);
  const Status unknown = ResolveFloatProvider("").status();
  EXPECT_EQ(unknown.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("\"mkl\"; expected own or xnnpack"));
}

TEST(FloatProviderTest, XnnpackIsForcedWhereItIsOfferedAndRefusedElsewhere) {
  const Result<FloatProviderChoice> forced = ResolveFloatProvider("xnnpack");
  if (FloatProduct::Available().ok()) {
    EXPECT_EQ(forced.value(), FloatProviderChoice::kXnnpack);
  } else {
    EXPECT_EQ(forced.status().code(), Code::kUnsupported);
  }
}

TEST(FloatProviderTest, TheTableChoosesByVariantAndShape) {
  for (const FloatProviderRow& row : FloatProviderTable()) {
    EXPECT_LE(row.least_outputs, row.most_outputs);
    EXPECT_LE(row.least_inputs, row.most_inputs);
    EXPECT_GE(row.least_outputs, FloatProduct::kUnit);
    EXPECT_STRNE(row.reason, "");
    const FloatProvider expected = FloatProduct::Available().ok() ? FloatProvider::kXnnpack : FloatProvider::kOwn;
    const auto choice = FloatProviderChoice::kTable;
    EXPECT_EQ(ChooseFloatProvider(choice, row.variant, row.most_outputs, row.least_inputs), expected);
    EXPECT_EQ(ChooseFloatProvider(choice, row.variant, row.least_outputs, row.most_inputs), expected);
    EXPECT_EQ(ChooseFloatProvider(FloatProviderChoice::kOwn, row.variant, row.least_outputs, row.least_inputs),
              FloatProvider::kOwn);
  }
  // What nobody measured is ours, and so is what is too narrow for XNNPACK's own tiles.
  EXPECT_EQ(ChooseFloatProvider(FloatProviderChoice::kTable, Variant::scalar, 4096, 4096), FloatProvider::kOwn);
  EXPECT_EQ(ChooseFloatProvider(FloatProviderChoice::kXnnpack, Variant::scalar, FloatProduct::kUnit - 1, 4096),
            FloatProvider::kOwn);
}

class XnnpackTest : public testing::Test {
 protected:
  void SetUp() override {
    const Status status = FloatProduct::Available();
    if (!status.ok()) GTEST_SKIP() << status.ToString();
  }
};

std::vector<float> Random(size_t count, uint32_t seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& v : values) v = normal(generator);
  return values;
}

// A matrix of odd sizes in two slices, and everything around a product with it.
struct Fixture {
  static constexpr size_t kN = 1219, kK = 77, kStride = 80, kMostRows = 130, kOutStride = kN + 5;

  Fixture() : weights(Random(kN * kK, 1)), x(Random(kMostRows * kStride + FloatProduct::kReadablePast, 2)) {
    const FloatProductShape shape{kN, kK};
    const FloatLayout layout = FloatProduct::LayOut(shape);
    EXPECT_EQ(layout.slices, 2u);
    packed = Buffer::Allocate(layout.bytes, "packed").value();
    for (size_t s = 0; s < layout.slices; ++s) {
      EXPECT_TRUE(FloatProduct::Pack(shape, s, &weights[s * layout.slice_outputs * kK], packed.data()).ok());
    }
    const size_t floats = XnnpackMatrix::ScratchFloats(layout);
    scratch = Buffer::Allocate(floats * sizeof(float), "scratch").value();
    matrix = std::make_unique<XnnpackMatrix>(FloatProduct::Create(shape, packed.data(), kStride, 1).value(),
                                             GetActivationTable(TestVariant()), scratch.as<float>(), floats);
    args.k = kK;
    args.n = kN;
    args.tile_end = CeilDiv(kN, FloatProduct::kUnit);
    args.x = x.data();
    args.x_stride = kStride;
    args.out_stride = kOutStride;
  }

  std::vector<float> Run(size_t rows, std::vector<float> out = std::vector<float>(kMostRows * kOutStride, -7)) {
    args.rows = rows;
    args.out = out.data();
    matrix->Multiply(args, 0);
    return out;
  }

  std::vector<float> weights, x;
  Buffer packed, scratch;
  std::unique_ptr<XnnpackMatrix> matrix;
  ProductArgs args{};
};

TEST_F(XnnpackTest, RowsHaveTheSameBitsInAnyNumberAndNothingElseIsWritten) {
  Fixture f;
  const std::vector<float> all = f.Run(Fixture::kMostRows);
  const size_t mr = f.matrix->product().tile_rows();
  for (size_t rows : {size_t{1}, mr, mr + 1, size_t{63}, size_t{65}, size_t{129}}) {
    const std::vector<float> some = f.Run(rows);
    for (size_t r = 0; r < Fixture::kMostRows; ++r) {
      for (size_t n = 0; n < Fixture::kOutStride; ++n) {
        const bool written = r < rows && n < Fixture::kN;
        ASSERT_EQ(some[r * Fixture::kOutStride + n], written ? all[r * Fixture::kOutStride + n] : -7)
            << rows << " rows, row " << r << ", output " << n;
      }
    }
  }
}

TEST_F(XnnpackTest, ProductsAgreeWithDoubles) {
  Fixture f;
  const std::vector<float> made = f.Run(9);
  for (size_t r = 0; r < 9; ++r) {
    for (size_t n = 0; n < Fixture::kN; ++n) {
      double sum = 0, magnitude = 0;
      for (size_t k = 0; k < Fixture::kK; ++k) {
        const double term = static_cast<double>(f.x[r * Fixture::kStride + k]) * f.weights[n * Fixture::kK + k];
        sum += term;
        magnitude += std::fabs(term);
      }
      // Higham 3.1, as in tests/xnnpack.
      const double ku = Fixture::kK * 0x1p-24;
      ASSERT_LE(std::fabs(made[r * Fixture::kOutStride + n] - sum), ku / (1 - ku) * magnitude) << r << " " << n;
    }
  }
}

TEST_F(XnnpackTest, TheEpilogueAddsTheBiasThenTheAddendAlsoInPlace) {
  Fixture f;
  constexpr size_t kRows = 70;
  const std::vector<float> bare = f.Run(kRows);
  const std::vector<float> bias = Random(Fixture::kN, 3), addend = Random(Fixture::kMostRows * Fixture::kOutStride, 4);
  f.args.bias = bias.data();
  const std::vector<float> with_bias = f.Run(kRows);
  f.args.addend = addend.data();
  f.args.addend_stride = Fixture::kOutStride;
  const std::vector<float> with_both = f.Run(kRows);
  std::vector<float> in_place = addend;
  f.args.addend = in_place.data();
  f.args.out = in_place.data();
  f.matrix->Multiply(f.args, 0);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t n = 0; n < Fixture::kN; ++n) {
      const size_t i = r * Fixture::kOutStride + n;
      ASSERT_EQ(with_bias[i], bare[i] + bias[n]);
      ASSERT_EQ(with_both[i], (bare[i] + bias[n]) + addend[i]);
      ASSERT_EQ(in_place[i], with_both[i]);
    }
  }
}

// Both sum in ascending k with fused multiply-adds, so the table of such a variant changes no bit.
TEST_F(XnnpackTest, OnAvx512TheBitsAreThoseOfOurKernel) {
  const Variant variant = TestVariant();
  if ((VariantFeatures(variant) & kAvx512) == 0) GTEST_SKIP() << VariantName(variant) << " has no AVX-512";
  Fixture f;
  const ProductKernel& kernel = GetProductKernel(variant, Format::kF32);
  const size_t tiles = CeilDiv(Fixture::kN, kernel.n_tile), tile_bytes = kernel.tile_bytes(Fixture::kK);
  Buffer packed = Buffer::Allocate(tiles * tile_bytes, "packed").value();
  for (size_t t = 0; t < tiles; ++t) {
    const size_t first = t * kernel.n_tile;
    kernel.pack_tile(reinterpret_cast<const uint8_t*>(&f.weights[first * Fixture::kK]), Fixture::kK * sizeof(float),
                     std::min<size_t>(kernel.n_tile, Fixture::kN - first), Fixture::kK, packed.data() + t * tile_bytes);
  }
  const std::vector<float> expected = f.Run(Fixture::kMostRows);
  std::vector<float> ours(Fixture::kMostRows * Fixture::kOutStride, -7);
  f.args.weights = packed.data();
  f.args.tile_end = tiles;
  f.args.out = ours.data();
  kernel.multiply(f.args);
  EXPECT_EQ(ours, expected);
}

// What a gated product asks for: a run of tiles into scratch that begins with its first output.
TEST_F(XnnpackTest, ARunOfTilesMayGoToAPlaceOfItsOwn) {
  Fixture f;
  constexpr size_t kRows = 5, kFirstTile = 11, kTiles = 7, kStride = kTiles * FloatProduct::kUnit;
  const std::vector<float> all = f.Run(kRows);
  std::vector<float> part(kRows * kStride, -7);
  f.args.tile_begin = kFirstTile;
  f.args.tile_end = kFirstTile + kTiles;
  f.args.out_first = kFirstTile * FloatProduct::kUnit;
  f.args.out = part.data();
  f.args.out_stride = kStride;
  f.matrix->Multiply(f.args, 0);
  for (size_t r = 0; r < kRows; ++r) {
    EXPECT_EQ(
        std::memcmp(&part[r * kStride], &all[r * Fixture::kOutStride + f.args.out_first], kStride * sizeof(float)), 0);
  }
}

// The model's products of F32 weights go by XNNPACK in every kind of stage; what must be decoded stays ours, and so does --exact.
TEST_F(XnnpackTest, PlansSayWhoMultipliesAndKeepOneCopy) {
  LoadedModel own("llama", {.float_provider = "own"}), forced("llama", {.float_provider = "xnnpack"});
  EXPECT_THAT(own.plan().Describe(), Not(HasSubstr("xnnpack_f32")));
  const std::string text = forced.plan().Describe();
  EXPECT_THAT(text, HasSubstr("attn_q.weight [96, 72] xnnpack_f32_"));
  EXPECT_THAT(text, HasSubstr("ffn_gate.weight [80, 72] xnnpack_f32_"));
  EXPECT_THAT(text, HasSubstr("ffn_down.weight [72, 80] xnnpack_f32_"));
  uint64_t file_bytes = 0;
  for (const TensorInfo* tensor : forced.source().All()) file_bytes += tensor->bytes;
  EXPECT_LT(forced.plan().size().packed_weight_bytes, 2 * file_bytes);

  LoadedModel tied("qwen2", {.float_provider = "xnnpack"}),
      exact("llama", {.exact = true, .float_provider = "xnnpack"});
  EXPECT_THAT(tied.plan().Describe(), HasSubstr("xnnpack_f32_"));
  EXPECT_THAT(tied.plan().Describe(), Not(testing::ContainsRegex("head token_embd.weight [^\n]*xnnpack_f32")));
  EXPECT_THAT(exact.plan().Describe(), Not(HasSubstr("xnnpack_f32")));
}

TEST_F(XnnpackTest, LogitsDoNotDependOnChunksAndThreads) {
  std::vector<int32_t> tokens(50);
  for (size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<int32_t>(i * 37 % 320);
  for (const char* name : {"llama", "qwen2"}) {
    LoadedModel one(name, {.threads = 1, .float_provider = "xnnpack"});
    LoadedModel three(name, {.threads = 3, .float_provider = "xnnpack"});
    const std::vector<float> expected = one.Logits(tokens, 1);
    for (size_t chunk : {size_t{7}, size_t{8}, size_t{50}}) {
      ASSERT_EQ(three.Logits(tokens, chunk), expected) << name << ", chunks of " << chunk;
    }
  }
}

}  // namespace
}  // namespace moonlit::test
