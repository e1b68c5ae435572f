// SPDX-License-Identifier: Apache-2.0
// LoRA adapters of sessions through the C interface: files, scales, shared beginnings, forks and session files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "runtime/api/moonlit.hpp"
#include "runtime/gguf/gguf_writer.h"
#include "tests/models/random_adapter.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;

const std::string kModel = MOONLIT_SOURCE_DIR "/tests/data/golden/llama/model.gguf";

std::vector<int32_t> Text(size_t count) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>((5 + i * 71) % 320));
  return tokens;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return !a.empty() && a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class AdapterApi : public testing::Test {
 protected:
  AdapterApi() : model_(LoadModel(1)) {
    const auto source = GgufSource::Open(kModel);
    first_ = Path("first.gguf");
    second_ = Path("second.gguf");
    RandomAdapter(*source.value(), 4, 8, 1).Write(first_, "llama");
    RandomAdapter(*source.value(), 7, 7, 2).Write(second_, "llama");
  }

  static api::Model LoadModel(int share_prefixes) {
    moonlit_model_options options = api::Model::Options();
    options.n_ctx = 256;
    options.max_sessions = 4;
    options.threads = 1;
    options.share_prefixes = share_prefixes;
    auto model = api::Model::Load(kModel, options);
    EXPECT_TRUE(model) << model.error().message;
    return std::move(*model);
  }

  std::string Path(const std::string& name) const { return folder_.path() + "/" + name; }

  // A session of the model with the adapters of these files.
  static api::Session Adapted(api::Model& model, const std::vector<std::string>& paths,
                              const std::vector<float>& scales = {}) {
    auto session = model.NewSession();
    EXPECT_TRUE(session) << session.error().message;
    std::vector<api::Adapter> adapters;  // sessions keep what they need
    std::vector<const moonlit_adapter*> handles;
    for (const std::string& path : paths) {
      auto adapter = model.LoadAdapter(path);
      EXPECT_TRUE(adapter) << adapter.error().message;
      adapters.push_back(std::move(*adapter));
      handles.push_back(adapters.back().handle());
    }
    const api::Error set = session->SetAdapters(handles, scales);
    EXPECT_EQ(set.code, MOONLIT_OK) << set.message;
    return std::move(*session);
  }

  static std::vector<float> Eval(api::Session& session, const std::vector<int32_t>& ids) {
    std::vector<float> last;
    const api::Error error = session.Eval(ids, MOONLIT_OUTPUT_LAST, [&](size_t, std::span<const float> logits) {
      last.assign(logits.begin(), logits.end());
    });
    EXPECT_EQ(error.code, MOONLIT_OK) << error.message;
    return last;
  }

  const TempFolder folder_;
  std::string first_, second_;
  api::Model model_;
};

TEST_F(AdapterApi, ChangesTheLogitsAndTellsWhatItIs) {
  auto adapter = model_.LoadAdapter(first_);
  ASSERT_TRUE(adapter) << adapter.error().message;
  EXPECT_GT(adapter->info().tensors, 7u);
  EXPECT_EQ(adapter->info().alpha, 8.0f);
  EXPECT_GT(adapter->info().bytes, 1000u);
  api::Session plain = Adapted(model_, {}), adapted = Adapted(model_, {first_}), none = Adapted(model_, {first_}, {0});
  const std::vector<float> logits = Eval(plain, Text(20));
  EXPECT_FALSE(SameBits(Eval(adapted, Text(20)), logits));
  EXPECT_TRUE(SameBits(Eval(none, Text(20)), logits));
}

// 150 tokens are two whole blocks, which a session of the same adapters may take and no other.
TEST_F(AdapterApi, BeginningsAreSharedByAdapters) {
  const std::vector<int32_t> text = Text(150);
  const std::vector<std::vector<std::string>> all = {{}, {first_}, {second_}, {first_, second_}, {second_, first_}};
  std::vector<std::vector<float>> expected;
  api::Model unshared = LoadModel(0);
  for (const auto& paths : all) {
    api::Session session = Adapted(unshared, paths);
    expected.push_back(Eval(session, text));
  }
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      api::Session session = Adapted(model_, all[i]);
      EXPECT_TRUE(SameBits(Eval(session, text), expected[i])) << round << " " << i;
    }
  }
}

TEST_F(AdapterApi, ASessionWithTheSameAdapterTakesTheBeginning) {
  auto adapter = model_.LoadAdapter(first_);
  ASSERT_TRUE(adapter) << adapter.error().message;
  const moonlit_adapter* handle = adapter->handle();
  std::vector<size_t> reused;
  for (int i = 0; i < 2; ++i) {
    auto session = model_.NewSession();
    ASSERT_EQ(session->SetAdapters({&handle, 1}).code, MOONLIT_OK);
    moonlit_generate_options options;
    moonlit_generate_options_init(&options, sizeof options);
    options.max_tokens = 1;
    auto result = session->Generate(Text(150), options, {});
    ASSERT_TRUE(result);
    reused.push_back(result->reused_tokens);
  }
  EXPECT_EQ(reused, (std::vector<size_t>{0, 128}));
}

TEST_F(AdapterApi, AForkHasTheAdaptersToo) {
  api::Session session = Adapted(model_, {first_}), whole = Adapted(model_, {first_});
  Eval(session, Text(30));
  auto fork = session.Fork();
  ASSERT_TRUE(fork) << fork.error().message;
  std::vector<int32_t> text = Text(30);
  text.push_back(7);
  EXPECT_TRUE(SameBits(Eval(*fork, {7}), Eval(whole, text)));
  ASSERT_EQ(fork->Truncate(0).code, MOONLIT_OK);
  ASSERT_EQ(whole.Truncate(0).code, MOONLIT_OK);
  EXPECT_TRUE(SameBits(Eval(*fork, Text(9)), Eval(whole, Text(9))));
}

TEST_F(AdapterApi, AFileBelongsToItsAdapters) {
  const std::string file = Path("session");
  api::Session session = Adapted(model_, {first_}, {0.5f});
  Eval(session, Text(70));
  ASSERT_EQ(session.Save(file).code, MOONLIT_OK);
  const std::vector<float> expected = Eval(session, {3});
  // Another load of the same file is the same adapter.
  api::Session same = Adapted(model_, {first_}, {0.5f});
  const api::Error loaded = same.Load(file);
  ASSERT_EQ(loaded.code, MOONLIT_OK) << loaded.message;
  EXPECT_TRUE(SameBits(Eval(same, {3}), expected));
  {
    api::Session other = Adapted(model_, {second_}, {0.5f});
    EXPECT_EQ(other.Load(file).code, MOONLIT_UNSUPPORTED);
  }
  {
    api::Session scaled = Adapted(model_, {first_}, {0.25f});
    EXPECT_EQ(scaled.Load(file).code, MOONLIT_UNSUPPORTED);
  }
  api::Session plain = Adapted(model_, {});
  EXPECT_EQ(plain.Load(file).code, MOONLIT_UNSUPPORTED);
}

TEST_F(AdapterApi, ASessionWithTokensKeepsItsAdapters) {
  api::Session session = Adapted(model_, {first_});
  auto second = model_.LoadAdapter(second_);
  ASSERT_TRUE(second);
  const moonlit_adapter* handle = second->handle();
  Eval(session, Text(3));
  const api::Error refused = session.SetAdapters({&handle, 1});
  EXPECT_EQ(refused.code, MOONLIT_INVALID_ARGUMENT);
  EXPECT_THAT(refused.message, HasSubstr("3 tokens"));
  EXPECT_EQ(session.SetAdapters({}).code, MOONLIT_INVALID_ARGUMENT);
  ASSERT_EQ(session.Truncate(0).code, MOONLIT_OK);
  EXPECT_EQ(session.SetAdapters({&handle, 1}).code, MOONLIT_OK);
  api::Session fresh = Adapted(model_, {second_});
  EXPECT_TRUE(SameBits(Eval(session, Text(9)), Eval(fresh, Text(9))));
}

TEST_F(AdapterApi, RefusesWhatIsNoAdapterOfTheModel) {
  const auto refused = [&](const std::string& path) { return model_.LoadAdapter(path).error(); };
  EXPECT_EQ(refused(Path("missing.gguf")).code, MOONLIT_NOT_FOUND);
  EXPECT_THAT(refused(kModel).message, HasSubstr("expected \"adapter\""));
  struct Case {
    const char *type, *kind, *architecture;
    float alpha;
    moonlit_code code;
    const char* message;
  };
  const Case cases[] = {
      {"model", "lora", "llama", 1, MOONLIT_INVALID_ARGUMENT, "general.type is \"model\""},
      {"adapter", "control_vector", "llama", 1, MOONLIT_UNSUPPORTED, "adapter.type is \"control_vector\""},
      {"adapter", "lora", "qwen2", 1, MOONLIT_INVALID_ARGUMENT, "architecture \"qwen2\", the model's is \"llama\""},
      {"adapter", "lora", "llama", NAN, MOONLIT_CORRUPT, "adapter.lora.alpha"},
      {"adapter", "lora", "llama", INFINITY, MOONLIT_CORRUPT, "adapter.lora.alpha"},
      {"adapter", "lora", "llama", 1, MOONLIT_CORRUPT, "no tensors"},
  };
  for (const Case& c : cases) {
    GgufWriter writer;
    writer.SetString("general.type", c.type);
    writer.SetString("adapter.type", c.kind);
    writer.SetString("general.architecture", c.architecture);
    writer.SetF32("adapter.lora.alpha", c.alpha);
    ASSERT_TRUE(writer.Begin(Path("bad.gguf")).ok());
    ASSERT_TRUE(writer.Finish().ok());
    const api::Error error = refused(Path("bad.gguf"));
    EXPECT_EQ(error.code, c.code) << c.message;
    EXPECT_THAT(error.message, HasSubstr(c.message));
    EXPECT_THAT(error.message, HasSubstr("bad.gguf"));
  }
}

// Every cut of a file is an error, never a crash.
TEST_F(AdapterApi, RefusesCutFiles) {
  const std::string bytes = ReadWholeFile(first_);
  for (size_t size = 0; size < bytes.size(); size += 1 + bytes.size() / 97) {
    const std::string path = folder_.Write("cut.gguf", std::string_view(bytes).substr(0, size));
    EXPECT_FALSE(model_.LoadAdapter(path)) << size << " of " << bytes.size() << " bytes";
  }
}

TEST_F(AdapterApi, RefusesTheAdapterOfAnotherModelObject) {
  api::Model other = LoadModel(1);
  auto adapter = other.LoadAdapter(first_);
  ASSERT_TRUE(adapter);
  const moonlit_adapter* handle = adapter->handle();
  auto session = model_.NewSession();
  EXPECT_EQ(session->SetAdapters({&handle, 1}).code, MOONLIT_INVALID_ARGUMENT);
  const moonlit_adapter* null = nullptr;
  EXPECT_EQ(session->SetAdapters({&null, 1}).code, MOONLIT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace moonlit::test
