// SPDX-License-Identifier: Apache-2.0
// The one difference inside a generation of Gemma that no key of GGUF tells: the largest model of each scales its scores by
// width / heads instead of the size of a head, and is known by its layers (llama.cpp, src/llama-model.cpp).
#pragma once

#include <cstddef>

namespace moonlit {

inline constexpr size_t kLayersOfLargestGemma2 = 46, kLayersOfLargestGemma3 = 62;  // both 27B

}  // namespace moonlit
