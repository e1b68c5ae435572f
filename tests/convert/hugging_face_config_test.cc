// SPDX-License-Identifier: Apache-2.0
// What config.json says is computed or refused by name: settings of every family, windows, RoPE.
#include <gtest/gtest.h>

#include <filesystem>

#include "models/common/hugging_face.h"
#include "nlohmann/json.hpp"
#include "runtime/convert/hugging_face.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/hugging_face_folder.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

const std::string kGolden = MOONLIT_SOURCE_DIR "/tests/data/golden/";

Result<MappedModel> MapHuggingFace(const nlohmann::json& config, const std::vector<std::string>& names) {
  return moonlit::MapHuggingFace(ParseJson(config.dump()).value(), names);
}

// A folder with one file changed.
Status WithFile(const std::string& name, const std::string& text, const std::string& pre = "") {
  const TempFolder folder;
  WriteHuggingFaceFolder(kGolden + "qwen2", folder.path());
  folder.Write(name, text);
  return OpenHuggingFace(folder.path(), pre).status();
}

TEST(HuggingFace, RefusesConfigsThatItCannotCompute) {
  const auto golden = nlohmann::json::parse(ReadWholeFile(kGolden + "qwen2/golden.json"));
  const auto with = [&](const char* field, const nlohmann::json& value) {
    nlohmann::json config = golden["hf_config"];
    config.erase("layer_types");  // which would have to agree with the number of layers
    config[field] = value;
    return WithFile("config.json", config.dump());
  };
  EXPECT_TRUE(with("hidden_act", "silu").ok());
  for (const Status& status :
       {with("architectures", {"MysteryForCausalLM"}), with("hidden_act", "gelu"), with("use_sliding_window", true),
        with("rope_parameters", {{"rope_type", "longrope"}}), with("partial_rotary_factor", 0.5),
        with("rope_parameters", {{"rope_type", "yarn"}, {"factor", 4.0}, {"attention_factor", 3.0}}),
        with("rope_parameters", {{"rope_type", "yarn"}, {"factor", 4.0}, {"mscale", 0.7}}),
        with("rope_parameters", {{"rope_type", "yarn"}, {"factor", 4.0}, {"truncate", false}})}) {
    EXPECT_EQ(status.code(), Code::kUnsupported) << status.ToString();
  }
  EXPECT_TRUE(with("rope_parameters", {{"rope_type", "yarn"}, {"factor", 4.0}, {"attention_factor", 1.1386294}}).ok());
  EXPECT_NE(with("architectures", {"MysteryForCausalLM"}).message().find("Qwen2ForCausalLM"), std::string_view::npos);
  for (const Status& status :
       {with("num_hidden_layers", -2), with("num_hidden_layers", "2"), with("hidden_size", nullptr),
        with("num_attention_heads", 0), with("rms_norm_eps", "small"), with("hidden_size", 1e30),
        with("rope_parameters", {{"rope_theta", -1}}), with("tie_word_embeddings", "yes"),
        with("num_experts", 30000000), WithFile("config.json", "[1"), WithFile("config.json", "7"),
        WithFile("tokenizer.json", "{}x"), WithFile("tokenizer.json", "")}) {
    EXPECT_EQ(status.code(), Code::kCorrupt) << status.ToString();
  }
  // Tensors of layers that the config does not count have no place.
  EXPECT_EQ(with("num_hidden_layers", 1).code(), Code::kUnsupported);
}

// What a family's own keys say beside the usual ones.
TEST(HuggingFace, RefusesWhatFamiliesHaveNotInGguf) {
  const auto map = [&](const std::string& name, const char* field, const nlohmann::json& value) {
    nlohmann::json config = nlohmann::json::parse(ReadWholeFile(kGolden + name + "/golden.json"))["hf_config"];
    config[field] = value;
    return MapHuggingFace(config, {}).status();
  };
  for (const Status& status :
       {map("arcee", "hidden_act", "silu"), map("phi2", "hidden_act", "gelu"), map("phi2", "qk_layernorm", true),
        map("nemotron", "hidden_act", "silu"),
        map("cohere2", "layer_types", {"full_attention", "full_attention", "full_attention", "full_attention"}),
        map("cohere2", "rotary_pct", 0.5), map("phi3", "hidden_act", "gelu"),
        map("mistral", "rope_parameters", {{"rope_type", "longrope"}}),
        map("command-r", "partial_rotary_factor", 0.5)}) {
    EXPECT_EQ(status.code(), Code::kUnsupported) << status.ToString();
  }
  for (const Status& status :
       {map("glm4", "partial_rotary_factor", 0), map("glm4", "partial_rotary_factor", 1.5),
        map("stablelm", "partial_rotary_factor", "half"), map("command-r", "logit_scale", nullptr),
        map("cohere2", "sliding_window", -1), map("cohere2", "layer_types", "all"),
        map("nemotron", "norm_eps", nullptr), map("olmo", "clip_qkv", "much")}) {
    EXPECT_EQ(status.code(), Code::kCorrupt) << status.ToString();
  }
  // As older configs have it: the period of the layers, and what turns only inside RoPE's parameters.
  EXPECT_TRUE(map("cohere2", "layer_types", nullptr).ok());
  EXPECT_TRUE(map("glm4", "partial_rotary_factor", nullptr).ok());
}

Result<MappedModel> MapWith(const char* golden, const nlohmann::json& changes) {
  nlohmann::json config = nlohmann::json::parse(ReadWholeFile(kGolden + golden + "/golden.json"))["hf_config"];
  if (changes.is_object()) config.update(changes);
  return MapHuggingFace(nlohmann::json::parse(config.dump()), {});
}

void ExpectNamed(const Result<MappedModel>& refused, Code code, const char* field) {
  EXPECT_EQ(refused.status().code(), code) << field;
  EXPECT_NE(refused.status().message().find(field), std::string_view::npos) << refused.status().ToString();
}

TEST(HuggingFace, WindowsAreKeysOrRefused) {
  const std::string full = "full_attention", sliding = "sliding_attention";
  for (const char* family : {"mistral", "mixtral"}) {
    const auto mapped = MapWith(family, {{"sliding_window", 32}});
    ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
    EXPECT_EQ(mapped->metadata.GetUint("llama.attention.sliding_window").value(), 32u);
    EXPECT_FALSE(MapWith(family, {{"sliding_window", nullptr}})->metadata.Has("llama.attention.sliding_window"));
    ExpectNamed(MapWith(family, {{"sliding_window", 32}, {"layer_types", {sliding, full}}}), Code::kUnsupported,
                "layer_types");
    ExpectNamed(MapWith(family, {{"sliding_window", "wide"}}), Code::kCorrupt, "sliding_window");
  }
  ExpectNamed(MapWith("qwen2", {{"layer_types", {full, sliding}}}), Code::kUnsupported, "layer_types");
  ExpectNamed(MapWith("qwen2", {{"layer_types", {full, "linear_attention"}}}), Code::kUnsupported, "linear_attention");
  ExpectNamed(MapWith("qwen2", {{"layer_types", {full}}}), Code::kCorrupt, "layer_types");
  ExpectNamed(MapWith("qwen2", {{"layer_types", 7}}), Code::kCorrupt, "layer_types");
}

TEST(HuggingFace, GemmasLayersAreAsTheConfigSays) {
  const std::string full = "full_attention", sliding = "sliding_attention";
  const auto pattern = [](const Result<MappedModel>& mapped, const std::string& prefix) {
    EXPECT_TRUE(mapped.ok()) << mapped.status().ToString();
    const auto flags = mapped->metadata.GetInts(prefix + ".attention.sliding_window_pattern");
    return flags.ok() ? *flags : std::vector<int64_t>();
  };
  using Flags = std::vector<int64_t>;
  EXPECT_EQ(pattern(MapWith("gemma2", {}), "gemma2"), Flags());
  EXPECT_EQ(pattern(MapWith("gemma2", {{"layer_types", nullptr}}), "gemma2"), Flags());
  EXPECT_EQ(pattern(MapWith("gemma2", {{"layer_types", {full, full, sliding}}}), "gemma2"), Flags({0, 0, 1}));
  EXPECT_EQ(pattern(MapWith("gemma3", {{"layer_types", nullptr}}), "gemma3"), Flags());
  for (const char* field : {"sliding_window_pattern", "_sliding_window_pattern"}) {
    const nlohmann::json changes = {{"layer_types", nullptr}, {"_sliding_window_pattern", nullptr}, {field, 3}};
    nlohmann::json last = changes;
    last[field] = 3;
    EXPECT_EQ(pattern(MapWith("gemma3", last), "gemma3"), Flags({1, 1, 0, 1, 1, 0})) << field;
  }
}

// What models/arch/gemma.cc divides by: in the 27Bs, which it knows by their layers, not the size of a head.
TEST(HuggingFace, GemmasScalesAreTheOnesComputed) {
  const auto scalar = [](const char* family, int layers, double value) {
    return MapWith(family, {{"num_hidden_layers", layers},
                            {"layer_types", nullptr},
                            {"hidden_size", 4608},
                            {"num_attention_heads", 32},
                            {"head_dim", 128},
                            {"query_pre_attn_scalar", value}});
  };
  for (const auto& [family, largest] : {std::pair{"gemma2", 46}, std::pair{"gemma3", 62}}) {
    EXPECT_TRUE(scalar(family, largest, 144).ok()) << scalar(family, largest, 144).status().ToString();
    ExpectNamed(scalar(family, largest, 128), Code::kUnsupported, "query_pre_attn_scalar");
    EXPECT_TRUE(scalar(family, largest - 1, 128).ok());
    ExpectNamed(scalar(family, largest - 1, 144), Code::kUnsupported, "query_pre_attn_scalar");
  }
}

TEST(HuggingFace, LayersWithoutRopeAreTheUsualOnesOrRefused) {
  EXPECT_TRUE(MapWith("smollm3", {{"no_rope_layers", {1, 1, 1, 0}}}).ok());
  ExpectNamed(MapWith("smollm3", {{"no_rope_layers", {1, 0, 1, 0}}}), Code::kUnsupported, "no_rope_layers");
  ExpectNamed(MapWith("smollm3", {{"no_rope_layers", "all"}}), Code::kUnsupported, "no_rope_layers");
  ExpectNamed(MapWith("smollm3", {{"no_rope_layers", nullptr}, {"no_rope_layer_interval", 2}}), Code::kUnsupported,
              "no_rope_layer_interval");
}

TEST(HuggingFace, RopeFieldsOfAnotherKindAreNotPassedOver) {
  using Json = nlohmann::json;
  const auto rope = [](const Json& value) { return MapWith("qwen2", {{"rope_parameters", value}}); };
  ExpectNamed(rope(7), Code::kCorrupt, "rope_parameters");
  ExpectNamed(rope(Json::array()), Code::kCorrupt, "rope_parameters");
  ExpectNamed(MapWith("qwen2", {{"rope_scaling", "linear"}}), Code::kCorrupt, "rope_scaling");
  ExpectNamed(rope({{"rope_type", 4}}), Code::kCorrupt, "rope_type");
  ExpectNamed(rope({{"type", Json::array()}}), Code::kCorrupt, "type");
  ExpectNamed(rope({{"rope_theta", "1e6"}}), Code::kCorrupt, "rope_theta");
  ExpectNamed(rope({{"partial_rotary_factor", 0.5}}), Code::kUnsupported, "partial_rotary_factor");
  ExpectNamed(rope({{"full_attention", 1}}), Code::kCorrupt, "full_attention");
  const auto sliding = [&](const Json& value) {
    return MapWith("gemma3", {{"rope_parameters", {{"full_attention", Json::object()}, {"sliding_attention", value}}}});
  };
  EXPECT_TRUE(sliding({{"rope_theta", 5000.0}}).ok());
  ExpectNamed(sliding(Json::array()), Code::kCorrupt, "sliding_attention");
  ExpectNamed(sliding({{"rope_theta", "x"}}), Code::kCorrupt, "rope_theta");
  ExpectNamed(sliding({{"rope_theta", 5000.0}, {"rope_type", "linear"}}), Code::kUnsupported, "sliding_attention");
}

// Families whose files say that nothing is stretched say so only where the config does not stretch.
TEST(HuggingFace, FamiliesKeepTheConfigsScaling) {
  struct Case {
    const char* golden;
    const char* architecture;
    const char* plain;
  };
  for (const Case& c : {Case{"command-r", "command-r", "none"}, Case{"cohere2", "cohere2", "none"},
                        Case{"nemotron", "nemotron", "none"}, Case{"bitnet", "bitnet", "linear"},
                        Case{"bitnet-b158", "bitnet-b1.58", "linear"}}) {
    const std::string scaling = std::string(c.architecture) + ".rope.scaling.";
    EXPECT_EQ(MapWith(c.golden, {})->metadata.GetString(scaling + "type").value(), c.plain);
    for (const char* type : {"linear", "yarn"}) {
      const auto mapped =
          MapWith(c.golden, {{"rope_parameters", {{"rope_type", type}, {"factor", 4.0}, {"rope_theta", 1e4}}}});
      ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
      EXPECT_EQ(mapped->metadata.GetString(scaling + "type").value(), type) << c.golden;
      EXPECT_EQ(mapped->metadata.GetFloat(scaling + "factor").value(), 4.0) << c.golden;
    }
    ExpectNamed(MapWith(c.golden, {{"rope_parameters", {{"rope_type", "dynamic"}, {"rope_theta", 1e4}}}}),
                Code::kUnsupported, "dynamic");
  }
}

// Where the original length stands does not matter: which factors are bound and how much cos and sin grow follow from one number.
TEST(HuggingFace, LongRopesOriginalLengthIsOneNumber) {
  const auto golden = nlohmann::json::parse(ReadWholeFile(kGolden + "phi3-long/golden.json"))["hf_config"];
  const auto map = [&](const nlohmann::json& top, const nlohmann::json& inside,
                       const nlohmann::json& factor = nullptr) {
    nlohmann::json rope = golden["rope_parameters"];
    rope["original_max_position_embeddings"] = inside;
    rope["factor"] = factor;
    return MapWith("phi3-long", {{"rope_parameters", rope}, {"original_max_position_embeddings", top}});
  };
  const std::string scaling = "phi3.rope.scaling.";
  const double grown = map(32, 32)->metadata.GetFloat(scaling + "attn_factor").value();
  EXPECT_GT(grown, 1.0);
  for (const auto& mapped : {map(32, 32), map(32, nullptr), map(nullptr, 32), map(nullptr, 32.0), map(32, 64)}) {
    ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
    EXPECT_EQ(mapped->metadata.GetUint(scaling + "original_context_length").value(), 32u);
    EXPECT_EQ(mapped->metadata.GetFloat(scaling + "attn_factor").value(), grown);
  }
  EXPECT_EQ(map(nullptr, nullptr)->metadata.GetUint(scaling + "original_context_length").value(), 256u);
  EXPECT_EQ(map(nullptr, nullptr)->metadata.GetFloat(scaling + "attn_factor").value(), 1.0);
  EXPECT_GT(map(32, 32, 64.0)->metadata.GetFloat(scaling + "attn_factor").value(), grown);
  for (const double inside : {1e30, 2147483648.0, 0.5})
    ExpectNamed(map(nullptr, inside), Code::kCorrupt, "original_max_position_embeddings");
  ExpectNamed(map(1e30, 32), Code::kCorrupt, "original_max_position_embeddings");
  ExpectNamed(
      MapWith("llama-yarn", {{"rope_parameters",
                              {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1e30}}}}),
      Code::kCorrupt, "original_max_position_embeddings");
}

// A stretch by 1, or by the numbers of one model of Llama's, is not what its absence means.
TEST(HuggingFace, KindsOfRopeAskForTheirNumbers) {
  for (const char* type : {"linear", "yarn"}) {
    ExpectNamed(MapWith("qwen2", {{"rope_parameters", {{"rope_type", type}}}}), Code::kCorrupt, "factor");
    ExpectNamed(MapWith("phi3", {{"rope_parameters", {{"rope_type", type}, {"factor", 4.0}}}}), Code::kUnsupported,
                "rope_parameters");
  }
  const auto golden = nlohmann::json::parse(ReadWholeFile(kGolden + "llama3-rope/golden.json"))["hf_config"];
  for (const char* field : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    nlohmann::json rope = golden["rope_parameters"];
    rope.erase(field);
    ExpectNamed(MapWith("llama3-rope", {{"rope_parameters", rope}}), Code::kCorrupt, field);
  }
}

// transformers 5 lets rope_scaling replace rope_parameters, transformers 4 knows no rope_parameters.
TEST(HuggingFace, TwoKindsOfRopeAreRefused) {
  const nlohmann::json plain = {{"rope_type", "default"}, {"rope_theta", 10000.0}};
  const nlohmann::json linear = {{"rope_type", "linear"}, {"factor", 4.0}};
  const auto both = [](const nlohmann::json& parameters, const nlohmann::json& scaling) {
    return MapWith("qwen2", {{"rope_parameters", parameters}, {"rope_scaling", scaling}});
  };
  EXPECT_TRUE(both(linear, linear).ok());
  EXPECT_TRUE(both(linear, nullptr).ok());
  EXPECT_TRUE(both(linear, nlohmann::json::object()).ok());
  ExpectNamed(both(plain, linear), Code::kUnsupported, "rope_scaling");
}

// Fields that families call otherwise, and what they mean when they are absent.
TEST(HuggingFace, FamiliesHaveFieldsOfTheirOwn) {
  const auto number = [](const Result<MappedModel>& mapped, const char* key) {
    EXPECT_TRUE(mapped.ok()) << mapped.status().ToString();
    return mapped.ok() ? mapped->metadata.GetUint(key).value() : 0;
  };
  EXPECT_EQ(number(MapWith("gpt2", {{"n_inner", 100}}), "gpt2.feed_forward_length"), 100u);
  EXPECT_EQ(number(MapWith("gpt2", {}), "gpt2.feed_forward_length"), 256u);
  const char* kv = "falcon.attention.head_count_kv";
  EXPECT_EQ(number(MapWith("falcon", {{"num_kv_heads", 2}}), kv), 1u);
  EXPECT_EQ(number(MapWith("falcon", {{"new_decoder_architecture", true}, {"num_kv_heads", 2}}), kv), 2u);
  EXPECT_EQ(number(MapWith("falcon", {{"new_decoder_architecture", true}, {"num_kv_heads", nullptr}}), kv), 4u);
  EXPECT_EQ(number(MapWith("starcoder", {{"multi_query", false}, {"num_key_value_heads", nullptr}}),
                   "starcoder.attention.head_count_kv"),
            4u);
  EXPECT_EQ(number(MapWith("bloom", {{"seq_length", 2048}}), "bloom.context_length"), 2048u);
  EXPECT_EQ(number(MapWith("bloom", {}), "bloom.context_length"), 64u);
  EXPECT_EQ(number(MapWith("starcoder2", {{"sliding_window", 128}}), "starcoder2.attention.sliding_window"), 128u);
  const auto letters =
      MapWith("exaone4", {{"sliding_window", 128}, {"layer_types", nullptr}, {"sliding_window_pattern", "LLG"}});
  EXPECT_EQ(number(letters, "exaone4.attention.sliding_window"), 128u);
  EXPECT_EQ(letters->metadata.GetInts("exaone4.attention.sliding_window_pattern").value(),
            (std::vector<int64_t>{1, 1, 0}));
  const auto no_alibi = MapWith("mpt", {{"attn_config", {{"alibi", false}, {"clip_qkv", 6.0}}}});
  ASSERT_TRUE(no_alibi.ok()) << no_alibi.status().ToString();
  EXPECT_EQ(no_alibi->metadata.GetFloat("mpt.attention.max_alibi_bias").value(), 0);
  EXPECT_EQ(no_alibi->metadata.GetFloat("mpt.attention.clamp_kqv").value(), 6);
}

// 0.9 times 80 is 72, of a float's 0.9 not quite.
TEST(HuggingFace, FactorsOfAHeadAreNotRounded) {
  const nlohmann::json rope = {{"rope_type", "default"}, {"partial_rotary_factor", 0.9}};
  for (const nlohmann::json& changes :
       {nlohmann::json{{"partial_rotary_factor", 0.9}},
        nlohmann::json{{"partial_rotary_factor", nullptr}, {"rope_parameters", rope}}}) {
    nlohmann::json all = changes;
    all["head_dim"] = 80;
    const auto mapped = MapWith("glm4", all);
    ASSERT_TRUE(mapped.ok()) << mapped.status().ToString();
    EXPECT_EQ(mapped->metadata.GetUint("glm4.rope.dimension_count").value(), 72u);
  }
}

TEST(HuggingFace, FamiliesRefuseWhatTheyDoNotCompute) {
  ExpectNamed(MapWith("gpt2", {{"scale_attn_by_inverse_layer_idx", true}}), Code::kUnsupported, "inverse_layer");
  const char* bias = "falcon.attention.max_alibi_bias";
  EXPECT_EQ(MapWith("falcon", {{"alibi", true}})->metadata.GetFloat(bias).value(), 8.0);
  EXPECT_FALSE(MapWith("falcon", {})->metadata.Has(bias));
  ExpectNamed(MapWith("falcon", {{"new_decoder_architecture", true}, {"parallel_attn", false}}), Code::kUnsupported,
              "parallel_attn");
  ExpectNamed(MapWith("mpt", {{"attn_config", {{"qk_ln", true}}}}), Code::kUnsupported, "attn_config.qk_ln");
  ExpectNamed(MapWith("mpt", {{"attn_config", {{"sliding_window_size", 64}}}}), Code::kUnsupported,
              "sliding_window_size");
  EXPECT_TRUE(MapWith("mpt", {{"attn_config", {{"sliding_window_size", -1}}}}).ok());
  ExpectNamed(MapWith("olmoe", {{"sliding_window", 64}}), Code::kUnsupported, "sliding_window");
  ExpectNamed(MapWith("gemma", {{"hidden_act", "silu"}}), Code::kUnsupported, "hidden_act");
  EXPECT_TRUE(MapWith("gemma", {{"hidden_act", "gelu"}}).ok());
  ExpectNamed(MapWith("bloom", {{"apply_residual_connection_post_layernorm", true}}), Code::kUnsupported,
              "apply_residual");
  ExpectNamed(MapWith("gptneox", {{"hidden_act", "gelu_fast"}}), Code::kUnsupported, "gelu_fast");
  ExpectNamed(MapWith("gemma4", {{"enable_moe_block", true}}), Code::kUnsupported, "enable_moe_block");
  ExpectNamed(MapWith("gemma4", {{"attention_k_eq_v", true}}), Code::kUnsupported, "attention_k_eq_v");
  ExpectNamed(MapWith("bitnet", {{"hidden_act", "gelu"}}), Code::kUnsupported, "hidden_act");
  ExpectNamed(MapWith("bitnet", {{"quantization_config", {{"quant_method", "bitnet"}}}}), Code::kUnsupported,
              "quantization_config");
  ExpectNamed(MapWith("exaone4", {{"sliding_window", 8}, {"layer_types", nullptr}, {"sliding_window_pattern", "LX"}}),
              Code::kUnsupported, "LX");
  ExpectNamed(MapWith("phi3-long", {{"rope_parameters", {{"rope_type", "longrope"}, {"long_factor", {1, 2}}}}}),
              Code::kCorrupt, "long_factor");
}

TEST(HuggingFace, BiasesThatTheConfigDeniesAreRefused) {
  const auto map = [](const char* golden, const char* field, const nlohmann::json& value, const char* name) {
    nlohmann::json config = nlohmann::json::parse(ReadWholeFile(kGolden + golden + "/golden.json"))["hf_config"];
    config[field] = value;
    return MapHuggingFace(config, {name});
  };
  const char *query = "model.layers.0.self_attn.q_proj.bias", *out = "model.layers.0.self_attn.o_proj.bias";
  ExpectNamed(map("llama", "attention_bias", false, query), Code::kUnsupported, "attention_bias");
  EXPECT_TRUE(map("llama", "attention_bias", true, query).ok());
  EXPECT_TRUE(map("llama", "attention_bias", nullptr, query).ok());
  ExpectNamed(map("seed-oss", "attention_out_bias", false, out), Code::kUnsupported, "attention_out_bias");
  EXPECT_TRUE(map("seed-oss", "attention_out_bias", false, query).ok());
  ExpectNamed(map("stablelm", "use_qkv_bias", false, query), Code::kUnsupported, "use_qkv_bias");
  ExpectNamed(map("starcoder2", "use_bias", false, "model.layers.0.mlp.c_fc.bias"), Code::kUnsupported, "use_bias");
  EXPECT_TRUE(map("starcoder2", "use_bias", false, "model.layers.0.input_layernorm.bias").ok());
  ExpectNamed(map("falcon", "bias", false, "transformer.h.0.mlp.dense_h_to_4h.bias"), Code::kUnsupported, "bias");
  EXPECT_TRUE(map("qwen2", "attention_bias", false, query).ok());  // which its class does not read
}

TEST(HuggingFace, TiedHeadsAreThoseOfEveryName) {
  const auto tensors = [](const char* golden, bool tied, const char* name) {
    nlohmann::json config = nlohmann::json::parse(ReadWholeFile(kGolden + golden + "/golden.json"))["hf_config"];
    config["tie_word_embeddings"] = tied;
    return MapHuggingFace(config, {name})->tensors.size();
  };
  EXPECT_EQ(tensors("gptneox", true, "embed_out.weight"), 0u);
  EXPECT_EQ(tensors("gptneox", false, "embed_out.weight"), 1u);
  EXPECT_EQ(tensors("llama", true, "lm_head.weight"), 0u);
  EXPECT_EQ(tensors("llama", false, "lm_head.weight"), 1u);
}

// Copying and printing JSON goes by recursion.
TEST(HuggingFace, RefusesDeepNesting) {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json"}) {
    EXPECT_EQ(WithFile(file, "{\"model\": {\"vocab\": {\"x\": " + deep + "}}}").code(), Code::kCorrupt) << file;
  }
}

// modules.json and the pooling's own config, beside the models that they are for.
TEST(HuggingFace, PoolsAsSentenceTransformersSays) {
  const auto open = [](const char* golden, const nlohmann::json& modules, const nlohmann::json& pooling) {
    const TempFolder folder;
    WriteHuggingFaceFolder(kGolden + golden, folder.path());
    std::filesystem::create_directory(folder.path() + "/1_Pooling");
    if (!modules.is_null()) folder.Write("modules.json", modules.dump());
    folder.Write("1_Pooling/config.json", pooling.dump());
    return OpenHuggingFace(folder.path(), "");
  };
  const auto module = [](const char* type, const char* path) {
    return nlohmann::json{{"type", std::string("sentence_transformers.models.") + type}, {"path", path}};
  };
  const nlohmann::json modules = {module("Transformer", ""), module("Pooling", "1_Pooling"), module("Normalize", "2")};
  const nlohmann::json last = {{"pooling_mode_mean_tokens", false}, {"pooling_mode_lasttoken", true}};
  EXPECT_EQ(open("qwen3", modules, last)->metadata->GetUint("qwen3.pooling_type").value(), 3u);
  EXPECT_FALSE(open("qwen3", nullptr, last)->metadata->Has("qwen3.pooling_type"));
  EXPECT_EQ(open("bert", modules, {{"pooling_mode_cls_token", true}})->metadata->GetUint("bert.pooling_type").value(),
            2u);
  const auto refused = [&](const nlohmann::json& given, const nlohmann::json& pooling, const char* name) {
    const Status status = open("bert", given, pooling).status();
    EXPECT_EQ(status.code(), Code::kUnsupported) << status.ToString();
    EXPECT_NE(status.message().find(name), std::string_view::npos) << status.ToString();
  };
  refused(modules, {{"pooling_mode_max_tokens", true}}, "pooling_mode_max_tokens");
  refused(modules, {{"pooling_mode_cls_token", true}, {"pooling_mode_mean_tokens", true}},
          "cls_token, pooling_mode_mean");
  refused(modules, nlohmann::json::object(), "pools by \"\"");
  refused({module("Transformer", ""), module("Dense", "2_Dense")}, last, "Dense");
  refused(nlohmann::json::array({module("Pooling", "../1_Pooling")}), last, "../1_Pooling");
  EXPECT_EQ(open("bert", "none", last).status().code(), Code::kCorrupt);
}

// What a config claims takes no memory: a name in the folder does.
TEST(HuggingFace, ClaimsOfLayersAndExpertsTakeNoRoom) {
  for (const uint64_t layers : {uint64_t{1025}, uint64_t{2147483647}, uint64_t{1} << 40})
    ExpectNamed(MapWith("qwen2", {{"num_hidden_layers", layers}, {"layer_types", nullptr}}), Code::kCorrupt,
                "num_hidden_layers");
  auto config = nlohmann::json::parse(ReadWholeFile(kGolden + "mixtral/golden.json"))["hf_config"];
  config["num_hidden_layers"] = 1024u;
  config["num_local_experts"] = 4096u;
  std::vector<std::string> names;
  for (int layer = 0; layer < 1024; ++layer)
    names.push_back("model.layers." + std::to_string(layer) + ".block_sparse_moe.experts.0.w1.weight");
  ResetAllocations();
  ExpectNamed(MapHuggingFace(config, names), Code::kCorrupt, "expert 1 of 4096");
  EXPECT_LT(PeakAllocatedBytes(), size_t{4} << 20);
}

// Before the weights, which such a folder may have in other files; and what more the architecture has.
TEST(HuggingFace, UnknownArchitecturesSayWhatTheyHave) {
  const TempFolder folder;
  folder.Write("config.json", R"({"architectures": ["MambaForCausalLM"], "model_type": "mamba"})");
  folder.Write("pytorch_model.bin", "PK");
  const Status status = OpenHuggingFace(folder.path(), "").status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  for (const char* part : {folder.path().c_str(), "MambaForCausalLM", "LlamaForCausalLM"})
    EXPECT_NE(status.message().find(part), std::string_view::npos) << status.ToString();
  std::vector<std::string> names = {"model.embed_tokens.weight", "transformer.h.3.attn.c_attn.weight"};
  for (const char* layer : {"0", "17"}) {
    for (const char* kind : {"A_log", "D", "conv1d.weight", "dt", "in", "norm", "out", "x", "z"})
      names.push_back(std::string("backbone.layers.") + layer + ".mixer." + kind);
  }
  const std::string message(MapHuggingFace({{"architectures", {"MambaForCausalLM"}}}, names).status().message());
  for (const char* part : {"\"backbone.layers.%.mixer.A_log\", ", "mixer.x\" and 1 more"})
    EXPECT_NE(message.find(part), std::string::npos) << message;
  for (const char* part : {"embed_tokens", "c_attn", "17"}) EXPECT_EQ(message.find(part), std::string::npos) << message;
}

TEST(HuggingFace, NamesEveryKindOfTensorWithoutAPlace) {
  const auto config = nlohmann::json::parse(ReadWholeFile(kGolden + "qwen2/golden.json"))["hf_config"];
  std::vector<std::string> names = {"model.norm.weight"};
  for (const char* layer : {"0", "1"}) {
    for (const char* kind : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"})
      names.push_back(std::string("model.layers.") + layer + ".odd." + kind);
  }
  const Status status = MapHuggingFace(config, names).status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  for (const char* part : {"qwen2", "\"model.layers.0.odd.a\", ", "\"model.layers.0.odd.h\" and 2 more"})
    EXPECT_NE(status.message().find(part), std::string_view::npos) << status.ToString();
}

TEST(HuggingFace, TwoTensorsForOnePlaceAreAFault) {
  const auto golden = nlohmann::json::parse(ReadWholeFile(kGolden + "mixtral/golden.json"));
  const auto mapped = MapHuggingFace(golden["hf_config"],
                                     {"model.layers.0.mlp.gate.weight", "model.layers.0.block_sparse_moe.gate.weight"});
  EXPECT_EQ(mapped.status().code(), Code::kCorrupt);
  EXPECT_NE(mapped.status().message().find("block_sparse_moe.gate"), std::string_view::npos);
}

}  // namespace
}  // namespace moonlit
