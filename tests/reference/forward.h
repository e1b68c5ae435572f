// SPDX-License-Identifier: Apache-2.0
// One plain scalar forward pass of every family that models/ has: the judge of the fast path. Written to be
// read beside the papers, in double precision, one token at a time, with no knowledge of graphs, packing or kernels. It shares
// with the runtime only the file readers and the scalar block decoders.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/weights/metadata.h"
#include "runtime/weights/weight_source.h"

namespace moonlit::reference {

// Before a product with quantized weights activations are rounded to A8 (kernels/matmul/a8.h), as the fast path does. The two
// passes sum in different orders, so a value that lies next to the border between two int8 values may be rounded up by one
// and down by the other, and from there on both are right and different. Such a value is a tie: it is counted, in the order
// in which the pass meets it, and goes the other way if its number is in `flipped`.
//
// Where the variant has bf16 dot products for F16 and BF16 weights, both factors are rounded to bf16 before such a product; a
// value's ties are met in the same way.
struct Rounding {
  double tie_margin;  // distance from the border, in steps of int8
  std::set<size_t> flipped;
  bool halves_as_bf16 = false;
  size_t ties = 0;  // out: ties met
};

// Where token `key` stands when token `query` (the same one or a later one) looks at it, or -1 when it does not: for texts of
// which parts were dropped. Empty: every token at its own number.
using Places = std::function<int64_t(size_t query, size_t key)>;

// Logits of every position: [tokens, vocab], row-major. Without `rounding` activations stay in double: what --exact approximates.
Result<std::vector<double>> Forward(const Metadata& metadata, const WeightSource& source,
                                    const std::vector<int32_t>& tokens, Rounding* rounding, const Places& places = {});

}  // namespace moonlit::reference
