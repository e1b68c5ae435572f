// SPDX-License-Identifier: Apache-2.0
// Models whose weights or intermediates are larger than 4 GiB, which addresses of 32 bits can't reach: their sizes are counted right on
// every machine, and nobody asks an allocator for what is left of such a size when its upper bits are cut off.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/exec/bindings.h"
#include "runtime/exec/ops/attention_geometry.h"
#include "runtime/exec/packed_weights.h"
#include "runtime/exec/plan.h"
#include "runtime/tensor/buffer.h"
#include "tests/models/loaded_model.h"

namespace moonlit::test {
namespace {

using testing::Each;
using testing::Ge;
using testing::HasSubstr;

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr size_t kWidth = size_t{1} << 14;

// Has every tensor that it is told of, and no byte of any.
class DeclaredSource : public WeightSource {
 public:
  void Declare(const std::string& name, const Shape& shape) {
    tensors_[name] = {name, Format::kF32, shape, uint64_t{shape.elements()} * sizeof(float)};
  }
  const TensorInfo* Find(std::string_view name) const override {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  std::vector<const TensorInfo*> All() const override { return {}; }
  Status Read(const TensorInfo& tensor, uint64_t, void*, size_t) const override {
    ADD_FAILURE() << "read " << tensor.name;
    return Status(Code::kIo, "there are no bytes");
  }
  std::string description() const override { return "declared"; }

 private:
  std::map<std::string, TensorInfo, std::less<>> tensors_;
};

// Writes down what it is asked for, and gives nothing.
struct AskedFor {
  std::vector<uint64_t> sizes;
  Allocator allocator() {
    return {.allocate = [](void* self, size_t bytes, size_t) -> void* {
              static_cast<AskedFor*>(self)->sizes.push_back(bytes);
              return nullptr;
            },
            .release = [](void*, void*, size_t) {},
            .user = this};
  }
};

// `layers` square matrices of 1 GiB each; the embedding and the head are small.
class BigModel {
 public:
  explicit BigModel(size_t layers) {
    source.Declare("embedding", {64, kWidth});
    ValueId x = graph.Embed(graph.Weight("embedding", {64, kWidth}));
    for (size_t i = 0; i < layers; ++i) {
      const std::string name = "layer" + std::to_string(i);
      source.Declare(name, {kWidth, kWidth});
      x = graph.Linear(x, graph.Weight(name, {kWidth, kWidth}));
    }
    graph.Logits(x, graph.Weight("embedding", {64, kWidth}));
  }
  PlanOptions Options(size_t max_rows) const {
    PlanOptions options{};
    options.variant = TestVariant();
    options.layout_only = true;
    options.max_rows = max_rows;
    options.float_provider = FloatProviderChoice::kOwn;
    return options;
  }
  DeclaredSource source;
  Graph graph;
};

TEST(Addressable, ABufferTakesNoSizeWithItsUpperBitsCutOff) {
  for (const uint64_t bytes : {4 * kGiB + 64, uint64_t{1} << 63, UINT64_MAX}) {
    AskedFor asked;
    const auto buffer = Buffer::Allocate(bytes, "a test", asked.allocator());
    ASSERT_EQ(buffer.status().code(), Code::kOutOfMemory);
    EXPECT_THAT(std::string(buffer.status().message()), HasSubstr("a test needs " + std::to_string(bytes) + " bytes"));
    EXPECT_THAT(asked.sizes, Each(bytes));
    if (bytes > SIZE_MAX / 2) {
      EXPECT_THAT(std::string(buffer.status().message()), HasSubstr("more than this machine can address"));
      EXPECT_TRUE(asked.sizes.empty());
    }
  }
}

TEST(Addressable, PackedWeightsBeyond4GiBAreCountedAndRefused) {
  const BigModel model(5);
  auto plan = Plan::Create(model.graph, model.source, model.Options(16));
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  EXPECT_GE((*plan)->size().packed_weight_bytes, 5 * kGiB);

  AskedFor asked;
  auto store =
      WeightStore::Plan(model.graph, model.source, {TestVariant(), FloatProviderChoice::kOwn, {}, asked.allocator()});
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  auto pool = ThreadPool::Create({.threads = 1});
  EXPECT_EQ((*store)->Load(model.source, **pool, {}).code(), Code::kOutOfMemory);
  EXPECT_THAT(asked.sizes, Each(Ge(5 * kGiB)));
}

TEST(Addressable, AnArenaBeyond4GiBIsCountedAndRefused) {
  const BigModel model(1);
  PlanOptions options = model.Options(size_t{1} << 16);
  auto plan = Plan::Create(model.graph, model.source, options);
  ASSERT_TRUE(plan.ok()) << plan.status().ToString();
  // Two values of [65536, 16384] floats live at the same time.
  EXPECT_GE((*plan)->size().arena_bytes, 8 * kGiB);

  AskedFor asked;
  auto pool = ThreadPool::Create({.threads = 1});
  options.layout_only = false;
  options.pool = pool->get();
  options.allocator = asked.allocator();
  EXPECT_EQ(Plan::Create(model.graph, model.source, options).status().code(), Code::kOutOfMemory);
  EXPECT_THAT(asked.sizes, Each(Ge(8 * kGiB)));
}

// Whether decoding `count` sequences whose token lies at `slot` keeps the triples of all segments.
bool KeepsTriples(size_t count, int64_t slot) {
  AttentionSpec spec;
  spec.heads = 1024, spec.kv_heads = 64, spec.key_dim = spec.value_dim = 64;
  PageLayout layout{};
  layout.page_tokens = kAttentionTile;
  layout.layers = 1, layout.kv_heads = 64, layout.key_dim = layout.value_dim = 64;
  EXPECT_TRUE(FinishPageLayout(&layout));
  const int32_t token = 0;
  uint8_t* const* const tables[] = {nullptr};
  StepSpan span{};
  span.tokens = {&token, 1};
  span.pages = tables;
  span.first_slot = slot;
  const std::vector<StepSpan> spans(count, span);
  Step step(count, 1, 1);
  EXPECT_TRUE(step.Begin(spans).ok());
  AttentionGeometry geometry(spec, layout, false, count, 64, kTripleFloats);
  geometry.Begin(step);
  return geometry.split();
}

TEST(Addressable, TriplesBeyond4GiBAreNotTakenForFew) {
  EXPECT_TRUE(KeepsTriples(1, 1023));
  // 2^15 segments, 64 KV heads of 16 rows, 128 sequences: 2^32 triples.
  EXPECT_FALSE(KeepsTriples(128, (int64_t{1} << 24) - 1));
}

}  // namespace
}  // namespace moonlit::test
