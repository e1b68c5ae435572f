// SPDX-License-Identifier: Apache-2.0
// Fields that a config.json leaves out mean what they mean in transformers, or are asked for by name.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "models/common/hugging_face.h"
#include "nlohmann/json.hpp"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using Json = nlohmann::json;

const std::string kData = MOONLIT_SOURCE_DIR "/tests/data/";

Result<MappedModel> Map(const Json& config) {
  return MapHuggingFace(ParseJson(config.dump()).value(), {"lm_head.weight"});
}

// A key that says what its absence says is as if it were absent.
std::map<std::string, MetadataMap::Value> Meaning(const MetadataMap& metadata) {
  std::map<std::string, MetadataMap::Value> meaning(metadata.entries().begin(), metadata.entries().end());
  const std::string architecture = metadata.GetString("general.architecture").value();
  const std::pair<const char*, float> neutral[] = {{".rope.freq_base", 10000.0f},
                                                   {".rope.freq_base_swa", 10000.0f},
                                                   {".embedding_scale", 1.0f},
                                                   {".residual_scale", 1.0f},
                                                   {".logit_scale", 1.0f}};
  for (const auto& [key, value] : neutral) {
    const auto found = meaning.find(architecture + key);
    if (found != meaning.end() && found->second == MetadataMap::Value(value)) meaning.erase(found);
  }
  return meaning;
}

void ExpectSame(const Json& absent, const Json& stated, const std::string& which) {
  const auto found = Map(absent), expected = Map(stated);
  // Asked for, which is never wrong.
  if (found.status().code() == Code::kCorrupt && found.status().message().find("has no ") != std::string_view::npos)
    return;
  ASSERT_EQ(found.status().ToString(), expected.status().ToString()) << which;
  if (!found.ok()) return;
  EXPECT_TRUE(Meaning(found->metadata) == Meaning(expected->metadata)) << which;
  EXPECT_EQ(found->tensors.size(), expected->tensors.size()) << which;
  ASSERT_EQ(found->made.size(), expected->made.size()) << which;
  for (size_t i = 0; i < found->made.size(); ++i) EXPECT_EQ(found->made[i].values, expected->made[i].values) << which;
}

// Once without each field, once with its class's default, for every family.
TEST(HuggingFaceDefaults, AreThoseOfTransformers) {
  const Json defaults = Json::parse(ReadWholeFile(kData + "hugging_face_defaults.json"));
  size_t families = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kData + "golden")) {
    const std::string golden = entry.path().filename().string();
    const Json config =
        Json::parse(ReadWholeFile(entry.path().string() + "/golden.json")).value("hf_config", Json::object());
    const auto fields = defaults.find(config.value("model_type", ""));
    if (fields == defaults.end() || !Map(config).ok()) continue;
    ++families;
    for (const auto& [field, value] : fields->items()) {
      // Beside the kind of RoPE it counts here, too; Phi-3's class passes that over.
      if (field == "original_max_position_embeddings" && config["rope_parameters"].contains(field)) continue;
      Json absent = config, stated = config;
      absent.erase(field);
      stated[field] = value;
      ExpectSame(absent, stated, golden + " " + field);
      if (field != "rope_theta" || !config.contains("rope_parameters")) continue;
      absent["rope_parameters"].erase(field);
      stated["rope_parameters"][field] = value;
      ExpectSame(absent, stated, golden + " rope_parameters." + field);
    }
  }
  EXPECT_GE(families, 40u);
}

// Where releases of transformers differ, a config has to say it; null is a value where a class takes it for one.
TEST(HuggingFaceDefaults, AreAskedForWhereReleasesDiffer) {
  const auto without = [](const char* golden, const char* field, const Json& value) {
    Json config = Json::parse(ReadWholeFile(kData + "golden/" + golden + "/golden.json"))["hf_config"];
    config.erase("rope_parameters");
    config.erase(field);
    if (!value.is_null()) config.update(value);
    return Map(config);
  };
  const auto asked = without("command-r", "rope_theta", nullptr);
  EXPECT_EQ(asked.status().code(), Code::kCorrupt);
  EXPECT_NE(asked.status().message().find("has no rope_theta"), std::string_view::npos) << asked.status().ToString();
  EXPECT_TRUE(without("command-r", "none", {{"rope_theta", 8e6}}).ok());
  EXPECT_TRUE(without("command-r", "none", {{"rope_parameters", {{"rope_theta", 8e6}}}}).ok());
  EXPECT_EQ(without("mistral", "sliding_window", nullptr)->metadata.GetUint("llama.attention.sliding_window").value(),
            4096u);
  EXPECT_FALSE(without("mistral", "none", nullptr)->metadata.Has("llama.attention.sliding_window"));
  const char* cap = "gemma2.attn_logit_softcapping";
  EXPECT_EQ(without("gemma2", "attn_logit_softcapping", nullptr)->metadata.GetFloat(cap).value(), 50);
  EXPECT_FALSE(without("gemma2", "none", {{"attn_logit_softcapping", nullptr}})->metadata.Has(cap));
}

}  // namespace
}  // namespace moonlit
