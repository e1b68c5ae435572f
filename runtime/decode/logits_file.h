// SPDX-License-Identifier: Apache-2.0
// What a model thinks of every counted position of a text, in a file, so that another model (or the same one, quantized) can be
// held against it. The format is that of llama.cpp's `llama-perplexity --kl-divergence-base` (tools/perplexity/perplexity.cpp), so
// either tool reads the other's files; little-endian:
//
//   "_logits_", u32 tokens of a window, i32 vocabulary, i32 windows, i32 tokens [windows, window],
//   then for each window and position window / 2 .. window - 2:
//     f32 scale, f32 least, u16 [vocabulary, rounded up to an even number]     log p(i) ~ scale * u16 + least
//
// Log-probabilities further than 16 below the largest all count as that: a scale step is at most 16 / 65535.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace moonlit {

// Positions of a window that are counted: window / 2 .. window - 2.
inline size_t CountedPositions(size_t window) { return window - 1 - window / 2; }

// One thread at a time.
class LogitsWriter {
 public:
  // tokens: [windows, window]. Nothing stands under `path` before Finish.
  static Result<LogitsWriter> Create(const std::string& path, std::span<const int32_t> tokens, size_t window,
                                     size_t vocab);
  // The next position's logits: [vocab].
  Status Append(std::span<const float> logits);
  // kInvalidArgument when positions are missing.
  Status Finish();

 private:
  LogitsWriter() = default;
  AtomicFile file_;
  std::vector<uint16_t> row_;
  size_t rows_left_ = 0;
};

// One thread at a time.
class LogitsReader {
 public:
  // kCorrupt: another format, or cut short; kInvalidArgument: made from another text, window or vocabulary.
  static Result<LogitsReader> Open(const std::string& path, std::span<const int32_t> tokens, size_t window,
                                   size_t vocab);
  // Log-probabilities of the next position: [vocab]. Valid until the next call.
  Result<std::span<const float>> Next();

 private:
  LogitsReader() = default;
  File file_;
  uint64_t position_ = 0;
  std::vector<uint16_t> row_;
  std::vector<float> values_;
};

}  // namespace moonlit
