// SPDX-License-Identifier: Apache-2.0
// How the hidden states of a text's tokens become one vector, its embedding.
#pragma once

#include <cstdint>

namespace moonlit {

enum class Pooling : uint8_t {
  kUnknown,  // the model's file does not say
  kMean,     // of all tokens
  kFirst,    // the first token's (BERT's [CLS])
  kLast
};

}  // namespace moonlit
