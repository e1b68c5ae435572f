// SPDX-License-Identifier: Apache-2.0
// One plain scalar forward pass of every family that models/ has: the judge of the fast path. Written to be
// read beside the papers, in double precision, one token at a time, with no knowledge of graphs, packing or kernels. It shares
// with the runtime only the file readers, the scalar block decoders and the scalar definition of A8.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/weights/metadata.h"
#include "runtime/weights/weight_source.h"
#include "tests/reference/seen_groups.h"

namespace moonlit::reference {

// How the judge rounds what goes into products, so that it does what the fast path does.
//
// Before a product with quantized weights activations are rounded to A8 (kernels/matmul/a8.h), by two terms for
// attention's values, the logits and where down products have Q2_K weights. What is rounded is what the fast path had there (seen_groups.h), which must be what the judge has up to
// float rounding.
//
// Where the variant has bf16 dot products for F16 and BF16 weights, both factors are rounded to bf16 before such a product. The two
// passes sum in different orders, so a value that lies next to the border between two may be rounded up by one and down by the
// other, and from there on both are right and different. Such a value is a tie: it is counted, in the order in which the pass meets
// it, and goes the other way if its number is in `flipped`.
struct Rounding {
  SeenGroups* seen;
  double seen_margin;  // of a value, in units of its row's greatest
  size_t unseen = 0;   // out: groups that the fast path did not have; they are rounded as the judge has them

  bool halves_as_bf16 = false;
  double tie_margin = 0;  // distance from the border, in steps of bf16
  std::set<size_t> flipped = {};
  size_t ties = 0;  // out: ties met
};

// Where token `key` stands when token `query` (the same one or a later one) looks at it, or -1 when it does not: for texts of
// which parts were dropped. Empty: every token at its own number.
using Places = std::function<int64_t(size_t query, size_t key)>;

// Logits of every position: [tokens, vocab], row-major; of an encoder (bert) the hidden states, [tokens, width].
// Without `rounding` activations stay in double: what --exact approximates.
// streams: may be null; receives what every layer leaves in the residual stream, [layers] [tokens, d].
Result<std::vector<double>> Forward(const Metadata& metadata, const WeightSource& source,
                                    const std::vector<int32_t>& tokens, Rounding* rounding, const Places& places = {},
                                    std::vector<std::vector<double>>* streams = nullptr);

}  // namespace moonlit::reference
