// SPDX-License-Identifier: Apache-2.0
#include "tests/decode/fake_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace moonlit {

int32_t WordToken(const std::string& word) {
  const auto found = std::find(kWords.begin(), kWords.end(), word);
  EXPECT_NE(found, kWords.end()) << word;
  return kFirstWordToken + static_cast<int32_t>(found - kWords.begin());
}

std::unique_ptr<const Tokenizer> MakeFakeTokenizer(bool add_bos) {
  TokenizerData data;
  data.model = "llama";
  const auto add = [&](const std::string& text, float score, TokenType type) {
    data.tokens.push_back(text);
    data.scores.push_back(score);
    data.token_types.push_back(static_cast<int32_t>(type));
  };
  add("<unk>", 0, TokenType::kUnknown);
  add("<s>", 0, TokenType::kControl);
  add("</s>", 0, TokenType::kControl);
  for (int byte = 0; byte < 256; ++byte) {
    char text[8];
    std::snprintf(text, sizeof(text), "<0x%02X>", byte);
    add(text, 0, TokenType::kByte);
  }
  for (std::string word : kWords) {
    if (word[0] == ' ') word = "\xE2\x96\x81" + word.substr(1);  // SentencePiece's space
    add(word, -static_cast<float>(data.tokens.size()), TokenType::kNormal);
  }
  data.bos_id = kBeginToken;
  data.eos_id = kEndToken;
  data.unk_id = kUnknownToken;
  data.add_bos = add_bos;
  auto tokenizer = Tokenizer::Create(std::move(data));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return std::move(tokenizer).value();
}

std::vector<float> FakeLogits(std::span<const int32_t> tokens) {
  uint64_t hash = 0xCBF29CE484222325;
  for (int32_t id : tokens) hash = (hash ^ static_cast<uint64_t>(id)) * 0x100000001B3;
  std::vector<float> logits(kFakeVocab);
  for (float& logit : logits) {
    hash = hash * 6364136223846793005u + 1442695040888963407u;
    logit = static_cast<float>(hash >> 40) * (8.0f / 16777216.0f) - 4.0f;
  }
  return logits;
}

FakePlan::FakePlan(const PlanOptions& options, const std::vector<size_t>& lookbacks)
    : options_(options), lookbacks_(lookbacks) {
  PageLayout layout{};
  layout.page_tokens = static_cast<uint32_t>(options.page_tokens);
  layout.page_bytes = options.page_tokens * sizeof(int32_t);
  groups_.assign(lookbacks.size(), layout);
}

Status FakePlan::CheckLookbacks(const StepSpan& span) const {
  const size_t page_tokens = options_.page_tokens, begin = static_cast<size_t>(span.first_slot);
  for (size_t g = 1; g < groups_.size(); ++g) {
    for (size_t s = begin; s < begin + span.tokens.size(); ++s) {
      for (size_t seen = s + 1 < lookbacks_[g] ? 0 : s + 1 - lookbacks_[g]; seen <= s; ++seen) {
        const uint8_t* page = span.pages[g][seen / page_tokens];
        const size_t at = seen % page_tokens * sizeof(int32_t);
        if (page != nullptr && std::memcmp(page + at, span.pages[0][seen / page_tokens] + at, sizeof(int32_t)) == 0) {
          continue;
        }
        return Errorf(Code::kInternal, "group %zu: the token at %zu does not see %zu", g, s, seen);
      }
    }
  }
  return Status();
}

Status FakePlan::Run(std::span<const StepSpan> spans, LogitsConsumer* consumer, AbortFlags abort) {
  ++runs;
  const size_t page_tokens = options_.page_tokens;
  const auto slot = [&](const StepSpan& span, size_t s, size_t g = 0) {
    return span.pages[g][s / page_tokens] + s % page_tokens * sizeof(int32_t);
  };
  for (const StepSpan& span : spans) {
    tokens += span.tokens.size();
    for (size_t i = 0; i < span.tokens.size(); ++i) {
      for (size_t g = 0; g < groups_.size(); ++g) {
        std::memcpy(slot(span, static_cast<size_t>(span.first_slot) + i, g), &span.tokens[i], sizeof(int32_t));
      }
    }
    MOONLIT_RETURN_IF_ERROR(CheckLookbacks(span));
  }
  if (on_run) MOONLIT_RETURN_IF_ERROR(on_run(spans));
  if (abort.AnySet()) return Status(Code::kCancelled, "cancelled");
  for (size_t s = 0; s < spans.size(); ++s) {
    const StepSpan& span = spans[s];
    if (span.outputs == Outputs::kNone) continue;
    const size_t begin = span.outputs == Outputs::kAll ? 0 : span.tokens.size() - 1;
    for (size_t i = begin; i < span.tokens.size(); ++i) {
      std::vector<int32_t> sequence(static_cast<size_t>(span.first_slot) + i + 1);
      for (size_t t = 0; t < sequence.size(); ++t) std::memcpy(&sequence[t], slot(span, t), sizeof(int32_t));
      const std::vector<float> logits = FakeLogits(sequence);
      consumer->Consume(s, i, 1, logits.data(), logits.size());
    }
  }
  return Status();
}

LoadedModel MakeFakeModel(FakePlan** plan, size_t n_ctx_train, bool add_bos, const std::vector<size_t>& lookbacks) {
  LoadedModel model;
  model.facts.architecture = "fake";
  model.facts.n_vocab = kFakeVocab;
  model.facts.n_ctx_train = n_ctx_train;
  model.facts.identity = "fake model";
  model.tokenizer = MakeFakeTokenizer(add_bos);
  model.make_plan = [plan, lookbacks](const PlanOptions& options) -> Result<std::unique_ptr<Plan>> {
    auto made = std::make_unique<FakePlan>(options, lookbacks);
    if (plan != nullptr) *plan = made.get();
    return std::unique_ptr<Plan>(std::move(made));
  };
  return model;
}

std::unique_ptr<Engine> MakeFakeEngine(EngineOptions options, FakePlan** plan, bool add_bos,
                                       const std::vector<size_t>& lookbacks) {
  if (options.threads == 0) options.threads = 2;
  auto engine = Engine::Create(MakeFakeModel(plan, 256, add_bos, lookbacks), options);
  EXPECT_TRUE(engine.ok()) << engine.status().ToString();
  return std::move(engine).value();
}

std::vector<int32_t> Ids(size_t n, uint32_t seed) {
  std::vector<int32_t> ids(n);
  for (int32_t& id : ids)
    id = static_cast<int32_t>((seed = seed * 1664525u + 1013904223u) >> 8) % static_cast<int32_t>(kFakeVocab);
  return ids;
}

std::unique_ptr<Session> NewSession(Engine& engine) {
  auto session = engine.NewSession();
  EXPECT_TRUE(session.ok()) << session.status().ToString();
  return std::move(session).value();
}

size_t Feed(Engine& engine, Session& session, std::span<const int32_t> tokens) {
  std::vector<int32_t> all(session.tokens().begin(), session.tokens().end());
  all.insert(all.end(), tokens.begin(), tokens.end());
  RowsConsumer rows;
  size_t reused = 0;
  const Status status = engine.Prefill(session, tokens, Outputs::kLast, &rows, nullptr, {}, &reused);
  EXPECT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(rows.values.size(), 1u);
  if (!rows.values.empty()) {
    EXPECT_EQ(rows.keys[0], std::make_pair(size_t{0}, tokens.size() - 1));
    EXPECT_EQ(rows.values[0], FakeLogits(all));
  }
  EXPECT_TRUE(std::equal(all.begin(), all.end(), session.tokens().begin(), session.tokens().end()));
  return reused;
}

}  // namespace moonlit
