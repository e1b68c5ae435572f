// SPDX-License-Identifier: Apache-2.0
// One plain scalar forward pass of the Llama family (llama, mistral, qwen2, qwen3): the judge of the fast path. Written to be
// read beside the papers, in double precision, one token at a time, with no knowledge of graphs, packing or kernels. It shares
// with the runtime only the file readers and the scalar block decoders.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/weights/metadata.h"
#include "runtime/weights/weight_source.h"

namespace moonlit::reference {

enum class ActivationMode {
  kFloat,      // activations stay in double: what --exact approximates
  kQuantized,  // before a product with quantized weights: rounded to A8 (kernels/matmul/a8.h) as the fast path does
};

// Logits of every position: [tokens, vocab], row-major.
Result<std::vector<double>> Forward(const Metadata& metadata, const WeightSource& source,
                                    const std::vector<int32_t>& tokens, ActivationMode mode);

}  // namespace moonlit::reference
