// SPDX-License-Identifier: Apache-2.0
// A model without weights: its "cache" holds token ids, and its logits are a hash of all tokens of the sequence so far,
// read back from the cache's pages. So any mistake in pages, slots, chunks or lengths changes every later logit. Groups with a
// lookback hold the tokens too, and a run fails where one of those that are seen is not there.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/decode/engine.h"

namespace moonlit {

inline constexpr int32_t kUnknownToken = 0, kBeginToken = 1, kEndToken = 2, kFirstByteToken = 3, kFirstWordToken = 259;
// Ids from kFirstWordToken on.
inline const std::vector<std::string> kWords = {"DEF", "G",    "HI",    "J",   "X",   "ab",
                                                "abc", "stop", " tail", "one", "two", "three"};
inline const size_t kFakeVocab = static_cast<size_t>(kFirstWordToken) + kWords.size();

inline int32_t ByteToken(uint8_t byte) { return kFirstByteToken + byte; }
int32_t WordToken(const std::string& word);

// SentencePiece, with all byte tokens and kWords.
std::unique_ptr<const Tokenizer> MakeFakeTokenizer(bool add_bos);

// The logits after `tokens`, [kFakeVocab].
std::vector<float> FakeLogits(std::span<const int32_t> tokens);

class FakePlan final : public Plan {
 public:
  // lookbacks: of the cache groups, which all hold the tokens; the first sees all.
  FakePlan(const PlanOptions& options, const std::vector<size_t>& lookbacks);
  size_t vocab_size() const override { return kFakeVocab; }
  const PlanOptions& options() const override { return options_; }
  const std::vector<PageLayout>& cache_groups() const override { return groups_; }
  PlanSize size() const override { return {}; }
  std::string Describe() const override { return "a fake"; }
  bool whole_sequences() const override { return encoder; }
  size_t lookback(size_t group) const override { return lookbacks_[group]; }
  Status Run(std::span<const StepSpan> spans, LogitsConsumer* consumer, AbortFlags abort) override;

  // Called at the start of every Run; what it returns, if not OK, is Run's result (after the slots have been scribbled
  // over).
  std::function<Status(std::span<const StepSpan>)> on_run;
  bool encoder = false;
  size_t runs = 0;
  size_t tokens = 0;  // that all runs have computed

 private:
  Status CheckLookbacks(const StepSpan& span) const;
  PlanOptions options_;
  std::vector<size_t> lookbacks_;
  std::vector<PageLayout> groups_;
};

// `plan` (may be null) receives the plan when the engine is made.
LoadedModel MakeFakeModel(FakePlan** plan, size_t n_ctx_train = 256, bool add_bos = true,
                          const std::vector<size_t>& lookbacks = {0});

// Two threads, 256 tokens of context if `options` says nothing else.
std::unique_ptr<Engine> MakeFakeEngine(EngineOptions options = {}, FakePlan** plan = nullptr, bool add_bos = true,
                                       const std::vector<size_t>& lookbacks = {0});

// Keeps every row with its number.
class RowsConsumer final : public LogitsConsumer {
 public:
  void Consume(size_t span, size_t first_token, size_t rows, const float* logits, size_t stride) override {
    for (size_t r = 0; r < rows; ++r) {
      keys.emplace_back(span, first_token + r);
      values.emplace_back(logits + r * stride, logits + r * stride + kFakeVocab);
    }
  }
  std::vector<std::pair<size_t, size_t>> keys;  // (span, token)
  std::vector<std::vector<float>> values;
};

// Ids of the fake vocabulary, other ones for another seed.
std::vector<int32_t> Ids(size_t n, uint32_t seed = 1);

std::unique_ptr<Session> NewSession(Engine& engine);

// Prefills and checks the last logits against all tokens of the session. Returns the tokens that were reused.
size_t Feed(Engine& engine, Session& session, std::span<const int32_t> tokens);

}  // namespace moonlit
