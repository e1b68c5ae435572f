// SPDX-License-Identifier: Apache-2.0
// What sets families apart beyond what their files show, as the papers and the models' own code have it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "runtime/weights/metadata.h"
#include "runtime/weights/weight_source.h"
#include "tests/reference/math.h"

namespace moonlit::reference {

struct Family {
  bool encoder = false;      // every token sees all; what comes out are hidden states
  bool layer_norms = false;  // else RMS
  bool bare_norms = false;   // that have no weights
  Rotation::Pairs pairs = Rotation::kHalves;
  Curve curve = Curve::kSilu;
  bool parallel = false;           // the network reads what attention reads
  bool normalise_experts = true;   // the chosen experts' weights are divided by their sum
  bool multiplies_logits = false;  // logit_scale is a factor, else a divisor
  const char* network_norm = "ffn_norm";
  const char* attention_norm = "attn_norm";
  const char* added_norm = "post_attention_norm";  // of what attention adds
  // Every layer but the last of each `period` is local: it sees `window` keys (0: all), and rotates by `local`.
  size_t period = 0;
  std::vector<int64_t> pattern = {};  // [layers] where the file says which are local
  size_t window = 0;
  Rotation::Pairs global_pairs = Rotation::kHalves;  // of the other layers
  size_t local_head = 0;                             // size of a head in local layers; 0: the same
  double local_base = 0;                             // of RoPE in local layers; 0: the same as in the others
  bool scaled_embedding = false;                     // by the root of its width
  bool unscaled_scores = false;
  bool value_norms = false;   // of heads, without weights
  double alibi = 0;           // greatest bias; 0: none
  bool scaled_alibi = false;  // the bias joins q . k before the scale does
};

Family FamilyOf(const std::string& architecture, const Metadata& metadata, const WeightSource& source);

}  // namespace moonlit::reference
