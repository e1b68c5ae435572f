// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al. 2021, arXiv:2104.09864), driven by tables. For pair i of a head, at angle a_i:
//
//   x' = x cos a_i - y sin a_i,    y' = x sin a_i + y cos a_i
//
// The first `rotated` elements of a head take part; the pair is (2i, 2i + 1) for kPairs ("norm" in llama.cpp: llama,
// mistral) or (i, i + rotated / 2) for kHalves ("neox": qwen, gemma, phi). Elements from `rotated` on pass unchanged,
// bit for bit. The exponent of the frequencies and the offset of the pair come from `rotated`, never from the head's
// size.
//
//   ComputeRopeFrequencies({.base = 5e5, .rotated = 64}, frequencies, &magnitude);   // once a model
//   FillRopeRow(frequencies, 32, magnitude, position, cosines, sines);               // once a token
//   GetRopeTable(variant).rotate_heads({...});                                       // every head of that token
//
// Pure: no allocation, no threads.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/cpu/variant.h"

namespace moonlit {

enum class RopeKind : uint8_t { kPairs, kHalves };

struct RopeArgs {
  RopeKind kind;
  const float* x;  // [heads, head_dim], heads x_stride floats apart; no alignment needed
  size_t x_stride;
  size_t heads;
  size_t head_dim;
  size_t rotated;        // even, at most head_dim
  const float* cosines;  // [rotated / 2]
  const float* sines;    // [rotated / 2]
  float* out;            // [heads, head_dim], out_stride apart; equal to x (with equal strides) or apart from it
  size_t out_stride;
};

struct RopeTable {
  void (*rotate_heads)(const RopeArgs& args);
};

// REQUIRES: IsBuilt(variant).
const RopeTable& GetRopeTable(Variant variant);

// How a model turns positions into angles. Plain rotary needs only base and rotated.
struct RopeScaling {
  double base = 10000;  // above 1
  size_t rotated = 0;   // even
  // [rotated / 2] divide the frequencies (Llama 3's rope_freqs tensor, LongRoPE); null: 1
  const float* factors = nullptr;
  double linear_scale = 1;  // multiplies positions: 1 / rope.scaling.factor (Chen et al. 2023, arXiv:2306.15595)

  // YaRN (Peng et al. 2023, arXiv:2309.00071), used when extension_factor is above 0 (llama.cpp's ext_factor, 1 for
  // YaRN models). A pair that turns more than beta_fast times within the original context keeps its frequency, one that
  // turns fewer than beta_slow times is interpolated by linear_scale; between, the two are mixed. The paper's ramp is
  // linear in the number of turns (section 3.2); the released models were made by its reference code, whose ramp is
  // linear in the pair's index between the (rounded) indices where beta_fast and beta_slow are met, and so is this one.
  double extension_factor = 0;
  double beta_fast = 32;
  double beta_slow = 1;
  double original_context = 0;  // tokens that the model was first trained for; YaRN needs it above 0
  // Multiplies cosines and sines; under YaRN times 0.1 ln(1 / linear_scale) + 1, the paper's temperature (section 3.4).
  double attention_factor = 1;
};

// Angles per position: frequencies [rotated / 2] and the magnitude of cosines and sines.
void ComputeRopeFrequencies(const RopeScaling& scaling, double* frequencies, double* magnitude);

// Cosines and sines [pairs] of one position, computed in double precision and rounded once.
void FillRopeRow(const double* frequencies, size_t pairs, double magnitude, int64_t position, float* cosines,
                 float* sines);

}  // namespace moonlit
