// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/generate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/decode/fake_model.h"

namespace moonlit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Replays ids, then ends the text.
class Script final : public TokenChooser {
 public:
  explicit Script(std::vector<int32_t> ids) : ids_(std::move(ids)) {}
  Result<int32_t> Next(std::span<const float> logits, const std::atomic<bool>*) override {
    EXPECT_EQ(logits.size(), kFakeVocab);
    seen.emplace_back(logits.begin(), logits.end());
    return next_ < ids_.size() ? ids_[next_++] : kEndToken;
  }
  void Accept(int32_t id) override { accepted.push_back(id); }
  std::vector<std::vector<float>> seen;
  std::vector<int32_t> accepted;

 private:
  std::vector<int32_t> ids_;
  size_t next_ = 0;
};

struct Outcome {
  GenerateResult result;
  std::vector<std::string> pieces;
  std::string text;
};

const std::vector<int32_t> kPrompt = {kBeginToken, kFirstWordToken + 9, kFirstWordToken + 10};

Outcome Replay(const std::vector<int32_t>& script, GenerateOptions options = {}, EngineOptions engine_options = {}) {
  const auto engine = MakeFakeEngine(engine_options);
  auto session = engine->NewSession();
  Script chooser(script);
  Outcome outcome;
  options.text = [&](std::string_view piece) {
    EXPECT_FALSE(piece.empty());
    outcome.pieces.emplace_back(piece);
    outcome.text += piece;
    return true;
  };
  auto result = Generate(*engine, **session, kPrompt, chooser, options);
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  outcome.result = std::move(result).value();
  return outcome;
}

std::vector<int32_t> Words(const std::vector<std::string>& words) {
  std::vector<int32_t> ids;
  for (const std::string& word : words) ids.push_back(WordToken(word));
  return ids;
}

std::vector<int32_t> Bytes(const std::string& bytes) {
  std::vector<int32_t> ids;
  for (char c : bytes) ids.push_back(ByteToken(static_cast<uint8_t>(c)));
  return ids;
}

TEST(Generate, EndsWhereTheModelEnds) {
  const Outcome o = Replay(Words({"one", " tail"}));
  EXPECT_EQ(o.text, "one tail");
  EXPECT_EQ(o.result.finish, Finish::kEnd);
  EXPECT_EQ(o.result.end_token, kEndToken);
  EXPECT_EQ(o.result.tokens, Words({"one", " tail"}));
  EXPECT_EQ(o.result.prompt_tokens, 3u);
}

// Each choice sees the logits after everything before it, and the chooser knows prompt and text.
TEST(Generate, TheModelReadsWhatWasChosen) {
  const auto engine = MakeFakeEngine();
  auto session = engine->NewSession();
  const auto words = Words({"one", "two", "three"});
  Script chooser(words);
  std::vector<int32_t> tokens;
  GenerateOptions options;
  options.token = [&](int32_t id) {
    tokens.push_back(id);
    return true;
  };
  ASSERT_TRUE(Generate(*engine, **session, kPrompt, chooser, options).ok());
  std::vector<int32_t> sequence = kPrompt;
  ASSERT_EQ(chooser.seen.size(), 4u);
  for (size_t i = 0; i <= words.size(); ++i) {
    EXPECT_EQ(chooser.seen[i], FakeLogits(sequence)) << i;
    if (i < words.size()) sequence.push_back(words[i]);
  }
  EXPECT_EQ(chooser.accepted, sequence);
  EXPECT_EQ(tokens, words);
  EXPECT_EQ((*session)->length(), 6);
}

TEST(Generate, LengthAndIgnoreEnd) {
  GenerateOptions options;
  options.max_tokens = 2;
  Outcome o = Replay(Words({"one", "two", "three"}), options);
  EXPECT_EQ(o.text, "onetwo");
  EXPECT_EQ(o.result.finish, Finish::kLength);
  options.max_tokens = 5;
  options.ignore_end = true;
  o = Replay(Words({"one"}), options);
  EXPECT_EQ(o.text, "one") << "the end token has no text";
  EXPECT_EQ(o.result.tokens.size(), 5u);
  EXPECT_EQ(o.result.finish, Finish::kLength);
}

// A full context cut texts or overran it elsewhere. The last token needs no slot: nothing reads it any more.
TEST(Generate, StopsWhenTheContextIsFull) {
  const Outcome o = Replay(std::vector<int32_t>(50, WordToken("G")), {}, {.n_ctx = 10});
  EXPECT_EQ(o.result.finish, Finish::kContext);
  EXPECT_EQ(o.result.tokens.size(), 10 - kPrompt.size() + 1);
  const Outcome exact = Replay(Words({"one"}), {}, {.n_ctx = 3});
  EXPECT_EQ(exact.result.finish, Finish::kContext);
  EXPECT_EQ(exact.text, "one");
}

// A kept beginning, and half of the rest gone each time that the context is full: what the model sees then is the text as it
// stands, token by token.
TEST(Generate, AContextShiftDropsTheOlderHalf) {
  struct {
    size_t n_ctx, keep, first, last;
  } const cases[] = {{192, 0, 64, 128}, {256, 0, 64, 128}, {320, 64, 64, 192}, {500, 65, 128, 256}, {192, 0, 64, 128}};
  for (const auto& c : cases) {
    const auto engine = MakeFakeEngine({.n_ctx = c.n_ctx});
    auto session = engine->NewSession();
    std::vector<int32_t> script;
    for (size_t i = 0; i < 900; ++i) script.push_back(kFirstWordToken + static_cast<int32_t>(i * i % 11));
    Script chooser(script);
    GenerateOptions options;
    options.context_shift = true;
    options.keep = c.keep;
    options.max_tokens = 900;
    auto result = Generate(*engine, **session, kPrompt, chooser, options);
    ASSERT_TRUE(result.ok()) << result.status().ToString();
    EXPECT_EQ(result->finish, Finish::kLength);
    EXPECT_EQ(result->tokens, script);
    std::vector<int32_t> text = kPrompt;
    size_t shifts = 0;
    for (size_t i = 0; i < 900; ++i) {
      ASSERT_EQ(chooser.seen[i], FakeLogits(text)) << i << " of " << c.n_ctx;
      if (text.size() == c.n_ctx) {
        ++shifts;
        text.erase(text.begin() + static_cast<std::ptrdiff_t>(c.first),
                   text.begin() + static_cast<std::ptrdiff_t>(c.last));
      }
      text.push_back(script[i]);
    }
    EXPECT_GT(shifts, 1u);
    EXPECT_EQ(result->shifts, shifts);
  }
}

// Refused at the start, not when the context is full.
TEST(Generate, AContextShiftThatCannotBeIsRefusedAtOnce) {
  GenerateOptions options;
  options.context_shift = true;
  const auto refused = [&](const EngineOptions& engine_options, size_t keep, bool encoder) {
    FakePlan* plan = nullptr;
    const auto engine = MakeFakeEngine(engine_options, &plan);
    plan->encoder = encoder;
    auto session = engine->NewSession();
    Script chooser({});
    options.keep = keep;
    const auto result = Generate(*engine, **session, kPrompt, chooser, options);
    EXPECT_FALSE(result.ok());
    EXPECT_EQ((*session)->length(), 0);
    return result.status();
  };
  EXPECT_THAT(refused({.n_ctx = 191}, 0, false).ToString(), HasSubstr("expected at least 192"));
  EXPECT_THAT(refused({.n_ctx = 200}, 65, false).ToString(), HasSubstr("expected at least 256"));
  EXPECT_THAT(refused({.n_ctx = 256, .page_tokens = 128}, 1, false).ToString(), HasSubstr("expected at least 384"));
  EXPECT_EQ(refused({.n_ctx = 256}, SIZE_MAX, false).code(), Code::kInvalidArgument);
  EXPECT_EQ(refused({.n_ctx = 256}, 0, true).code(), Code::kUnsupported);
}

TEST(Generate, APromptThatDoesNotFitIsAnError) {
  const auto engine = MakeFakeEngine({.n_ctx = 2});
  auto session = engine->NewSession();
  Script chooser({});
  const auto result = Generate(*engine, **session, kPrompt, chooser, {});
  EXPECT_EQ(result.status().code(), Code::kExhausted);
  EXPECT_THAT(result.status().ToString(), HasSubstr("3 tokens are needed (0 held, 3 new), 2 are allowed"));
  EXPECT_EQ((*session)->length(), 0);
  EXPECT_EQ(Generate(*engine, **session, {}, chooser, {}).status().code(), Code::kInvalidArgument);
  GenerateOptions empty_stop;
  empty_stop.stop = {""};
  EXPECT_EQ(Generate(*engine, **session, kPrompt, chooser, empty_stop).status().code(), Code::kInvalidArgument);
}

// 4-byte characters split over tokens, in every way.
TEST(Generate, PiecesAreWholeCharacters) {
  const std::string cat = "\xF0\x9F\x98\xB8", moon = "\xE6\x9C\x88";
  Outcome o = Replay(Bytes(cat + "a" + moon));
  EXPECT_THAT(o.pieces, ElementsAre(cat, "a", moon));
  o = Replay(Bytes("\xF0\x9F"));
  EXPECT_EQ(o.text, "\xEF\xBF\xBD") << "a character that never came whole is one U+FFFD at the end";
  auto script = Bytes("\xE6\x9C");
  script.push_back(WordToken("G"));
  EXPECT_EQ(Replay(script).text, "\xEF\xBF\xBDG") << "an ASCII byte after a broken character survives";
}

TEST(Generate, PiecesAddUpToTheDecodedText) {
  const auto tokenizer = MakeFakeTokenizer(true);
  uint32_t state = 1;
  for (int round = 0; round < 50; ++round) {
    std::vector<int32_t> ids;
    std::string utf8 = "\xF0\x9F\x98\xB8\xE6\x9C\x88\xC3\xA9z";
    for (int i = 0; i < 30; ++i) {
      state = state * 1664525u + 1013904223u;
      if (state % 3 == 0) {
        for (int32_t id : Bytes(utf8.substr(0, 4))) ids.push_back(id);
      } else {
        ids.push_back(kFirstWordToken + static_cast<int32_t>((state >> 8) % kWords.size()));
      }
    }
    EXPECT_EQ(Replay(ids).text, tokenizer->Decode(ids, {.show_special = false, .at_start = false}).value());
  }
}

// A stop string that no single token has, and that pieces must not have shown in part.
TEST(Generate, AStopStringOverManyTokens) {
  GenerateOptions options;
  options.stop = {"DEFGHIJ"};
  Outcome o = Replay(Words({"DEF", "G", "HI", "J", "X"}), options);
  EXPECT_EQ(o.text, "");
  EXPECT_EQ(o.result.finish, Finish::kStop);
  EXPECT_EQ(o.result.stop_index, 0);
  EXPECT_EQ(o.result.tokens.size(), 4u);
  o = Replay(Words({"DEF", "G", "X", "one"}), options);
  EXPECT_EQ(o.text, "DEFGXone") << "a near miss is given out in full";
  EXPECT_EQ(o.result.finish, Finish::kEnd);
  EXPECT_EQ(o.result.stop_index, -1);
}

TEST(Generate, TextHeldForAStopIsFlushedAtTheEnd) {
  GenerateOptions options;
  options.stop = {"DEFGHIJ"};
  options.max_tokens = 2;
  const Outcome o = Replay(Words({"DEF", "G", "HI"}), options);
  EXPECT_EQ(o.text, "DEFG");
  EXPECT_EQ(o.result.finish, Finish::kLength);
}

TEST(Generate, AStopInsideATokenCutsItsTail) {
  GenerateOptions options;
  options.stop = {"zzz", "b"};
  const Outcome o = Replay(Words({"one", "abc", "two"}), options);
  EXPECT_EQ(o.text, "onea");
  EXPECT_EQ(o.result.stop_index, 1);
}

TEST(Generate, AStopThatIsACharacterSplitOverTokens) {
  GenerateOptions options;
  options.stop = {"\xF0\x9F\x98\xB8"};
  const Outcome o = Replay(Bytes("a\xF0\x9F\x98\xB8z"), options);
  EXPECT_EQ(o.text, "a");
  EXPECT_EQ(o.result.finish, Finish::kStop);
}

TEST(Generate, CancelBeforeDuringPrefillAndBetweenTokens) {
  FakePlan* plan = nullptr;
  const auto engine = MakeFakeEngine({.chunk_tokens = 1}, &plan);
  auto session = engine->NewSession();
  std::atomic<bool> cancel{false};
  GenerateOptions options;
  options.cancel = &cancel;
  plan->on_run = [&](std::span<const StepSpan> spans) {
    cancel = spans[0].first_slot == 1;
    return Status();
  };
  Script during_prefill(Words({"one"}));
  auto result = Generate(*engine, **session, kPrompt, during_prefill, options);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->finish, Finish::kCancelled);
  EXPECT_EQ(result->prompt_tokens, 0u);
  EXPECT_EQ((*session)->length(), 0);

  plan->on_run = nullptr;
  cancel = false;
  std::string text;
  options.text = [&](std::string_view piece) {
    text += piece;
    cancel = text == "onetwo";
    return true;
  };
  Script between(Words({"one", "two", "three"}));
  result = Generate(*engine, **session, kPrompt, between, options);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->finish, Finish::kCancelled);
  EXPECT_EQ(text, "onetwo") << "the current token is finished, no other begun";
  EXPECT_EQ((*session)->length(), 4);
}

TEST(Generate, ACallbackMaySayNo) {
  const auto engine = MakeFakeEngine();
  auto session = engine->NewSession();
  Script chooser(Words({"one", "two", "three"}));
  GenerateOptions options;
  int calls = 0;
  options.text = [&](std::string_view) { return ++calls < 2; };
  const auto result = Generate(*engine, **session, kPrompt, chooser, options);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->finish, Finish::kCancelled);
  EXPECT_EQ(calls, 2);
  EXPECT_EQ(result->tokens.size(), 2u);
}

// What the session holds and last_token together are always all that was generated.
TEST(Generate, SaysWhichTokenTheSessionHasNotRead) {
  struct Case {
    const char* what;
    Finish finish;
    std::vector<std::string> script;
    std::string last;  // "": none
    int32_t end;
    std::function<void(GenerateOptions&)> change;
  };
  std::atomic<bool> cancel{false};
  const Case cases[] = {
      {"an end token", Finish::kEnd, {"one", "two"}, "", kEndToken, [](GenerateOptions&) {}},
      {"an end token at once", Finish::kEnd, {}, "", kEndToken, [](GenerateOptions&) {}},
      {"a stop string", Finish::kStop, {"one", "abc"}, "abc", -1, [](GenerateOptions& o) { o.stop = {"b"}; }},
      {"a length", Finish::kLength, {"one", "two"}, "two", -1, [](GenerateOptions& o) { o.max_tokens = 2; }},
      {"a full context", Finish::kContext, std::vector<std::string>(8, "one"), "one", -1, [](GenerateOptions&) {}},
      {"a text that is refused",
       Finish::kCancelled,
       {"one", "two"},
       "two",
       -1,
       [](GenerateOptions& o) { o.text = [](std::string_view piece) { return piece != "two"; }; }},
      {"a token that is refused",
       Finish::kCancelled,
       {"one", "two"},
       "two",
       -1,
       [](GenerateOptions& o) { o.token = [](int32_t id) { return id != WordToken("two"); }; }},
      {"a flag before a step",
       Finish::kCancelled,
       {"one", "two"},
       "two",
       -1,
       [&](GenerateOptions& o) {
         o.cancel = &cancel;
         o.text = [&](std::string_view piece) {
           cancel = piece == "two";
           return true;
         };
       }},
  };
  for (const Case& c : cases) {
    const auto engine = MakeFakeEngine({.n_ctx = 10});
    auto session = engine->NewSession();
    Script chooser(Words(c.script));
    GenerateOptions options;
    c.change(options);
    const auto result = Generate(*engine, **session, kPrompt, chooser, options);
    ASSERT_TRUE(result.ok()) << c.what << ": " << result.status().ToString();
    EXPECT_EQ(result->finish, c.finish) << c.what;
    EXPECT_EQ(result->last_token, c.last.empty() ? -1 : WordToken(c.last)) << c.what;
    EXPECT_EQ(result->end_token, c.end) << c.what;
    std::vector<int32_t> expected = kPrompt, held((*session)->tokens().begin(), (*session)->tokens().end());
    expected.insert(expected.end(), result->tokens.begin(), result->tokens.end());
    if (result->last_token != -1) held.push_back(result->last_token);
    EXPECT_EQ(held, expected) << c.what;
  }
}

TEST(Generate, AFlagBetweenAStepAndTheNextChoiceLeavesNothingUnread) {
  const auto engine = MakeFakeEngine();
  auto session = engine->NewSession();
  std::atomic<bool> cancel{false};
  GenerateOptions options;
  options.cancel = &cancel;
  options.prefill_progress = [&](size_t done, size_t total) { cancel = done == total; };
  Script chooser(Words({"one"}));
  const auto result = Generate(*engine, **session, kPrompt, chooser, options);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->finish, Finish::kCancelled);
  EXPECT_EQ(result->prompt_tokens, kPrompt.size());
  EXPECT_EQ(result->last_token, -1);
  EXPECT_EQ((*session)->length(), 3);
}

// The text of a token that was refused is given out, and so is what waited for a stop string.
TEST(Generate, ARefusedTokenIsTheLastOfTheText) {
  GenerateOptions options;
  options.stop = {"DEFGHIJ"};
  options.token = [](int32_t id) { return id != WordToken("G"); };
  const Outcome o = Replay(Words({"DEF", "G", "HI"}), options);
  EXPECT_EQ(o.text, "DEFG");
  EXPECT_EQ(o.result.finish, Finish::kCancelled);
  EXPECT_EQ(o.result.tokens.size(), 2u);
}

TEST(Generate, ProgressOfThePrompt) {
  std::vector<std::pair<size_t, size_t>> seen;
  GenerateOptions options;
  options.prefill_progress = [&](size_t done, size_t total) { seen.emplace_back(done, total); };
  Replay({}, options, {.chunk_tokens = 2});
  EXPECT_THAT(seen, ElementsAre(std::make_pair(2u, 3u), std::make_pair(3u, 3u)));
}

class Failing final : public TokenChooser {
 public:
  Result<int32_t> Next(std::span<const float>, const std::atomic<bool>*) override {
    return Status(Code::kInternal, "the logit of token 5 is NaN");
  }
  void Accept(int32_t) override {}
};

// A flag that is set while a chooser thinks ends the generation as any other does.
class SetsTheFlag final : public TokenChooser {
 public:
  explicit SetsTheFlag(std::atomic<bool>* flag) : flag_(flag) {}
  Result<int32_t> Next(std::span<const float>, const std::atomic<bool>* cancel) override {
    EXPECT_EQ(cancel, flag_);
    flag_->store(true);
    return Status(Code::kCancelled, "cancelled");
  }
  void Accept(int32_t) override {}

 private:
  std::atomic<bool>* flag_;
};

TEST(Generate, AChooserThatWasCancelledEndsTheText) {
  const auto engine = MakeFakeEngine();
  auto session = engine->NewSession();
  std::atomic<bool> flag = false;
  SetsTheFlag chooser(&flag);
  GenerateOptions options;
  options.cancel = &flag;
  const auto result = Generate(*engine, **session, kPrompt, chooser, options);
  ASSERT_TRUE(result.ok()) << result.status().ToString();
  EXPECT_EQ(result->finish, Finish::kCancelled);
  EXPECT_TRUE(result->tokens.empty());
}

TEST(Generate, AnErrorOfTheChooserIsTheResult) {
  const auto engine = MakeFakeEngine();
  auto session = engine->NewSession();
  Failing chooser;
  const auto result = Generate(*engine, **session, kPrompt, chooser, {});
  EXPECT_EQ(result.status().code(), Code::kInternal);
}

// One seed, one text, whatever the chunks.
TEST(Generate, TheSameSeedGivesTheSameTextForAnyChunk) {
  std::vector<int32_t> first;
  for (size_t chunk : {1, 2, 512}) {
    const auto engine = MakeFakeEngine({.chunk_tokens = chunk});
    auto session = engine->NewSession();
    auto sampler = Sampler::Create({.repeat_penalty = 1.2f, .seed = 11});
    GenerateOptions options;
    options.max_tokens = 60;
    options.ignore_end = true;
    const auto result = Generate(*engine, **session, kPrompt, sampler.value(), options);
    ASSERT_TRUE(result.ok());
    ASSERT_EQ(result->tokens.size(), 60u);
    if (first.empty()) first = result->tokens;
    EXPECT_EQ(result->tokens, first) << "chunk " << chunk;
  }
}

TEST(FinishName, HasAWordForEach) {
  EXPECT_STREQ(FinishName(Finish::kEnd), "end");
  EXPECT_STREQ(FinishName(Finish::kStop), "stop");
  EXPECT_STREQ(FinishName(Finish::kLength), "length");
  EXPECT_STREQ(FinishName(Finish::kContext), "context");
  EXPECT_STREQ(FinishName(Finish::kCancelled), "cancelled");
}

}  // namespace
}  // namespace moonlit
