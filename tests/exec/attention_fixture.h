// SPDX-License-Identifier: Apache-2.0
// Models that are nothing but attention: a token's id selects rows of queries, keys and values, all given by the test, and the
// head is the identity, so that logits are the attention's output (the sum of several layers').
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/cache/cache.h"
#include "runtime/exec/plan.h"
#include "runtime/graph/graph.h"
#include "runtime/threads/pool.h"
#include "tests/exec/experts_fixture.h"
#include "tests/reference/attention.h"

namespace moonlit::test {

// Reads `append` tokens, of which the first `prefix` see each other, then drops slots [first, last).
struct AttentionAct {
  size_t append;
  size_t prefix = 0;
  int64_t first = 0, last = 0;
};

// What the judge is told of a layer: nothing that the runtime computes.
struct LayerRule {
  std::function<bool(int64_t query, int64_t key)> sees;  // by places; only asked for keys that are there
  std::vector<double> slopes = {};
  std::function<double(int64_t place)> query_factor = {};
  size_t keys_of = SIZE_MAX;  // layer whose keys and values it reads, if not its own
};

struct AttentionLayer {
  AttentionSpec spec;
  LayerRule rule;
};

inline constexpr size_t kAttentionIds = 257;  // token ids

// Heads and sizes of all layers are equal.
class AttentionModel {
 public:
  AttentionModel(std::vector<AttentionLayer> layers, uint32_t seed);

  struct Run {
    size_t threads = 1;
    size_t page_tokens = kAttentionTile;
    size_t chunk = 512;
    CacheType cache = CacheType::kF32;
    SparseAttention sparse = {};
    size_t choose_from = SIZE_MAX;  // tokens from this number on choose their pages
    bool give_back = false;         // pages that no token sees
    StepTap* tap = nullptr;
    size_t* most_pages = nullptr;  // receives how many pages the last group held at most
  };
  size_t width() const { return layers_[0].spec.heads * layers_[0].spec.value_dim; }
  // Token number i of every text.
  static int32_t Token(size_t i) { return static_cast<int32_t>((i * 71 + i * i % 13) % kAttentionIds); }

  // Outputs [tokens, width] of all tokens that are read.
  std::vector<float> Outputs(const std::vector<AttentionAct>& acts, const Run& run) const;
  // Of every token, or of each `every`th only: rows every - 1, 2 every - 1 ... of Outputs.
  std::vector<double> Expected(const std::vector<AttentionAct>& acts, size_t every = 1) const;

  MemorySource& source() { return source_; }  // to change weights: q0, k0, v0, sinks0, q_norm0 ...
  const std::vector<AttentionLayer>& layers() const { return layers_; }
  Result<std::unique_ptr<Plan>> MakePlan(ThreadPool* pool, const Run& run) const;

  // Of a token at a place, as attention multiplies them.
  std::vector<double> Query(size_t layer, int32_t id, int64_t place) const;
  std::vector<double> Key(size_t layer, int32_t id, int64_t place) const;
  std::vector<double> Value(size_t layer, int32_t id) const;

 private:
  std::vector<double> Row(const char* name, size_t layer, int32_t id) const;
  Graph Build() const;
  void NormHeads(const char* weight, size_t layer, std::vector<double>& x) const;
  std::vector<AttentionLayer> layers_;
  MemorySource source_;
};

// The largest ||out - expected|| / ||expected|| of a row, from row `first` of expected on; expected is AttentionModel::Expected(acts,
// every). Infinite if there are no such rows.
double LargestError(const std::vector<float>& out, const std::vector<double>& expected, size_t width, size_t every = 1,
                    size_t first = 0);
bool SameBits(const std::vector<float>& a, const std::vector<float>& b);  // false if they are empty

}  // namespace moonlit::test
