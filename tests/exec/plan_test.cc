// SPDX-License-Identifier: Apache-2.0
// What a plan refuses, and how it ends when it is told to.
#include <gtest/gtest.h>
#include <gmock/gmock.h>

#include "tests/models/loaded_model.h"

namespace moonlit::test {
namespace {

using testing::HasSubstr;

class PlanTest : public testing::Test {
 protected:
  PlanTest() : model_("llama", {.max_rows = 8}), sequence_(&model_.pages()) {
    EXPECT_TRUE(sequence_.Reserve(32).ok());
    span_.tokens = tokens_;
    span_.pages = sequence_.pages();
    span_.first_slot = 0;
  }
  Status Run() { return model_.plan().Run({&span_, 1}, &collector_); }
  void ExpectRefused(const char* reason) {
    const Status status = Run();
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason));
    EXPECT_TRUE(collector_.rows[0].empty());
  }
  std::vector<int32_t> tokens_ = {1, 2, 3};
  LoadedModel model_;
  Sequence sequence_;
  StepSpan span_{};
  Collector collector_{320, 1};
};

TEST_F(PlanTest, RefusesTokensOutsideTheVocabulary) {
  for (int32_t id : {-1, 320, INT32_MAX, INT32_MIN}) {
    tokens_[1] = id;
    ExpectRefused("expected an id from 0 to 319");
  }
}

TEST_F(PlanTest, RefusesMoreRowsThanPlannedFor) {
  tokens_.assign(9, 1);
  span_.tokens = tokens_;
  ExpectRefused("more than 8 tokens");
}

TEST_F(PlanTest, RefusesEmptySpansBadSlotsAndWrongTables) {
  span_.tokens = {};
  ExpectRefused("no tokens");
  span_.tokens = tokens_;
  span_.first_slot = -1;
  ExpectRefused("starts at slot -1");
  span_.first_slot = INT32_MAX;
  ExpectRefused("starts at slot");
  span_.first_slot = 0;
  span_.pages = {};
  ExpectRefused("expected 1");
}

TEST_F(PlanTest, RefusesPositionsOfAnotherLength) {
  const int32_t positions[] = {0, 1};
  span_.positions = positions;
  ExpectRefused("2 positions for 3 tokens");
}

TEST_F(PlanTest, WantedLogitsNeedAConsumer) {
  EXPECT_EQ(model_.plan().Run({&span_, 1}, nullptr).code(), Code::kInvalidArgument);
  span_.outputs = Outputs::kNone;
  EXPECT_TRUE(model_.plan().Run({&span_, 1}, nullptr).ok());
}

TEST_F(PlanTest, OutputsSayWhichRowsComeOut) {
  const size_t rows[] = {0, 1, 3};
  for (Outputs outputs : {Outputs::kNone, Outputs::kLast, Outputs::kAll}) {
    collector_.rows[0].clear();
    span_.outputs = outputs;
    ASSERT_TRUE(Run().ok());
    EXPECT_EQ(collector_.rows[0].size(), rows[static_cast<size_t>(outputs)] * 320);
  }
}

TEST_F(PlanTest, PositionsDefaultToSlots) {
  span_.outputs = Outputs::kAll;
  ASSERT_TRUE(Run().ok());
  const std::vector<float> by_slot = std::move(collector_.rows[0]);
  const int32_t same[] = {0, 1, 2}, other[] = {0, 3, 9};
  collector_.rows[0].clear();
  span_.positions = same;
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(collector_.rows[0], by_slot);
  collector_.rows[0].clear();
  span_.positions = other;
  ASSERT_TRUE(Run().ok());
  EXPECT_NE(collector_.rows[0], by_slot);
}

TEST_F(PlanTest, AnAbortedStepIsCancelledAndCanBeRepeated) {
  ASSERT_TRUE(Run().ok());
  const std::vector<float> expected = std::move(collector_.rows[0]);
  collector_.rows[0].clear();
  const std::atomic<bool> abort{true};
  EXPECT_EQ(model_.plan().Run({&span_, 1}, &collector_, &abort).code(), Code::kCancelled);
  EXPECT_TRUE(collector_.rows[0].empty());
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(collector_.rows[0], expected);
}

TEST(PlanCreateTest, LoadingReportsProgressAndCanBeCancelled) {
  auto source = GgufSource::Open(FixturePath("llama", "model.gguf"));
  ASSERT_TRUE(source.ok());
  auto graph = LoadGraph((*source)->metadata(), **source);
  ASSERT_TRUE(graph.ok());
  auto pool = ThreadPool::Create({.threads = 1});
  ASSERT_TRUE(pool.ok());
  uint64_t last = 0, total = 0;
  PlanOptions options{};
  options.variant = TestVariant();
  options.pool = pool->get();
  options.progress = [&](uint64_t done, uint64_t all) {
    EXPECT_GT(done, last);
    last = done;
    total = all;
    return true;
  };
  ASSERT_TRUE(Plan::Create(graph->graph, **source, options).ok());
  EXPECT_EQ(last, total);
  options.progress = [](uint64_t, uint64_t) { return false; };
  EXPECT_EQ(Plan::Create(graph->graph, **source, options).status().code(), Code::kCancelled);
}

TEST(PlanCreateTest, OneMatrixServesATiedEmbeddingAndHead) {
  LoadedModel tied("qwen2", {});
  const std::string text = tied.plan().Describe();
  EXPECT_THAT(text, HasSubstr("embed token_embd.weight"));
  EXPECT_THAT(text, HasSubstr("head token_embd.weight"));
  uint64_t file_bytes = 0;
  for (const TensorInfo* tensor : tied.source().All()) file_bytes += tensor->bytes;
  // Padding of partial tiles and of starts to 128 bytes is all that packing adds to F32.
  EXPECT_LE(tied.plan().size().packed_weight_bytes, file_bytes + file_bytes / 8);
}

}  // namespace
}  // namespace moonlit::test
