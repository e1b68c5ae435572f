// SPDX-License-Identifier: Apache-2.0
// Memory that runs out at every place in turn: a code, nothing lost, and the process lives. Big memory fails by the allocator's hook,
// bookkeeping by operator new.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "runtime/api/moonlit.h"
#include "tests/api/counting_allocator.h"
#include "tests/api/fail_at_each.h"
#include "tests/support/failing_new.h"
#include "tests/support/hugging_face_folder.h"
#include "tests/support/slowed.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

const std::string kModel = MOONLIT_SOURCE_DIR "/tests/data/golden/llama/model.gguf";

moonlit_model_options SmallOptions(uint32_t threads) {
  moonlit_model_options options;
  moonlit_model_options_init(&options, sizeof options);
  options.threads = threads;
  options.n_ctx = 192;
  options.max_sessions = 2;
  options.chunk_tokens = 64;
  return options;
}

std::vector<int32_t> Ids(size_t count) {
  std::vector<int32_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = static_cast<int32_t>((3 + i * 17) % 300);
  return ids;
}

int Append(void* user, const void* bytes, size_t size) {
  auto& to = *static_cast<std::vector<uint8_t>*>(user);
  to.insert(to.end(), static_cast<const uint8_t*>(bytes), static_cast<const uint8_t*>(bytes) + size);
  return 0;
}

int TakeFrom(void* user, void* bytes, size_t size) {
  auto& from = *static_cast<std::span<const uint8_t>*>(user);
  if (size > from.size()) return 1;
  std::memcpy(bytes, from.data(), size);
  from = from.subspan(size);
  return 0;
}

// A block of its own after another makes the tables of the cache grow, and leaves something behind for others to take.
moonlit_code Talk(moonlit_model* model, const std::vector<int32_t>& ids, const char* path, moonlit_error* error) {
  moonlit_session* session = nullptr;
  moonlit_session* fork = nullptr;
  moonlit_generate_options options;
  moonlit_generate_options_init(&options, sizeof options);
  options.max_tokens = 5;
  options.ignore_end = 1;
  const char* const stops[] = {"not a text that comes"};
  options.stop = stops;
  options.stop_count = 1;
  moonlit_code code = moonlit_session_new(model, &session, error);
  if (code == MOONLIT_OK) code = moonlit_generate(session, ids.data(), ids.size(), &options, nullptr, error);
  if (code == MOONLIT_OK) code = moonlit_session_fork(session, &fork, error);
  if (code == MOONLIT_OK) code = moonlit_eval(fork, ids.data(), 40, MOONLIT_OUTPUT_LAST, nullptr, nullptr, error);
  if (code == MOONLIT_OK) code = moonlit_session_drop(fork, 0, 64, error);
  if (code == MOONLIT_OK) code = moonlit_session_save(session, path, error);
  if (code == MOONLIT_OK) code = moonlit_session_load(session, path, 0, error);
  std::vector<uint8_t> bytes;
  if (code == MOONLIT_OK) code = moonlit_session_write(session, Append, &bytes, error);
  std::span<const uint8_t> left(bytes);
  if (code == MOONLIT_OK) code = moonlit_session_read(session, TakeFrom, &left, 0, error);
  if (code == MOONLIT_OK) code = moonlit_session_truncate(session, 10, error);
  moonlit_session_free(fork);
  moonlit_session_free(session);
  return code;
}

moonlit_code Load(const moonlit_model_options& options, moonlit_model** model, moonlit_error* error) {
  return moonlit_model_load(kModel.c_str(), &options, model, error);
}

TEST(OutOfBigMemory, OfTheAllocatorsIsACodeAndNothingIsLost) {
  const TempFolder folder;
  const std::string path = folder.path() + "/session";
  const std::vector<int32_t> ids = Ids(70);
  moonlit_code code = MOONLIT_INTERNAL;
  for (size_t n = 1; code != MOONLIT_OK; ++n) {
    CountingAllocator allocator(n);
    moonlit_model_options options = SmallOptions(2);
    allocator.Install(options);
    moonlit_model* model = nullptr;
    moonlit_error error = {};
    code = Load(options, &model, &error);
    if (code == MOONLIT_OK) code = Talk(model, ids, path.c_str(), &error);
    if (code != MOONLIT_OK) {
      EXPECT_EQ(code, MOONLIT_OUT_OF_MEMORY) << error.message;
      EXPECT_EQ(error.code, code);
    }
    moonlit_model_free(model);
    EXPECT_EQ(allocator.live_blocks(), 0u) << "after request " << n;
  }
}

class OutOfMemory : public testing::TestWithParam<Failing> {};

TEST_P(OutOfMemory, OfNewWhileLoading) {
  const moonlit_model_options options = SmallOptions(2);
  FailAtEach(GetParam(), Leaves::kNothing, [&](moonlit_error* error) {
    moonlit_model* model = nullptr;
    const moonlit_code code = Load(options, &model, error);
    moonlit_model_free(model);
    return code;
  });
}

TEST_P(OutOfMemory, OfNewWhilePlanning) {
  const moonlit_model_options options = SmallOptions(1);
  FailAtEach(GetParam(), Leaves::kNothing, [&](moonlit_error* error) {
    moonlit_memory memory = {};
    memory.size = sizeof memory;
    return moonlit_plan_memory(kModel.c_str(), &options, &memory, error);
  });
}

class OutOfMemoryOfAModel : public testing::Test {
 protected:
  void SetUp() override {
    moonlit_error error = {};
    ASSERT_EQ(Load(SmallOptions(2), &model_, &error), MOONLIT_OK) << error.message;
  }
  void TearDown() override { moonlit_model_free(model_); }
  moonlit_model* model_ = nullptr;
};

// The cache's index keeps blocks for others, and now more, now fewer; so they are counted when the model is gone.
TEST_P(OutOfMemory, OfNewInSessions) {
  const TempFolder folder;
  const std::string path = folder.path() + "/session";
  const std::vector<int32_t> ids = Ids(70);
  moonlit_error error = {};
  int64_t before = 0;
  for (int round = 0; round < 2; ++round) {  // what is made once in a process is there after the first one
    before = LiveBlocks();
    moonlit_model* model = nullptr;
    ASSERT_EQ(Load(SmallOptions(2), &model, &error), MOONLIT_OK) << error.message;
    const auto talk = [&](moonlit_error* fault) { return Talk(model, ids, path.c_str(), fault); };
    if (round == 1) FailAtEach(GetParam(), Leaves::kWhatOthersMayTake, talk);
    EXPECT_EQ(talk(&error), MOONLIT_OK) << "everything works as before: " << error.message;
    moonlit_model_free(model);
  }
  EXPECT_EQ(LiveBlocks(), before);
}

// The session can be used again, and has what it had: where memory is short for a moment. (To take a step back takes some, too.)
TEST_F(OutOfMemoryOfAModel, OfNewInASessionThatLivesOn) {
  const std::vector<int32_t> ids = Ids(70);
  moonlit_error error = {};
  moonlit_session* session = nullptr;
  ASSERT_EQ(moonlit_session_new(model_, &session, &error), MOONLIT_OK);
  const auto keep = [](void* user, size_t, const float* logits, size_t n) {
    std::copy_n(logits, n, static_cast<std::vector<float>*>(user)->data());
  };
  std::vector<float> expected(1024), found(1024);
  ASSERT_EQ(moonlit_eval(session, ids.data(), ids.size(), MOONLIT_OUTPUT_LAST, keep, &expected, &error), MOONLIT_OK);
  for (size_t n = 1;; ++n) {
    ASSERT_EQ(moonlit_session_truncate(session, 0, &error), MOONLIT_OK) << error.message;
    ArmNew(n, Failing::kOnce);
    const moonlit_code code = moonlit_eval(session, ids.data(), ids.size(), MOONLIT_OUTPUT_LAST, keep, &found, &error);
    const bool failed = DisarmNew();
    if (code == MOONLIT_OK) {
      ASSERT_EQ(found, expected);
      if (!failed) break;
      continue;
    }
    ASSERT_EQ(code, MOONLIT_OUT_OF_MEMORY) << error.message;
    ASSERT_EQ(moonlit_session_length(session), 0u) << "as it was";
  }
  moonlit_session_free(session);
}

// An encoder does not go on from a text. Without memory for that answer, too, the model has an answer to the next call.
TEST_P(OutOfMemory, OfNewInAStepThatIsRefused) {
  moonlit_error error = {};
  moonlit_model* model = nullptr;
  const std::string encoder = MOONLIT_SOURCE_DIR "/tests/data/golden/bert/model.gguf";
  moonlit_model_options options = SmallOptions(1);
  options.n_ctx = 128;
  ASSERT_EQ(moonlit_model_load(encoder.c_str(), &options, &model, &error), MOONLIT_OK) << error.message;
  const std::vector<int32_t> ids = {2, 74, 3};
  moonlit_rows rows;
  moonlit_rows_init(&rows, sizeof rows);
  rows.ids = ids.data();
  rows.count = ids.size();
  rows.outputs = MOONLIT_OUTPUT_NONE;
  bool failed = true;
  for (size_t n = 1; failed; ++n) {
    moonlit_session* session = nullptr;
    ASSERT_EQ(moonlit_session_new(model, &session, &error), MOONLIT_OK) << error.message;
    ASSERT_EQ(moonlit_eval_rows(session, &rows, &error), MOONLIT_OK) << error.message;
    ArmNew(n, GetParam());
    const moonlit_code code = moonlit_eval_rows(session, &rows, &error);
    failed = DisarmNew();
    ASSERT_EQ(code, failed ? MOONLIT_OUT_OF_MEMORY : MOONLIT_INVALID_ARGUMENT) << "call " << n << error.message;
    ASSERT_EQ(moonlit_session_length(session), ids.size());
    moonlit_session_free(session);
  }
  moonlit_model_free(model);
}

TEST_P(OutOfMemory, OfNewInTexts) {
  moonlit_model* model = nullptr;
  moonlit_error loading = {};
  ASSERT_EQ(Load(SmallOptions(1), &model, &loading), MOONLIT_OK) << loading.message;
  const std::string text = "The quick brown fox <s>",
                    grammar_text = "root ::= (\"a\" | [b-d] item)*\nitem ::= \"e\"? \"f\"+";
  FailAtEach(GetParam(), Leaves::kNothing, [&](moonlit_error* error) {
    int32_t ids[64];
    char out[256];
    size_t count = 0, length = 0;
    moonlit_code code =
        moonlit_tokenize(model, text.data(), text.size(), MOONLIT_PARSE_SPECIAL, ids, 64, &count, error);
    if (code == MOONLIT_OK) code = moonlit_detokenize(model, ids, count, 1, out, sizeof out, &length, error);
    if (code != MOONLIT_OK) return code;
    moonlit_chat_options options;
    moonlit_chat_options_init(&options, sizeof options);
    options.chat_template = "{% for m in messages %}{{ m.role + ': ' + m.content | trim }}{% endfor %}";
    const moonlit_chat_message message = {"user", text.data(), text.size()};
    code = moonlit_chat_tokenize(model, &message, 1, &options, ids, 64, &count, error);
    if (code != MOONLIT_OK) return code;
    moonlit_grammar* grammar = nullptr;
    code = moonlit_grammar_new(model, grammar_text.data(), grammar_text.size(), nullptr, &grammar, error);
    moonlit_grammar_free(grammar);
    return code;
  });
  moonlit_model_free(model);
}

constexpr char kMessages[] = R"([{"role": "user", "content": "A lake?"}, {"role": "assistant", "tool_calls": [
    {"function": {"name": "look", "arguments": {"where": ["\u00e9", 1, -2.5, null, {"deep": [[[true]]]}]}}}]}])";
constexpr char kTools[] = R"([{"type": "function", "function": {"name": "look", "parameters": {"type": "object",
    "properties": {"where": {"type": "array", "items": {"type": "string"}}}}}}])";
constexpr char kSchema[] = R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
    "kind": {"enum": ["a", {"b": [1.5, "c", []]}]}, "more": {"$ref": "#/$defs/more"}}, "required": ["name"],
    "$defs": {"more": {"type": "array", "items": {"anyOf": [{"const": [[]]}, {"$ref": "#"}]}}}})";

// Values within values, which take the most to be freed.
TEST_P(OutOfMemory, OfNewInJson) {
  moonlit_model* model = nullptr;
  moonlit_error loading = {};
  ASSERT_EQ(Load(SmallOptions(1), &model, &loading), MOONLIT_OK) << loading.message;
  FailAtEach(GetParam(), Leaves::kNothing, [&](moonlit_error* error) {
    moonlit_chat_options options;
    moonlit_chat_options_init(&options, sizeof options);
    options.chat_template = "{{ tools | tojson }}{% for m in messages %}{{ m | tojson }}{% endfor %}{{ given.a[0] }}";
    options.messages_json = kMessages;
    options.tools_json = kTools;
    options.variables_json = R"({"given": {"a": [{"b": {}}], "c": [[], {}]}})";
    char out[1024];
    size_t length = 0;
    moonlit_code code = moonlit_chat_render(model, nullptr, 0, &options, out, sizeof out, &length, error);
    if (code != MOONLIT_OK) return code;
    moonlit_grammar* grammar = nullptr;
    code = moonlit_grammar_new_json(model, kSchema, sizeof kSchema - 1, &grammar, error);
    moonlit_grammar_free(grammar);
    return code;
  });
  moonlit_model_free(model);
}

// config.json, tokenizer.json, the index of two files of tensors and their headers.
TEST_P(OutOfMemory, OfNewWhileAFolderIsLoaded) {
  const TempFolder folder;
  WriteHuggingFaceFolder(MOONLIT_SOURCE_DIR "/tests/data/golden/llama", folder.path(), 2);
  const moonlit_model_options options = SmallOptions(1);
  FailAtEach(GetParam(), Leaves::kNothing, [&](moonlit_error* error) {
    moonlit_model* model = nullptr;
    const moonlit_code code = moonlit_model_load(folder.path().c_str(), &options, &model, error);
    moonlit_model_free(model);
    return code;
  });
}

TEST_P(OutOfMemory, OfNewWhileAFileIsWritten) {
  const TempFolder folder;
  const std::string out = folder.path() + "/out.gguf";
  moonlit_write_options options;
  moonlit_write_options_init(&options, sizeof options);
  options.type = "Q8_0";
  options.threads = 2;
  FailAtEach(GetParam(), Leaves::kNothing, [&](moonlit_error* error) {
    return moonlit_quantize(kModel.c_str(), out.c_str(), &options, nullptr, error);
  });
  EXPECT_EQ(folder.FileCount(), 1u) << "no half-written file";
}

INSTANTIATE_TEST_SUITE_P(Ways, OutOfMemory, kFailings, kFailingName);

}  // namespace
}  // namespace moonlit::test
