// SPDX-License-Identifier: Apache-2.0
// The numeric contract: which cuts change no bit, and that nothing else does.
#include "tests/linear_attention/fixture.h"

namespace moonlit {
namespace {

void ExpectEqual(Variant variant, const Problem& p, const RunOptions& a, const RunOptions& b, const char* what) {
  const Outcome first = RunHead(variant, p, a), second = RunHead(variant, p, b);
  EXPECT_TRUE(SameBits(first.out, second.out)) << Describe(variant, p) << ": " << what;
  EXPECT_TRUE(SameBits(first.state, second.state)) << Describe(variant, p) << ": " << what;
}

TEST(RecurrentBits, CutsAtMultiplesOfAChunkChangeNothing) {
  for (Variant variant : RunnableVariants()) {
    for (Kind kind : kKinds) {
      const Problem p = RandomProblem(kind, 300, 40, 36, 1);
      ExpectEqual(variant, p, {}, {.cuts = {64, 64, 64, 64}}, "one chunk a call");
      ExpectEqual(variant, p, {}, {.cuts = {128, 64, 64}}, "two chunks, then one");
      ExpectEqual(variant, p, {}, {.cuts = {256}}, "the tail alone");
      const std::vector<size_t> single(44, 1);
      std::vector<size_t> cuts = {192, 64};
      cuts.insert(cuts.end(), single.begin(), single.end());
      ExpectEqual(variant, p, {}, {.cuts = cuts}, "the tail token by token");
    }
  }
}

TEST(RecurrentBits, ChunksAreAlignedToThePositionNotToTheCall) {
  for (Variant variant : RunnableVariants()) {
    for (Kind kind : kKinds) {
      const Problem p = RandomProblem(kind, 200, 24, 20, 2);
      ExpectEqual(variant, p, {.position = 1000}, {.cuts = {24, 64, 64}, .position = 1000}, "cuts at 1024, 1088, 1152");
      ExpectEqual(variant, p, {.position = 64}, {}, "a multiple of 64");
      const Outcome aligned = RunHead(variant, p), shifted = RunHead(variant, p, {.position = 1});
      EXPECT_FALSE(SameBits(aligned.out, shifted.out)) << Describe(variant, p);
      EXPECT_LE(Difference(p, shifted, aligned), kBetweenForms) << Describe(variant, p);
    }
  }
}

TEST(RecurrentBits, OtherCutsStayWithinTheBound) {
  for (Variant variant : RunnableVariants()) {
    for (Kind kind : kKinds) {
      const Problem p = RandomProblem(kind, 320, 32, 32, 3);
      const Outcome whole = RunHead(variant, p);
      for (size_t call : {1u, 15u, 16u, 17u, 63u, 65u, 100u}) {
        const Outcome cut = RunHead(variant, p, {.cuts = std::vector<size_t>(p.tokens / call, call)});
        EXPECT_LE(Difference(p, cut, whole), kBetweenForms) << Describe(variant, p) << ", calls of " << call;
      }
    }
  }
}

TEST(RecurrentBits, CallsOfFewerTokensThanAChunkAreSteps) {
  for (Variant variant : RunnableVariants()) {
    for (Kind kind : kKinds) {
      const Problem p = RandomProblem(kind, 63, 32, 32, 4);
      ExpectEqual(variant, p, {}, {.cuts = {16, 1, 30}}, "cuts");
      ExpectEqual(variant, p, {}, {.steps_only = true}, "steps");
    }
  }
}

TEST(RecurrentBits, ScratchMayHoldAnything) {
  for (Variant variant : RunnableVariants()) {
    for (Kind kind : kKinds) {
      const Problem p = RandomProblem(kind, 150, 19, 21, 5);
      ExpectEqual(variant, p, {}, {.scratch_byte = 0}, "zeros instead of NaNs");
      ExpectEqual(variant, p, {}, {.scratch_byte = 0x7F}, "the largest numbers");
    }
  }
}

// Columns of values do not meet: a part of them alone has the same bits.
TEST(RecurrentBits, ColumnsOfValuesAreIndependent) {
  for (Variant variant : RunnableVariants()) {
    for (Kind kind : kKinds) {
      const Problem whole = RandomProblem(kind, 150, 24, 70, 6);
      Problem part = whole;
      part.value_dim = 9;
      part.v.clear();
      for (size_t t = 0; t < whole.tokens; ++t) {
        part.v.insert(part.v.end(), whole.v.begin() + static_cast<std::ptrdiff_t>(t * 70),
                      whole.v.begin() + static_cast<std::ptrdiff_t>(t * 70 + 9));
      }
      const Outcome of_whole = RunHead(variant, whole), of_part = RunHead(variant, part);
      for (size_t t = 0; t < whole.tokens; ++t) {
        for (size_t j = 0; j < 9; ++j)
          ASSERT_EQ(of_part.out[t * 9 + j], of_whole.out[t * 70 + j]) << VariantName(variant);
      }
    }
  }
}

// Whatever a token brings, the tokens before it do not know.
TEST(RecurrentBits, ANaNSpoilsNothingBeforeIt) {
  for (Variant variant : RunnableVariants()) {
    for (Kind kind : kKinds) {
      const Problem clean = RandomProblem(kind, 140, 20, 20, 7);
      for (size_t bad : {0u, 1u, 13u, 63u, 64u, 100u, 127u, 139u}) {
        for (size_t what = 0; what < (kind == Kind::kDelta ? 5u : 3u); ++what) {
          Problem p = clean;
          std::vector<float>* inputs[] = {&p.q, &p.k, &p.v, &p.decay, &p.beta};
          const size_t width = what < 3 ? 20 : 1;
          (*inputs[what])[bad * width] = kNan;
          const Outcome expected = RunHead(variant, clean), found = RunHead(variant, p);
          for (size_t i = 0; i < bad * 20; ++i) {
            ASSERT_EQ(found.out[i], expected.out[i]) << Describe(variant, p) << " NaN at " << bad << " in " << what;
          }
          EXPECT_TRUE(found.out[bad * 20] != found.out[bad * 20]) << Describe(variant, p) << " in " << what;
        }
      }
    }
  }
}

// Rows that lie apart, as heads do in the engine's values: the same bits, and what lies between is left alone.
TEST(RecurrentBits, StridesChangeNothing) {
  constexpr size_t kTokens = 90, kDim = 20, kStride = 37;
  for (Variant variant : RunnableVariants()) {
    const Problem p = RandomProblem(Kind::kDelta, kTokens, kDim, kDim, 8);
    const auto spread = [](const std::vector<float>& dense, size_t width) {
      std::vector<float> rows(kTokens * kStride, 99.0f);
      for (size_t i = 0; i < dense.size(); ++i) rows[i / width * kStride + i % width] = dense[i];
      return rows;
    };
    const std::vector<float> q = spread(p.q, kDim), k = spread(p.k, kDim), v = spread(p.v, kDim);
    const std::vector<float> decay = spread(p.decay, 1), beta = spread(p.beta, 1);
    std::vector<float> out(kTokens * kStride, 99.0f), state(DeltaStateFloats(kDim, kDim));
    std::vector<float> scratch(RecurrentScratchBytes(kDim, kDim) / sizeof(float) + 16);
    RecurrentArgs args = {};
    args.tokens = kTokens, args.key_dim = args.value_dim = kDim;
    args.q = q.data(), args.k = k.data(), args.v = v.data(), args.out = out.data();
    args.q_stride = args.k_stride = args.v_stride = args.out_stride = args.gate_stride = kStride;
    args.decay = decay.data(), args.beta = beta.data();
    args.state = state.data(), args.scratch = scratch.data();
    args.eps = p.eps, args.normalise = p.normalise, args.scale = p.scale;
    GetLinearAttentionTable(variant).gated_delta(args);
    EXPECT_EQ(out, spread(RunHead(variant, p).out, kDim)) << VariantName(variant);
  }
}

}  // namespace
}  // namespace moonlit
