// SPDX-License-Identifier: Apache-2.0
// A model that is nothing but a mixture of experts: a token's id selects a row of inputs and a row of router logits, both given
// by the test, and the head is the identity, so that logits are the mixture's output.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/plan.h"
#include "runtime/graph/graph.h"
#include "runtime/threads/pool.h"
#include "runtime/weights/weight_source.h"

namespace moonlit::test {

// Tensors in memory, encoded from floats.
class MemorySource : public WeightSource {
 public:
  void Add(const std::string& name, Format format, const Shape& shape, const std::vector<float>& values);
  // The floats that the encoded tensor stands for.
  std::vector<float> Values(const std::string& name) const;

  const TensorInfo* Find(std::string_view name) const override;
  std::vector<const TensorInfo*> All() const override;
  Status Read(const TensorInfo& tensor, uint64_t offset, void* out, size_t size) const override;
  std::string description() const override { return "memory"; }

 private:
  struct Entry {
    TensorInfo info;
    std::vector<uint8_t> bytes;
  };
  std::map<std::string, Entry, std::less<>> entries_;
};

struct MixtureShape {
  size_t d = 40, ffn = 20, out = 24;  // not multiples of anything
  size_t rows = 70;                   // token ids
  Format format = Format::kF32;       // of the experts' matrices
  bool biases = false;
  bool addend = false;  // the input is added to the output, as in a residual stream; out is d
};

// A plan without a cache and its pool.
class TokenRunner {
 public:
  TokenRunner(const Graph& graph, const WeightSource& source, size_t threads, bool exact, size_t max_rows);
  // Logits of tokens 0 .. rows - 1, fed in steps of `chunk`; the first `width` of each.
  std::vector<float> Run(size_t rows, size_t chunk, size_t width);

 private:
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Plan> plan_;
};

// Inputs, logits and weights of a mixture: random, to be changed before MakePlan.
class Mixture {
 public:
  Mixture(const MixtureShape& shape, const ExpertsSpec& spec, uint32_t seed = 1);

  const MixtureShape& shape() const { return shape_; }
  ExpertsSpec spec;
  std::vector<float> x;                              // [rows, d]
  std::vector<float> logits;                         // [rows, experts]
  std::vector<float> gate, up, down;                 // [experts, ffn, d] twice, [experts, out, ffn]
  std::vector<float> gate_bias, up_bias, down_bias;  // [experts, ffn] twice, [experts, out]
  std::vector<float> selection_bias;                 // [experts], or empty
  std::vector<float> FilledLogits(float value) const { return std::vector<float>(logits.size(), value); }

  // The weights, encoded; and a plan over them.
  MemorySource Source() const;
  TokenRunner Prepare(const MemorySource& source, size_t threads, bool exact) const;
  // Outputs [rows, out] of tokens 0 .. rows - 1, in steps of `chunk`.
  std::vector<float> Run(size_t rows, size_t chunk, size_t threads) const {
    return Prepare(Source(), threads, false).Run(rows, chunk, shape_.out);
  }
  // The same for all rows and one expert alone, as a plain feed-forward network.
  std::vector<float> RunExpert(size_t expert, bool exact) const;
  // What the mixture is, in double precision, and the magnitude that bounds its rounding: [out] each.
  struct Expected {
    std::vector<double> values, magnitudes;
  };
  Expected Reference(size_t row) const;
  // The chosen experts of a row, best first, with their weights.
  std::vector<std::pair<size_t, double>> Route(size_t row) const;

 private:
  void Build(Graph& graph) const;
  Expected ReferenceOfExpert(size_t expert, const std::vector<double>& x) const;
  MixtureShape shape_;
};

}  // namespace moonlit::test
