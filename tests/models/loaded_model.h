// SPDX-License-Identifier: Apache-2.0
// A fixture model with its plan and one way to run it: tokens in chunks, logits of every position out.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/features.h"
#include "models/registry.h"
#include "runtime/cache/cache.h"
#include "runtime/exec/plan.h"
#include "runtime/threads/pool.h"
#include "runtime/weights/gguf_source.h"

namespace moonlit::test {

struct ModelOptions {
  size_t threads = 2;
  size_t page_tokens = kAttentionTile < 32 ? 32 : kAttentionTile;
  CacheType cache = CacheType::kF32;
  bool exact = false;
  size_t max_rows = 64;
  bool share_prefixes = false;  // so that nothing is compared with itself
  bool gives_back = false;      // what no coming token sees, in groups with a lookback
  SparseAttention sparse = {};
  std::string packed_cache = {};
  std::string variant = {};
  const ProductTable* products = nullptr;
  std::string file = {};            // "": the fixture's own
  std::string float_provider = {};  // "": MOONLIT_FLOAT_PROVIDER if set, else the table
};

// The variant under test: MOONLIT_VARIANT if set, else the best one of this CPU.
inline Variant TestVariant() {
  Variant variant = SelectVariant(CpuFeatures());
  if (const char* name = std::getenv("MOONLIT_VARIANT")) {
    EXPECT_TRUE(FindVariant(name, &variant)) << name;
  }
  return variant;
}

inline std::string FixturePath(const std::string& name, const char* file) {
  return std::string(MOONLIT_SOURCE_DIR) + "/tests/data/golden/" + name + "/" + file;
}

// Keeps what a step hands out: for every span, [rows, width], of logits or of hidden states. Checks the consumer's contract on the way.
class Collector : public LogitsConsumer {
 public:
  Collector(size_t width, size_t spans, bool hidden = false) : rows(spans), width_(width), hidden_(hidden) {}
  bool takes_hidden() const override { return hidden_; }
  void Consume(size_t span, size_t, size_t count, const float* logits, size_t stride) override {
    EXPECT_LE(count, 32u);
    EXPECT_LT(span, rows.size());
    for (size_t r = 0; r < count; ++r)
      rows[span].insert(rows[span].end(), logits + r * stride, logits + r * stride + width_);
  }
  std::vector<std::vector<float>> rows;

 private:
  size_t width_;
  bool hidden_;
};

class LoadedModel {
 public:
  LoadedModel(const std::string& fixture, const ModelOptions& options) {
    auto source = GgufSource::Open(options.file.empty() ? FixturePath(fixture, "model.gguf") : options.file);
    EXPECT_TRUE(source.ok()) << source.status().ToString();
    source_ = std::move(source).value();
    auto graph = LoadGraph(source_->metadata(), *source_);
    EXPECT_TRUE(graph.ok()) << graph.status().ToString();
    EXPECT_TRUE(graph->unused_tensors.empty()) << graph->unused_tensors[0];
    auto pool = ThreadPool::Create({.threads = options.threads});
    EXPECT_TRUE(pool.ok()) << pool.status().ToString();
    pool_ = std::move(pool).value();
    PlanOptions plan_options{};
    plan_options.variant = TestVariant();
    if (!options.variant.empty()) {
      EXPECT_TRUE(FindVariant(options.variant.c_str(), &plan_options.variant));
    }
    plan_options.pool = pool_.get();
    plan_options.max_rows = options.max_rows;
    plan_options.page_tokens = options.page_tokens;
    plan_options.key_type = plan_options.value_type = options.cache;
    plan_options.exact = options.exact;
    plan_options.sparse = options.sparse;
    plan_options.products = options.products;
    const Result<FloatProviderChoice> floats = ResolveFloatProvider(options.float_provider);
    EXPECT_TRUE(floats.ok()) << floats.status().ToString();
    plan_options.float_provider = floats.value();
    plan_options.packed_cache = options.packed_cache;
    auto plan = Plan::Create(graph->graph, *source_, plan_options);
    EXPECT_TRUE(plan.ok()) << plan.status().ToString();
    plan_ = std::move(plan).value();
    PagePoolOptions page_options = {.share_prefixes = options.share_prefixes};
    for (size_t g = 0; options.gives_back && g < plan_->cache_groups().size(); ++g) {
      page_options.lookback.push_back(plan_->lookback(g));
    }
    auto pages = PagePool::Create(plan_->cache_groups(), 64, page_options);
    EXPECT_TRUE(pages.ok()) << pages.status().ToString();
    pages_ = std::move(pages).value();
  }

  Plan& plan() { return *plan_; }
  PagePool& pages() { return *pages_; }
  const GgufSource& source() const { return *source_; }
  size_t vocab() const { return plan_->vocab_size(); }

  const AdapterSet* adapters = nullptr;  // of the steps from now on
  const float* inputs = nullptr;         // of the next ones, see StepSpan
  StepTap* tap = nullptr;                // likewise

  // One step; the sequence grows by its tokens. Returns the logits of the wanted rows.
  std::vector<float> Step(Sequence& sequence, std::span<const int32_t> tokens, Outputs outputs = Outputs::kAll) {
    Status reserved = sequence.Reserve(sequence.length() + static_cast<int64_t>(tokens.size()));
    EXPECT_TRUE(reserved.ok()) << reserved.ToString();
    StepSpan span{.tokens = tokens,
                  .pages = sequence.pages(),
                  .first_slot = sequence.length(),
                  .positions = {},
                  .outputs = outputs,
                  .runs = sequence.runs(),
                  .adapters = adapters,
                  .inputs = inputs,
                  .tap = tap};
    const bool hidden = plan_->gives_hidden();
    Collector collector(hidden ? plan_->hidden_width() : vocab(), 1, hidden);
    Status ran = plan_->Run({&span, 1}, &collector);
    EXPECT_TRUE(ran.ok()) << ran.ToString();
    sequence.Commit(tokens);
    return std::move(collector.rows[0]);
  }

  // Of an encoder: of every token, [tokens, hidden_width].
  std::vector<float> Hidden(const std::vector<int32_t>& tokens) {
    Sequence sequence(pages_.get());
    return Step(sequence, tokens);
  }

  // Logits of every token, [tokens, vocab], fed in chunks.
  std::vector<float> Logits(const std::vector<int32_t>& tokens, size_t chunk) {
    Sequence sequence(pages_.get());
    std::vector<float> all;
    for (size_t i = 0; i < tokens.size(); i += chunk) {
      const std::vector<float> rows = Step(sequence, std::span(tokens).subspan(i, std::min(chunk, tokens.size() - i)));
      all.insert(all.end(), rows.begin(), rows.end());
    }
    return all;
  }

 private:
  std::unique_ptr<GgufSource> source_;
  std::unique_ptr<ThreadPool> pool_;
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<PagePool> pages_;
};

}  // namespace moonlit::test
