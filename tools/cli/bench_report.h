// SPDX-License-Identifier: Apache-2.0
// Rows of `moonlit bench` and how they are printed. Field names are llama-bench's where it has the field.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moonlit::cli {

struct BenchRow {
  std::string model_filename, model_type, variant, type_k, type_v, test_time;
  uint64_t model_size = 0, model_n_params = 0;
  uint32_t n_threads = 0, n_batch = 0, n_ubatch = 0;
  size_t n_prompt = 0, n_gen = 0, n_depth = 0;
  uint64_t logits_hash = 0;        // of the last step's logits
  std::vector<double> samples_ns;  // one a repetition
};

// To stdout as "md", "json" or "csv". Returns the exit code.
int PrintReport(const std::vector<BenchRow>& rows, const std::string& format);

}  // namespace moonlit::cli
