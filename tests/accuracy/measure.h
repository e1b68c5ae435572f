// SPDX-License-Identifier: Apache-2.0
// What the accuracy tests share: a model's matrices in another format, and the perplexity of a text by two ways of reading it.
#pragma once

#include <string>
#include <vector>

#include "kernels/quant/format.h"

namespace moonlit {

// Writes the GGUF file `source` to `target` with every matrix in `format`, encoded from the values that `source` decodes to;
// vectors become F32. Matrices whose rows are no multiple of the format's block get the format that llama-quantize falls back to.
// Fails the running test on an error.
void WriteModelAs(const std::string& source, Format format, const std::string& target);

struct Windows {
  std::string text;     // cut into windows after tokenization; must fill them
  size_t tokens;        // of a window
  size_t count;         // of windows
  size_t first_judged;  // position in a window from which predictions count
};

// How a model is run.
struct Path {
  bool exact = false;         // by float arithmetic on dequantized weights, else by integer products
  std::string cache = "f32";  // type of keys and values
};

// Of the judged positions of all windows.
struct Comparison {
  std::vector<double> fast, exact;  // -log p(next token)
  // Kullback-Leibler divergence of the fast distribution from the exact one: how much more surprise the fast path would have on
  // average if the exact distribution chose the next token. The text's own choice scatters around it.
  std::vector<double> divergence;
};
// `fast` is held against `exact`, of the same model. Fails the running test on an error.
Comparison Compare(const std::string& model, const Windows& windows, const Path& fast, const Path& exact);

struct Mean {
  double value;
  double deviation;  // standard deviation of one value
  double error;      // standard error of the mean, taking the values for independent
};
Mean MeanOf(const std::vector<double>& values);

}  // namespace moonlit
