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

// To stdout, each row as soon as it is measured, so that a run which ends early has not measured for nothing.
class BenchReport {
 public:
  // format: "md", "json" (one array), "jsonl" (one object a line) or "csv". show_batches: whether Markdown has n_batch and n_ubatch.
  BenchReport(const std::string& format, bool show_batches) : format_(format), show_batches_(show_batches) {}
  void Add(const BenchRow& row);
  // Once, after the last row, also when there was none.
  void End();

 private:
  const std::string format_;
  const bool show_batches_;
  size_t rows_ = 0;
};

}  // namespace moonlit::cli
