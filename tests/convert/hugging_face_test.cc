// SPDX-License-Identifier: Apache-2.0
// Folders written from golden GGUF models, read back: the same metadata, the same tensors bit by bit, the same tokens. And folders
// that Hugging Face's own libraries wrote (tests/data/recipes/make_hugging_face_golden.py).
#include "runtime/convert/hugging_face.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "models/common/hugging_face.h"
#include "nlohmann/json.hpp"
#include "runtime/api/load.h"
#include "runtime/convert/tokenizer_metadata.h"
#include "runtime/text/tokenizer.h"
#include "runtime/weights/gguf_source.h"
#include "tests/support/hugging_face_folder.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

const std::string kGolden = MOONLIT_SOURCE_DIR "/tests/data/golden/";
const std::string kFolders = MOONLIT_SOURCE_DIR "/tests/data/hugging_face/";

std::string Bytes(const WeightSource& source, const TensorInfo& tensor) {
  std::string bytes(static_cast<size_t>(tensor.bytes), '\0');
  EXPECT_TRUE(source.Read(tensor, 0, bytes.data(), bytes.size()).ok());
  return bytes;
}

void ExpectSameTensors(const WeightSource& expected, const WeightSource& found) {
  EXPECT_EQ(expected.All().size(), found.All().size());
  for (const TensorInfo* tensor : expected.All()) {
    const TensorInfo* other = found.Find(tensor->name);
    ASSERT_NE(other, nullptr) << tensor->name;
    EXPECT_TRUE(other->shape.Matches(tensor->shape)) << tensor->name << " " << other->shape.ToString();
    EXPECT_EQ(other->format, tensor->format) << tensor->name;
    if (tensor->name == "rope_freqs.weight") {
      // Computed: the last bit is the C library's.
      std::vector<float> a(tensor->shape.elements()), b(a.size());
      std::memcpy(a.data(), Bytes(expected, *tensor).data(), a.size() * sizeof(float));
      std::memcpy(b.data(), Bytes(found, *other).data(), b.size() * sizeof(float));
      for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-6 * a[i]);
      continue;
    }
    EXPECT_TRUE(Bytes(expected, *tensor) == Bytes(found, *other)) << tensor->name;
  }
}

// By their text, whatever the types: keys of the file that the folder's metadata must have too, with equal values.
void ExpectSameKeys(const GgufFile& file, const Metadata& found) {
  // Names are the folder's; scores are made from merges.
  const std::set<std::string_view> own = {"general.name", "general.size_label", "general.file_type",
                                          "general.quantization_version", "tokenizer.ggml.scores"};
  const GgufMetadata expected(&file);
  for (const GgufValue& value : file.values()) {
    const std::string key(value.key);
    ASSERT_TRUE(found.Has(key) || own.count(key) != 0) << key;
    if (own.count(key) != 0 || key == "tokenizer.ggml.pre") continue;
    switch (value.type) {
      case GgufType::kUint32:
        EXPECT_EQ(found.GetUint(key).value(), expected.GetUint(key).value()) << key;
        break;
      case GgufType::kFloat32:
        EXPECT_EQ(found.GetFloat(key).value(), expected.GetFloat(key).value()) << key;
        break;
      case GgufType::kBool:
        EXPECT_EQ(found.GetBool(key).value(), expected.GetBool(key).value()) << key;
        break;
      case GgufType::kString:
        EXPECT_EQ(found.GetString(key).value(), expected.GetString(key).value()) << key;
        break;
      default:
        if (value.element == GgufType::kString) {
          EXPECT_EQ(found.GetStrings(key).value(), expected.GetStrings(key).value()) << key;
        } else {
          EXPECT_EQ(found.GetInts(key).value(), expected.GetInts(key).value()) << key;
        }
    }
  }
}

std::unique_ptr<const Tokenizer> MakeTokenizer(const Metadata& metadata) {
  auto data = ReadTokenizerData(metadata);
  EXPECT_TRUE(data.ok()) << data.status().ToString();
  auto tokenizer = Tokenizer::Create(std::move(*data));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return std::move(*tokenizer);
}

class FromGolden : public testing::TestWithParam<const char*> {};

TEST_P(FromGolden, IsTheSameModel) {
  const std::string golden = kGolden + GetParam();
  const auto gguf = GgufSource::Open(golden + "/model.gguf");
  ASSERT_TRUE(gguf.ok());
  for (size_t shards : {1, 3}) {
    const TempFolder folder;
    WriteHuggingFaceFolder(golden, folder.path(), shards);
    const auto model = OpenHuggingFace(folder.path(), "");
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    ExpectSameTensors(**gguf, *model->weights);
    ExpectSameKeys((*gguf)->files()[0], *model->metadata);
    const auto theirs = MakeTokenizer((*gguf)->metadata()), ours = MakeTokenizer(*model->metadata);
    for (const char* text : {"the quick brown fox", "  Hello, World! 12345 \n\n it's", "na\xc3\xafve \xe4\xbd\xa0"}) {
      EXPECT_EQ(theirs->Encode(text, {.add_special = true}).value(), ours->Encode(text, {.add_special = true}).value());
    }
  }
}

TEST_P(FromGolden, ConvertsToTheSameFile) {
  const std::string golden = kGolden + GetParam();
  const TempFolder folder, out;
  WriteHuggingFaceFolder(golden, folder.path());
  const std::string path = out.path() + "/model.gguf";
  const auto report = ConvertFolder(folder.path(), path, "", {});
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->type, "F32");
  const auto gguf = GgufSource::Open(golden + "/model.gguf"), converted = GgufSource::Open(path);
  ASSERT_TRUE(converted.ok()) << converted.status().ToString();
  ExpectSameTensors(**gguf, **converted);
  ExpectSameKeys((*gguf)->files()[0], (*converted)->metadata());
  EXPECT_EQ((*converted)->metadata().GetUint("general.file_type").value(), 0u);
  EXPECT_EQ((*converted)->metadata().GetString("general.size_label").value(),
            (*gguf)->metadata().GetString("general.size_label").value());
}

INSTANTIATE_TEST_SUITE_P(HuggingFace, FromGolden,
                         testing::Values("llama", "llama3-rope", "mistral", "mixtral", "qwen2", "qwen2moe", "qwen3",
                                         "qwen3moe", "olmoe", "granitemoe", "granite", "olmo2", "smollm3", "gemma",
                                         "gemma2", "gemma3", "arcee", "olmo", "stablelm", "starcoder2", "command-r",
                                         "cohere2", "glm4", "exaone4", "ernie45", "seed-oss", "phi2", "phi3",
                                         "nemotron"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(HuggingFace, PartsOfTensorsAreThoseOfTheWhole) {
  const TempFolder folder;
  WriteHuggingFaceFolder(kGolden + "granitemoe", folder.path());
  const auto model = OpenHuggingFace(folder.path(), "");
  ASSERT_TRUE(model.ok());
  for (const TensorInfo* tensor : model->weights->All()) {
    const std::string whole = Bytes(*model->weights, *tensor);
    for (size_t offset = 0; offset < whole.size(); offset += 331) {
      std::string part(std::min<size_t>(397, whole.size() - offset), '\0');
      ASSERT_TRUE(model->weights->Read(*tensor, offset, part.data(), part.size()).ok());
      ASSERT_EQ(part, whole.substr(offset, part.size())) << tensor->name << " at " << offset;
    }
    char byte;
    EXPECT_EQ(model->weights->Read(*tensor, tensor->bytes, &byte, 1).code(), Code::kInvalidArgument);
  }
}

TEST(HuggingFace, TokenizersOfTheirOwnLibraryGiveItsIds) {
  for (const char* name : {"llama", "mixtral"}) {
    const auto model = OpenHuggingFace(kFolders + name, "");
    ASSERT_TRUE(model.ok()) << model.status().ToString();
    const auto tokenizer = MakeTokenizer(*model->metadata);
    const auto golden = nlohmann::json::parse(ReadWholeFile(kFolders + name + "/golden.json"));
    for (const auto& probe : golden["texts"]) {
      const auto ids =
          tokenizer->Encode(probe["text"].get<std::string>(), {.add_special = true, .parse_special = true});
      EXPECT_EQ(ids.value(), probe["ids"].get<std::vector<int32_t>>()) << name << ": " << probe["text"];
    }
    const auto alone = OpenHuggingFaceTokenizer(kFolders + name, "");
    ASSERT_TRUE(alone.ok()) << alone.status().ToString();
    EXPECT_EQ((*alone)->GetStrings("tokenizer.ggml.tokens").value(),
              model->metadata->GetStrings("tokenizer.ggml.tokens").value());
  }
}

// A folder with one file changed.
Status WithFile(const std::string& name, const std::string& text, const std::string& pre = "") {
  const TempFolder folder;
  WriteHuggingFaceFolder(kGolden + "qwen2", folder.path());
  folder.Write(name, text);
  return OpenHuggingFace(folder.path(), pre).status();
}

TEST(HuggingFace, AnUnknownPreTokenizerNamesTheOverride) {
  const TempFolder folder;
  WriteHuggingFaceFolder(kGolden + "qwen2", folder.path());
  auto json = nlohmann::json::parse(ReadWholeFile(folder.path() + "/tokenizer.json"));
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = "[a-z]+|\\s";
  folder.Write("tokenizer.json", json.dump());
  const Status status = OpenHuggingFace(folder.path(), "").status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find("--pre"), std::string_view::npos) << status.ToString();
  EXPECT_NE(status.message().find("[a-z]+"), std::string_view::npos);
  const auto model = OpenHuggingFace(folder.path(), "qwen2");
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  EXPECT_EQ(model->metadata->GetString("tokenizer.ggml.pre").value(), "qwen2");
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
       {map("arcee", "hidden_act", "silu"), map("starcoder2", "sliding_window", 128),
        map("exaone4", "sliding_window", 128), map("phi2", "hidden_act", "gelu"), map("phi2", "qk_layernorm", true),
        map("nemotron", "hidden_act", "silu"),
        map("cohere2", "layer_types", {"full_attention", "full_attention", "full_attention", "full_attention"}),
        map("cohere2", "rotary_pct", 0.5), map("phi3", "hidden_act", "gelu"),
        map("phi3", "rope_parameters", {{"rope_type", "longrope"}}), map("command-r", "partial_rotary_factor", 0.5)}) {
    EXPECT_EQ(status.code(), Code::kUnsupported) << status.ToString();
  }
  for (const Status& status :
       {map("glm4", "partial_rotary_factor", 0), map("glm4", "partial_rotary_factor", 1.5),
        map("stablelm", "partial_rotary_factor", "half"), map("command-r", "logit_scale", nullptr),
        map("cohere2", "sliding_window", -1), map("cohere2", "layer_types", "all"), map("nemotron", "norm_eps", nullptr), map("olmo", "clip_qkv", "much")}) {
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

TEST(HuggingFace, RefusesTokenizersWithIdsOutOfPlace) {
  const TempFolder folder;
  WriteHuggingFaceFolder(kGolden + "qwen2", folder.path());
  const auto good = nlohmann::json::parse(ReadWholeFile(folder.path() + "/tokenizer.json"));
  const auto with = [&](const std::string& path, const nlohmann::json& value) {
    nlohmann::json json = good;
    json[nlohmann::json::json_pointer(path)] = value;
    folder.Write("tokenizer.json", json.dump());
    return OpenHuggingFace(folder.path(), "").status().code();
  };
  EXPECT_EQ(with("/model/vocab/new", 4000000000u), Code::kCorrupt);
  EXPECT_EQ(with("/model/vocab/new", -1), Code::kCorrupt);
  EXPECT_EQ(with("/model/vocab/new", 5), Code::kCorrupt);  // has a token
  EXPECT_EQ(with("/model/vocab", 5), Code::kCorrupt);
  EXPECT_EQ(with("/model/merges", {1, 2}), Code::kCorrupt);
  EXPECT_EQ(with("/added_tokens", {{{"id", 1u << 30}, {"content", "x"}}}), Code::kCorrupt);
  EXPECT_EQ(with("/added_tokens", {7}), Code::kCorrupt);
  EXPECT_EQ(with("/model/type", "Unigram"), Code::kUnsupported);
  EXPECT_EQ(with("/pre_tokenizer", nullptr), Code::kUnsupported);
}

// Parts that change ids and that a GGUF file can't say; each is named.
TEST(HuggingFace, TokenizerPartsAreComputedOrRefused) {
  using Json = nlohmann::json;
  const auto with = [](const char* golden, const std::string& path, const Json& value) {
    const TempFolder folder;
    WriteHuggingFaceFolder(kGolden + golden, folder.path());
    Json json = Json::parse(ReadWholeFile(folder.path() + "/tokenizer.json"));
    json[Json::json_pointer(path)] = value;
    folder.Write("tokenizer.json", json.dump());
    folder.Write("tokenizer_config.json", R"({"bos_token": "<s>", "eos_token": "</s>"})");
    return OpenHuggingFaceTokenizer(folder.path(), "").status();
  };
  const auto token = [](const char* field) { return Json{{"id", 3}, {"content", "caf\xc3\xa9"}, {field, true}}; };
  const Json text = {{"Sequence", {{"id", "A"}}}}, foreign = {{"SpecialToken", {{"id", "[CLS]"}}}};
  const auto around = [](const Json& single) { return Json{{"type", "TemplateProcessing"}, {"single", single}}; };
  const Json lower = {{"type", "Lowercase"}}, nfc = {{"type", "NFC"}};
  const struct {
    const char* golden;
    const char* path;
    Json value;
    const char* named;
  } cases[] = {
      {"qwen2", "/model/dropout", 0.1, "dropout"},
      {"qwen2", "/model/end_of_word_suffix", "</w>", "end_of_word_suffix"},
      {"qwen2", "/model/continuing_subword_prefix", "##", "continuing_subword_prefix"},
      {"qwen2", "/model/ignore_merges", true, "ignore_merges"},
      {"llama", "/normalizer", nfc, "NFC"},
      {"qwen2", "/normalizer", lower, "Lowercase"},
      {"qwen2", "/normalizer", {{"type", "Sequence"}, {"normalizers", {nfc, lower}}}, "Lowercase"},
      {"qwen2", "/normalizer", "NFC", "normalizer"},
      {"qwen2", "/pre_tokenizer/pretokenizers/1/add_prefix_space", true, "add_prefix_space"},
      {"qwen2", "/added_tokens/0/single_word", true, "single_word"},
      {"qwen2", "/added_tokens/0/rstrip", "yes", "rstrip"},
      {"qwen2", "/added_tokens/0", token("normalized"), "normalized"},
      {"qwen2", "/post_processor", around({foreign, text}), "[CLS]"},
      {"qwen2", "/post_processor", around({text, foreign}), "[CLS]"},
      {"qwen2", "/post_processor", around({foreign, foreign, text}), "post_processor"},
      {"qwen2", "/post_processor", {{"type", "RobertaProcessing"}}, "RobertaProcessing"},
      {"mistral", "/normalizer", nfc, "NFC"},
      {"mistral", "/model/ignore_merges", true, "ignore_merges"},
      {"mistral", "/pre_tokenizer", {{"type", "Whitespace"}}, "Whitespace"},
      {"mistral", "/pre_tokenizer", {{"type", "Metaspace"}, {"replacement", "\xe2\x96\x81"}}, "Metaspace"},
      {"mistral", "/added_tokens/0/normalized", true, "normalized"},
  };
  for (const auto& c : cases) {
    const Status status = with(c.golden, c.path, c.value);
    EXPECT_TRUE(status.code() == Code::kUnsupported || status.code() == Code::kCorrupt) << c.path << " " << c.value;
    EXPECT_NE(status.message().find(c.named), std::string_view::npos) << c.named << ": " << status.ToString();
  }
  EXPECT_TRUE(with("qwen2", "/post_processor", around(Json::array({text}))).ok());
  EXPECT_TRUE(with("qwen2", "/post_processor", {{"type", "ByteLevel"}, {"trim_offsets", false}}).ok());
  EXPECT_TRUE(with("qwen2", "/added_tokens/0/normalized", true).ok()) << "of ASCII characters, which NFC leaves";
}

// What GGUF has no word for goes by keys of our own, into a converted file too.
TEST(HuggingFace, NormalizersAndStripsArePartOfTheModel) {
  using Json = nlohmann::json;
  const TempFolder folder, out;
  WriteHuggingFaceFolder(kGolden + "command-r", folder.path());
  Json json = Json::parse(ReadWholeFile(folder.path() + "/tokenizer.json"));
  json["normalizer"] = {{"type", "NFC"}};
  Json& token = json["added_tokens"][0];
  const std::string content = token["content"];
  token["lstrip"] = token["rstrip"] = true;
  folder.Write("tokenizer.json", json.dump());
  const auto model = OpenHuggingFace(folder.path(), "");
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  ASSERT_TRUE(ConvertFolder(folder.path(), out.path() + "/out.gguf", "", {}).ok());
  const auto file = GgufSource::Open(out.path() + "/out.gguf");
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const auto plain = GgufSource::Open(kGolden + "command-r/model.gguf");
  ASSERT_TRUE(plain.ok());
  const auto ids = [](const Metadata& metadata, const std::string& text) {
    return MakeTokenizer(metadata)->Encode(text, {.parse_special = true}).value();
  };
  const std::string composed = "caf\xc3\xa9", decomposed = "cafe\xcc\x81";
  const std::string spaced = "a  " + content + " \n b", tight = "a" + content + "b";
  for (const Metadata* metadata : {static_cast<const Metadata*>(model->metadata.get()), &(*file)->metadata()}) {
    EXPECT_EQ(ids(*metadata, decomposed), ids(*metadata, composed));
    EXPECT_EQ(ids(*metadata, spaced), ids(*metadata, tight));
  }
  EXPECT_NE(ids((*plain)->metadata(), decomposed), ids((*plain)->metadata(), composed));
  EXPECT_NE(ids((*plain)->metadata(), spaced), ids((*plain)->metadata(), tight));
}

// Copying and printing JSON goes by recursion.
TEST(HuggingFace, RefusesDeepNesting) {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  for (const char* file : {"config.json", "tokenizer.json", "tokenizer_config.json"}) {
    EXPECT_EQ(WithFile(file, "{\"model\": {\"vocab\": {\"x\": " + deep + "}}}").code(), Code::kCorrupt) << file;
  }
}

TEST(HuggingFace, TwoTensorsForOnePlaceAreAFault) {
  const auto golden = nlohmann::json::parse(ReadWholeFile(kGolden + "mixtral/golden.json"));
  const auto mapped = MapHuggingFace(golden["hf_config"],
                                     {"model.layers.0.mlp.gate.weight", "model.layers.0.block_sparse_moe.gate.weight"});
  EXPECT_EQ(mapped.status().code(), Code::kCorrupt);
  EXPECT_NE(mapped.status().message().find("block_sparse_moe.gate"), std::string_view::npos);
}

TEST(HuggingFace, NeverWritesOverTheModel) {
  const TempFolder folder;
  WriteHuggingFaceFolder(kGolden + "qwen2", folder.path());
  for (const char* name : {"model.safetensors", "config.json", "tokenizer.json"}) {
    const std::string path = folder.path() + "/" + name, before = ReadWholeFile(path);
    EXPECT_EQ(ConvertFolder(folder.path(), path, "", {}).status().code(), Code::kInvalidArgument) << name;
    EXPECT_TRUE(ReadWholeFile(path) == before) << name;
  }
}

// What loading refuses is not written.
TEST(HuggingFace, ConversionRefusesWhatLoadingRefuses) {
  const TempFolder folder;
  const std::string out = folder.path() + "/out.gguf";
  const auto refused = [&](const std::string& file, const std::string& path, const nlohmann::json& value) {
    const TempFolder model;
    WriteHuggingFaceFolder(kGolden + "qwen2", model.path());
    auto json = nlohmann::json::parse(ReadWholeFile(model.path() + "/" + file));
    json[nlohmann::json::json_pointer(path)] = value;
    model.Write(file, json.dump());
    ASSERT_FALSE(OpenModel(model.path()).ok()) << path;
    const Status status = ConvertFolder(model.path(), out, "", {}).status();
    EXPECT_FALSE(status.ok()) << path;
    EXPECT_EQ(status.message(), OpenModel(model.path()).status().message());
    EXPECT_EQ(folder.FileCount(), 0u) << path;
  };
  refused("config.json", "/num_hidden_layers", 3);  // tensors of the third are missing
  refused("config.json", "/intermediate_size", 7);
  refused("config.json", "/rms_norm_eps", 0);
  refused("config.json", "/num_key_value_heads", 3);
  refused("tokenizer.json", "/model/merges", nlohmann::json::array());
}

// What a packed cache was made from.
TEST(HuggingFace, FingerprintsSeeTheConfig) {
  const TempFolder folder;
  WriteHuggingFaceFolder(kGolden + "llama3-rope", folder.path());
  const auto fingerprint = [&] { return OpenHuggingFace(folder.path(), "")->weights->Fingerprint().value(); };
  const uint64_t before = fingerprint();
  EXPECT_EQ(fingerprint(), before);
  auto config = nlohmann::json::parse(ReadWholeFile(folder.path() + "/config.json"));
  for (const char* field : {"rope_parameters", "rope_scaling"}) {
    if (config.contains(field)) config[field]["low_freq_factor"] = 2.0;
  }
  folder.Write("config.json", config.dump());
  EXPECT_NE(fingerprint(), before);
}

// A weight changed in place, under the old time: what a packed cache or a saved session was made from is another model.
TEST(HuggingFace, FingerprintsAndIdentitiesSeeTheWeights) {
  const TempFolder folder;
  WriteHuggingFaceFolder(kGolden + "qwen2", folder.path());
  const std::string path = folder.path() + "/model.safetensors";
  const auto fingerprint = [&] { return OpenHuggingFace(folder.path(), "")->weights->Fingerprint().value(); };
  const auto identity = [&] { return OpenModel(folder.path())->facts.identity; };
  const uint64_t fingerprint_before = fingerprint();
  const std::string identity_before = identity();
  EXPECT_EQ(identity(), identity_before);
  const auto time = std::filesystem::last_write_time(path);
  std::string bytes = ReadWholeFile(path);
  for (size_t i = bytes.size() / 2; i < bytes.size(); ++i) bytes[i] = static_cast<char>(bytes[i] ^ 1);
  folder.Write("model.safetensors", bytes);
  std::filesystem::last_write_time(path, time);
  EXPECT_NE(fingerprint(), fingerprint_before);
  const std::string changed = identity();
  EXPECT_NE(changed, identity_before);
  // The same weights under other settings.
  auto config = nlohmann::json::parse(ReadWholeFile(folder.path() + "/config.json"));
  config["rms_norm_eps"] = 1e-3;
  folder.Write("config.json", config.dump());
  EXPECT_NE(identity(), changed);
}

TEST(HuggingFace, SaysWhichFileIsMissing) {
  const TempFolder folder;
  EXPECT_EQ(OpenHuggingFace(folder.path(), "").status().code(), Code::kNotFound);
  WriteHuggingFaceFolder(kGolden + "mixtral", folder.path(), 2);
  std::remove((folder.path() + "/part-1.safetensors").c_str());
  const Status status = OpenHuggingFace(folder.path(), "").status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("part-1.safetensors"), std::string_view::npos);
}

}  // namespace
}  // namespace moonlit
