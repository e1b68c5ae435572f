// SPDX-License-Identifier: Apache-2.0
// Every pointer of the interface, once as NULL: those that must be given are MOONLIT_INVALID_ARGUMENT, the others are taken as nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/api/moonlit.h"
#include "tests/api/loaded_poet.h"

namespace {

using ::testing::HasSubstr;

class Null : public moonlit::LoadedPoet {
 protected:
  // Calls that must be refused, and which function they are of.
  struct Refused {
    const char* function;
    std::function<moonlit_code(moonlit_error*)> call;
  };

  std::vector<Refused> OfModels();
  std::vector<Refused> OfChats();
  std::vector<Refused> OfSessions();
  std::vector<Refused> OfEvaluations();
  std::vector<Refused> OfFiles();
  std::vector<Refused> OfSamplers();
  std::vector<Refused> All() {
    std::vector<Refused> all;
    for (const auto& list : {OfModels(), OfChats(), OfSessions(), OfEvaluations(), OfFiles(), OfSamplers()}) {
      all.insert(all.end(), list.begin(), list.end());
    }
    return all;
  }

  int32_t ids[8] = {1, 2, 3};
  char text[8] = "text";
  float vector[8] = {};
  size_t count = 0;
};

std::vector<Null::Refused> Null::OfModels() {
  using E = moonlit_error*;
  return {
      {"moonlit_model_load", [this](E e) { return moonlit_model_load(nullptr, nullptr, &model, e); }},
      {"moonlit_model_load", [](E e) { return moonlit_model_load("poet", nullptr, nullptr, e); }},
      {"moonlit_plan_memory",
       [](E e) {
         moonlit_memory memory = {};
         memory.size = sizeof memory;
         return moonlit_plan_memory(nullptr, nullptr, &memory, e);
       }},
      {"moonlit_plan_memory", [](E e) { return moonlit_plan_memory("poet", nullptr, nullptr, e); }},
      {"moonlit_plan_context",
       [](E e) {
         uint32_t n_ctx = 0;
         return moonlit_plan_context(nullptr, nullptr, 1, &n_ctx, e);
       }},
      {"moonlit_plan_context", [](E e) { return moonlit_plan_context("poet", nullptr, 1, nullptr, e); }},
      {"moonlit_tokenize", [this](E e) { return moonlit_tokenize(nullptr, text, 4, 0, ids, 8, &count, e); }},
      {"moonlit_tokenize", [this](E e) { return moonlit_tokenize(model, nullptr, 4, 0, ids, 8, &count, e); }},
      {"moonlit_tokenize", [this](E e) { return moonlit_tokenize(model, text, 4, 0, nullptr, 8, &count, e); }},
      {"moonlit_tokenize", [this](E e) { return moonlit_tokenize(model, text, 4, 0, ids, 8, nullptr, e); }},
      {"moonlit_detokenize", [this](E e) { return moonlit_detokenize(nullptr, ids, 3, 0, text, 8, &count, e); }},
      {"moonlit_detokenize", [this](E e) { return moonlit_detokenize(model, nullptr, 3, 0, text, 8, &count, e); }},
      {"moonlit_detokenize", [this](E e) { return moonlit_detokenize(model, ids, 3, 0, nullptr, 8, &count, e); }},
      {"moonlit_detokenize", [this](E e) { return moonlit_detokenize(model, ids, 3, 0, text, 8, nullptr, e); }},
      {"moonlit_token_bytes", [this](E e) { return moonlit_token_bytes(nullptr, 1, 0, text, 8, &count, e); }},
      {"moonlit_token_bytes", [this](E e) { return moonlit_token_bytes(model, 1, 0, nullptr, 8, &count, e); }},
      {"moonlit_token_bytes", [this](E e) { return moonlit_token_bytes(model, 1, 0, text, 8, nullptr, e); }},
      {"moonlit_token_text", [this](E e) { return moonlit_token_text(nullptr, 1, text, 8, &count, e); }},
      {"moonlit_token_text", [this](E e) { return moonlit_token_text(model, 1, nullptr, 8, &count, e); }},
      {"moonlit_token_text", [this](E e) { return moonlit_token_text(model, 1, text, 8, nullptr, e); }},
  };
}

std::vector<Null::Refused> Null::OfChats() {
  using E = moonlit_error*;
  return {
      {"moonlit_chat_tokenize",
       [this](E e) { return moonlit_chat_tokenize(nullptr, nullptr, 0, nullptr, ids, 8, &count, e); }},
      {"moonlit_chat_tokenize",
       [this](E e) { return moonlit_chat_tokenize(model, nullptr, 1, nullptr, ids, 8, &count, e); }},
      {"moonlit_chat_tokenize",
       [this](E e) { return moonlit_chat_tokenize(model, nullptr, 0, nullptr, nullptr, 8, &count, e); }},
      {"moonlit_chat_tokenize",
       [this](E e) { return moonlit_chat_tokenize(model, nullptr, 0, nullptr, ids, 8, nullptr, e); }},
      {"moonlit_chat_render",
       [this](E e) { return moonlit_chat_render(nullptr, nullptr, 0, nullptr, text, 8, &count, e); }},
      {"moonlit_chat_render",
       [this](E e) { return moonlit_chat_render(model, nullptr, 1, nullptr, text, 8, &count, e); }},
      {"moonlit_chat_render",
       [this](E e) { return moonlit_chat_render(model, nullptr, 0, nullptr, nullptr, 8, &count, e); }},
      {"moonlit_chat_render",
       [this](E e) { return moonlit_chat_render(model, nullptr, 0, nullptr, text, 8, nullptr, e); }},
      {"moonlit_embed", [this](E e) { return moonlit_embed(nullptr, ids, 3, nullptr, vector, 8, &count, e); }},
      {"moonlit_embed", [this](E e) { return moonlit_embed(model, nullptr, 3, nullptr, vector, 8, &count, e); }},
      {"moonlit_embed", [this](E e) { return moonlit_embed(model, ids, 3, nullptr, nullptr, 8, &count, e); }},
      {"moonlit_embed", [this](E e) { return moonlit_embed(model, ids, 3, nullptr, vector, 8, nullptr, e); }},
      {"moonlit_embed",
       [this](E e) {
         moonlit_embed_options options;
         moonlit_embed_options_init(&options, sizeof options);
         options.adapter_count = 1;
         return moonlit_embed(model, ids, 3, &options, vector, 8, &count, e);
       }},
      {"moonlit_grammar_new",
       [this](E e) {
         moonlit_grammar* grammar = nullptr;
         return moonlit_grammar_new(nullptr, text, 4, nullptr, &grammar, e);
       }},
      {"moonlit_grammar_new",
       [this](E e) {
         moonlit_grammar* grammar = nullptr;
         return moonlit_grammar_new(model, nullptr, 4, nullptr, &grammar, e);
       }},
      {"moonlit_grammar_new", [this](E e) { return moonlit_grammar_new(model, text, 4, nullptr, nullptr, e); }},
      {"moonlit_grammar_new_json",
       [this](E e) {
         moonlit_grammar* grammar = nullptr;
         return moonlit_grammar_new_json(nullptr, text, 4, &grammar, e);
       }},
      {"moonlit_grammar_new_json",
       [this](E e) {
         moonlit_grammar* grammar = nullptr;
         return moonlit_grammar_new_json(model, nullptr, 4, &grammar, e);
       }},
      {"moonlit_grammar_new_json", [this](E e) { return moonlit_grammar_new_json(model, text, 4, nullptr, e); }},
      {"moonlit_adapter_load",
       [](E e) {
         moonlit_adapter* adapter = nullptr;
         return moonlit_adapter_load(nullptr, "adapter.gguf", &adapter, e);
       }},
      {"moonlit_adapter_load",
       [this](E e) {
         moonlit_adapter* adapter = nullptr;
         return moonlit_adapter_load(model, nullptr, &adapter, e);
       }},
      {"moonlit_adapter_load", [this](E e) { return moonlit_adapter_load(model, "adapter.gguf", nullptr, e); }},
      {"moonlit_model_metadata", [this](E e) { return moonlit_model_metadata(nullptr, "key", text, 8, &count, e); }},
      {"moonlit_model_metadata", [this](E e) { return moonlit_model_metadata(model, nullptr, text, 8, &count, e); }},
      {"moonlit_model_metadata", [this](E e) { return moonlit_model_metadata(model, "key", nullptr, 8, &count, e); }},
      {"moonlit_model_metadata", [this](E e) { return moonlit_model_metadata(model, "key", text, 8, nullptr, e); }},
      {"moonlit_session_new",
       [](E e) {
         moonlit_session* made = nullptr;
         return moonlit_session_new(nullptr, &made, e);
       }},
      {"moonlit_session_new", [this](E e) { return moonlit_session_new(model, nullptr, e); }},
  };
}

std::vector<Null::Refused> Null::OfSessions() {
  using E = moonlit_error*;
  return {
      {"moonlit_session_truncate", [](E e) { return moonlit_session_truncate(nullptr, 0, e); }},
      {"moonlit_session_drop", [](E e) { return moonlit_session_drop(nullptr, 0, 0, e); }},
      {"moonlit_session_fork",
       [](E e) {
         moonlit_session* fork = nullptr;
         return moonlit_session_fork(nullptr, &fork, e);
       }},
      {"moonlit_session_fork", [this](E e) { return moonlit_session_fork(session, nullptr, e); }},
      {"moonlit_session_save", [](E e) { return moonlit_session_save(nullptr, "file", e); }},
      {"moonlit_session_save", [this](E e) { return moonlit_session_save(session, nullptr, e); }},
      {"moonlit_session_load", [](E e) { return moonlit_session_load(nullptr, "file", 0, e); }},
      {"moonlit_session_load", [this](E e) { return moonlit_session_load(session, nullptr, 0, e); }},
      {"moonlit_session_saved_bytes",
       [](E e) {
         uint64_t bytes = 0;
         return moonlit_session_saved_bytes(nullptr, &bytes, e);
       }},
      {"moonlit_session_saved_bytes", [this](E e) { return moonlit_session_saved_bytes(session, nullptr, e); }},
      {"moonlit_session_write",
       [](E e) {
         return moonlit_session_write(
             nullptr, [](void*, const void*, size_t) { return 0; }, nullptr, e);
       }},
      {"moonlit_session_write", [this](E e) { return moonlit_session_write(session, nullptr, nullptr, e); }},
      {"moonlit_session_read",
       [](E e) {
         return moonlit_session_read(
             nullptr, [](void*, void*, size_t) { return 0; }, nullptr, 0, e);
       }},
      {"moonlit_session_read", [this](E e) { return moonlit_session_read(session, nullptr, nullptr, 0, e); }},
  };
}

std::vector<Null::Refused> Null::OfEvaluations() {
  using E = moonlit_error*;
  return {
      {"moonlit_eval", [this](E e) { return moonlit_eval(nullptr, ids, 3, MOONLIT_OUTPUT_NONE, nullptr, nullptr, e); }},
      {"moonlit_eval",
       [this](E e) { return moonlit_eval(session, nullptr, 3, MOONLIT_OUTPUT_NONE, nullptr, nullptr, e); }},
      {"moonlit_eval_rows",
       [](E e) {
         moonlit_rows rows;
         moonlit_rows_init(&rows, sizeof rows);
         return moonlit_eval_rows(nullptr, &rows, e);
       }},
      {"moonlit_eval_rows", [this](E e) { return moonlit_eval_rows(session, nullptr, e); }},
      {"moonlit_eval_rows",
       [this](E e) {
         moonlit_rows rows;
         moonlit_rows_init(&rows, sizeof rows);
         rows.count = 1;
         return moonlit_eval_rows(session, &rows, e);
       }},
      {"moonlit_step",
       [](E e) {
         moonlit_rows rows;
         moonlit_rows_init(&rows, sizeof rows);
         const moonlit_rows* const list[] = {&rows};
         return moonlit_step(nullptr, list, 1, e);
       }},
      {"moonlit_step", [this](E e) { return moonlit_step(&session, nullptr, 1, e); }},
      {"moonlit_step",
       [this](E e) {
         const moonlit_rows* const list[] = {nullptr};
         return moonlit_step(&session, list, 1, e);
       }},
      {"moonlit_generate", [this](E e) { return moonlit_generate(nullptr, ids, 3, nullptr, nullptr, e); }},
      {"moonlit_generate", [this](E e) { return moonlit_generate(session, nullptr, 3, nullptr, nullptr, e); }},
      {"moonlit_generate",
       [this](E e) {
         moonlit_generate_options options;
         moonlit_generate_options_init(&options, sizeof options);
         options.stop_count = 1;
         return moonlit_generate(session, ids, 3, &options, nullptr, e);
       }},
      {"moonlit_generate",
       [this](E e) {
         moonlit_generate_options options;
         moonlit_generate_options_init(&options, sizeof options);
         const char* const stops[] = {nullptr};
         options.stop = stops;
         options.stop_count = 1;
         return moonlit_generate(session, ids, 3, &options, nullptr, e);
       }},
      {"moonlit_perplexity",
       [this](E e) {
         moonlit_perplexity_result result = {};
         result.size = sizeof result;
         return moonlit_perplexity(nullptr, ids, 3, 2, nullptr, nullptr, &result, e);
       }},
      {"moonlit_perplexity",
       [this](E e) {
         moonlit_perplexity_result result = {};
         result.size = sizeof result;
         return moonlit_perplexity(session, nullptr, 3, 2, nullptr, nullptr, &result, e);
       }},
      {"moonlit_perplexity",
       [this](E e) { return moonlit_perplexity(session, ids, 3, 2, nullptr, nullptr, nullptr, e); }},
      {"moonlit_perplexity_with",
       [this](E e) {
         moonlit_perplexity_result result = {};
         result.size = sizeof result;
         return moonlit_perplexity_with(nullptr, ids, 3, nullptr, &result, e);
       }},
      {"moonlit_perplexity_with",
       [this](E e) { return moonlit_perplexity_with(session, ids, 3, nullptr, nullptr, e); }},
      {"moonlit_session_set_taps", [](E e) { return moonlit_session_set_taps(nullptr, nullptr, e); }},
      {"moonlit_session_set_adapters",
       [](E e) { return moonlit_session_set_adapters(nullptr, nullptr, nullptr, 0, e); }},
      {"moonlit_session_set_adapters",
       [this](E e) { return moonlit_session_set_adapters(session, nullptr, nullptr, 1, e); }},
      {"moonlit_session_set_adapters",
       [this](E e) {
         const moonlit_adapter* const adapters[] = {nullptr};
         return moonlit_session_set_adapters(session, adapters, nullptr, 1, e);
       }},
  };
}

std::vector<Null::Refused> Null::OfFiles() {
  using E = moonlit_error*;
  return {
      {"moonlit_quantize", [](E e) { return moonlit_quantize(nullptr, "out.gguf", nullptr, nullptr, e); }},
      {"moonlit_quantize", [](E e) { return moonlit_quantize("in.gguf", nullptr, nullptr, nullptr, e); }},
      {"moonlit_convert", [](E e) { return moonlit_convert(nullptr, "out.gguf", nullptr, nullptr, e); }},
      {"moonlit_convert", [](E e) { return moonlit_convert("folder", nullptr, nullptr, nullptr, e); }},
      {"moonlit_check_output", [](E e) { return moonlit_check_output(nullptr, nullptr, 0, e); }},
      {"moonlit_check_output", [](E e) { return moonlit_check_output("out", nullptr, 1, e); }},
      {"moonlit_check_output",
       [](E e) {
         const char* const inputs[] = {nullptr};
         return moonlit_check_output("out", inputs, 1, e);
       }},
  };
}

std::vector<Null::Refused> Null::OfSamplers() {
  using E = moonlit_error*;
  return {
      {"moonlit_sampler_new",
       [](E e) {
         moonlit_sampler* made = nullptr;
         return moonlit_sampler_new(nullptr, 1, &made, e);
       }},
      {"moonlit_sampler_new", [this](E e) { return moonlit_sampler_new(model, 1, nullptr, e); }},
      {"moonlit_sampler_append",
       [](E e) {
         moonlit_sampler_step step;
         moonlit_sampler_step_init(&step, sizeof step);
         step.kind = MOONLIT_SAMPLER_GREEDY;
         return moonlit_sampler_append(nullptr, &step, e);
       }},
      {"moonlit_sampler_append", [this](E e) { return moonlit_sampler_append(sampler, nullptr, e); }},
      {"moonlit_sampler_apply", [this](E e) { return moonlit_sampler_apply(nullptr, vector, 8, ids, e); }},
      {"moonlit_sampler_apply", [this](E e) { return moonlit_sampler_apply(sampler, nullptr, 8, ids, e); }},
      {"moonlit_sampler_apply", [this](E e) { return moonlit_sampler_apply(sampler, vector, 8, nullptr, e); }},
      {"moonlit_sampler_accept", [](E e) { return moonlit_sampler_accept(nullptr, 1, e); }},
      {"moonlit_sampler_accept_prompt", [this](E e) { return moonlit_sampler_accept_prompt(nullptr, ids, 3, e); }},
      {"moonlit_sampler_accept_prompt", [this](E e) { return moonlit_sampler_accept_prompt(sampler, nullptr, 3, e); }},
      {"moonlit_sampler_reset", [](E e) { return moonlit_sampler_reset(nullptr, 1, e); }},
      {"moonlit_sampler_clone",
       [](E e) {
         moonlit_sampler* made = nullptr;
         return moonlit_sampler_clone(nullptr, &made, e);
       }},
      {"moonlit_sampler_clone", [this](E e) { return moonlit_sampler_clone(sampler, nullptr, e); }},
  };
}

TEST_F(Null, IsRefusedWhereSomethingMustBeGiven) {
  const std::vector<Refused> all = All();
  for (size_t i = 0; i < all.size(); ++i) {
    moonlit_error error = {};
    EXPECT_EQ(all[i].call(&error), MOONLIT_INVALID_ARGUMENT) << all[i].function << ", case " << i;
    EXPECT_EQ(error.code, MOONLIT_INVALID_ARGUMENT);
    EXPECT_THAT(error.message, testing::AnyOf(HasSubstr("must not be NULL"), HasSubstr("neither ids nor embeddings")))
        << all[i].function << ", case " << i;
    EXPECT_EQ(all[i].call(nullptr), MOONLIT_INVALID_ARGUMENT) << "without an error to fill";
  }
  EXPECT_EQ(moonlit_session_length(session), 0u) << "and nothing has happened";
}

// Functions that have no code, with NULL everywhere.
TEST_F(Null, IsNothingForFunctionsWithoutACode) {
  moonlit_model_free(nullptr);
  moonlit_session_free(nullptr);
  moonlit_adapter_free(nullptr);
  moonlit_grammar_free(nullptr);
  moonlit_sampler_free(nullptr);
  moonlit_session_cancel(nullptr);
  moonlit_sampler_cancel(nullptr);
  moonlit_model_options_init(nullptr, 0);
  moonlit_generate_options_init(nullptr, 0);
  moonlit_chat_options_init(nullptr, 0);
  moonlit_embed_options_init(nullptr, 0);
  moonlit_perplexity_options_init(nullptr, 0);
  moonlit_write_options_init(nullptr, 0);
  moonlit_rows_init(nullptr, 0);
  moonlit_taps_init(nullptr, 0);
  moonlit_sampler_step_init(nullptr, 0);
  moonlit_model_get_info(model, nullptr);
  moonlit_model_memory(model, nullptr);
  moonlit_adapter_get_info(nullptr, nullptr);
  moonlit_model_info info = {};
  info.size = sizeof info;
  moonlit_model_get_info(nullptr, &info);
  EXPECT_EQ(info.n_vocab, 0u);
  moonlit_memory memory = {};
  memory.size = sizeof memory;
  moonlit_model_memory(nullptr, &memory);
  EXPECT_EQ(memory.total, 0u);
  EXPECT_EQ(moonlit_session_length(nullptr), 0u);
  EXPECT_EQ(moonlit_session_tokens(nullptr, ids, 8), 0u);
  moonlit_error error = {};
  ASSERT_EQ(moonlit_eval(session, ids, 3, MOONLIT_OUTPUT_LAST, nullptr, nullptr, &error), MOONLIT_OK) << error.message;
  EXPECT_EQ(moonlit_session_tokens(session, nullptr, 8), 3u);
  EXPECT_EQ(moonlit_token_is_end(nullptr, 1), 0);
  EXPECT_EQ(moonlit_token_begin(nullptr), -1);
  EXPECT_EQ(moonlit_token_special(nullptr, MOONLIT_SPECIAL_BOS), -1);
  EXPECT_EQ(moonlit_chat_template(nullptr), nullptr);
  EXPECT_EQ(moonlit_model_metadata_count(nullptr), 0u);
  EXPECT_EQ(moonlit_model_metadata_key(nullptr, 0), nullptr);
}

// A function that is new comes here too.
TEST_F(Null, EveryFunctionOfTheInterfaceIsHere) {
  std::set<std::string> tested = {"moonlit_version", "moonlit_remove_unfinished_files"};  // take none
  for (const Refused& refused : All()) tested.insert(refused.function);
  std::ifstream symbols(MOONLIT_SOURCE_DIR "/runtime/api/symbols.txt"),
      self(MOONLIT_SOURCE_DIR "/tests/api/null_test.cc");
  ASSERT_TRUE(symbols && self);
  std::stringstream text_of_this;
  text_of_this << self.rdbuf();
  const std::string source = text_of_this.str();
  const size_t without_code = source.find("IsNothingForFunctionsWithoutACode");
  ASSERT_NE(without_code, std::string::npos);
  for (std::string line; std::getline(symbols, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::string name = line.substr(0, line.find(' '));
    const bool called = source.find(name + "(", without_code) != std::string::npos;
    EXPECT_TRUE(tested.count(name) != 0 || called) << name;
  }
}

}  // namespace
