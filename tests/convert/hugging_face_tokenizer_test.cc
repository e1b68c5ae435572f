// SPDX-License-Identifier: Apache-2.0
// Tokenizers of Hugging Face folders: ids of Hugging Face's own library (tests/data/recipes/make_hugging_face_golden.py), and parts that
// are computed or refused by name.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "nlohmann/json.hpp"
#include "runtime/base/log.h"
#include "runtime/convert/hugging_face.h"
#include "runtime/convert/tokenizer_metadata.h"
#include "runtime/text/tokenizer.h"
#include "runtime/weights/gguf_source.h"
#include "tests/support/hugging_face_folder.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

const std::string kGolden = MOONLIT_SOURCE_DIR "/tests/data/golden/";
const std::string kFolders = MOONLIT_SOURCE_DIR "/tests/data/hugging_face/";

std::unique_ptr<const Tokenizer> MakeTokenizer(const Metadata& metadata) {
  auto data = ReadTokenizerData(metadata);
  EXPECT_TRUE(data.ok()) << data.status().ToString();
  auto tokenizer = Tokenizer::Create(std::move(*data));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().ToString();
  return std::move(*tokenizer);
}

TEST(HuggingFace, TokenizersOfTheirOwnLibraryGiveItsIds) {
  for (const char* name : {"llama", "mixtral", "bert"}) {
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

// A folder with tokenizer.model alone. Its golden ids are SentencePiece's (tests/data/recipes/make_sentencepiece_golden.py).
Result<std::shared_ptr<const MetadataMap>> OpenPieces(const std::string& model, const nlohmann::json& tokenizer_config,
                                                      const std::string& added = "{}") {
  const TempFolder folder;
  auto config = nlohmann::json::parse(ReadWholeFile(kGolden + "mistral/golden.json"))["hf_config"];
  config["vocab_size"] = 340;
  folder.Write("config.json", config.dump());
  folder.Write("tokenizer.model", model);
  folder.Write("tokenizer_config.json", tokenizer_config.dump());
  folder.Write("added_tokens.json", added);
  return OpenHuggingFaceTokenizer(folder.path(), "");
}

TEST(HuggingFace, SentencePieceModelsGiveTheirOwnIds) {
  const std::string model = ReadWholeFile(kFolders + "sentencepiece/bpe.model");
  const auto golden = nlohmann::json::parse(ReadWholeFile(kFolders + "sentencepiece/golden.json"));
  const auto metadata = OpenPieces(model, nlohmann::json::object());
  ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
  EXPECT_EQ((*metadata)->GetStrings("tokenizer.ggml.tokens")->size(), 340u);
  const auto tokenizer = MakeTokenizer(**metadata);
  for (const auto& probe : golden["texts"]) {
    const auto ids = tokenizer->Encode(probe["text"].get<std::string>(), {.add_special = true});
    EXPECT_EQ(ids.value(), probe["ids"].get<std::vector<int32_t>>()) << probe["text"];
  }
  // What the other files add, and how they end and begin a text.
  const nlohmann::json config = {{"add_bos_token", false},
                                 {"add_eos_token", true},
                                 {"added_tokens_decoder", {{"331", {{"content", "<|go|>"}, {"special", true}}}}}};
  const auto more = OpenPieces(model, config, R"({"<pad>": 330})");
  ASSERT_TRUE(more.ok()) << more.status().ToString();
  const auto wider = MakeTokenizer(**more);
  EXPECT_EQ(wider->Encode("<|go|>", {.add_special = true, .parse_special = true}).value(),
            (std::vector<int32_t>{331, 2}));
  EXPECT_EQ(wider->TokenToId("<pad>"), 330);
}

TEST(HuggingFace, SentencePieceModelsAreRefusedByName) {
  const std::string model = ReadWholeFile(kFolders + "sentencepiece/bpe.model");
  const nlohmann::json none = nlohmann::json::object();
  const Status unigram = OpenPieces(ReadWholeFile(kFolders + "sentencepiece/unigram.model"), none).status();
  EXPECT_EQ(unigram.code(), Code::kUnsupported);
  EXPECT_NE(unigram.message().find("Unigram"), std::string_view::npos) << unigram.ToString();
  EXPECT_EQ(OpenPieces("", none).status().code(), Code::kNotFound);
  EXPECT_EQ(OpenPieces("not a model", none).status().code(), Code::kCorrupt);
  EXPECT_EQ(OpenPieces(model, {{"added_tokens_decoder", {{"x1", {{"content", "a"}}}}}}).status().code(),
            Code::kCorrupt);
  EXPECT_EQ(OpenPieces(model, none, R"({"a": -1})").status().code(), Code::kCorrupt);
  // However it is cut, it is a Status or a tokenizer.
  for (size_t size = 1; size < model.size(); size += 37) {
    const auto cut = OpenPieces(model.substr(0, size), none);
    EXPECT_TRUE(!cut.ok() || ReadTokenizerData(**cut).ok()) << size;
  }
}

// Gemma's runs of spaces are added tokens, written with the character that stands for a space. The ids are those of tokenizers
// 0.23.3 for the same file, and of SentencePiece 0.2.3 for the same model.
TEST(HuggingFace, AddedTokensOfSpacesAreReachedByMerges) {
  using Json = nlohmann::json;
  const std::string space = "\xe2\x96\x81", two = space + space, four = two + two;
  const auto expect = [](const Metadata& metadata, const char* text, const std::vector<int32_t>& ids) {
    const auto tokenizer = MakeTokenizer(metadata);
    EXPECT_EQ(tokenizer->Encode(text, {.parse_special = true}).value(), ids) << text;
    EXPECT_EQ(tokenizer->Decode(ids, {}).value(), text);
  };
  const TempFolder folder;
  WriteHuggingFaceFolder(kGolden + "mistral", folder.path());
  Json json = Json::parse(ReadWholeFile(folder.path() + "/tokenizer.json"));
  json["normalizer"] = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", space}};
  Json& model = json["model"];
  for (const auto& [id, old, content] : {std::tuple(318, "3", two), std::tuple(319, "4", four)}) {
    model["vocab"].erase(old);
    model["vocab"][content] = id;
    json["added_tokens"].push_back({{"id", id}, {"content", content}, {"special", false}, {"normalized", false}});
  }
  model["merges"].insert(model["merges"].begin(), {space + " " + space, two + " " + two});
  folder.Write("tokenizer.json", json.dump());
  const auto opened = OpenHuggingFace(folder.path(), "");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const Metadata& spaces = *opened->metadata;
  expect(spaces, "if x:\n    y", {291, 301, 284, 315, 61, 13, 319, 310});
  expect(spaces, "a     and", {287, 319, 268});
  expect(spaces, "the       the      ", {286, 288, 285, 319, 318, 261, 319, 318});

  // The same as user-defined pieces of a tokenizer.model: text, score 0, type 4. Named once more in tokenizer_config.json or not.
  std::string pieces = ReadWholeFile(kFolders + "sentencepiece/bpe.model");
  for (const std::string& text : {two, four}) {
    const std::string piece =
        "\x0a" + std::string(1, static_cast<char>(text.size())) + text + std::string("\x15\0\0\0\0\x18\x04", 7);
    pieces += "\x0a" + std::string(1, static_cast<char>(piece.size())) + piece;
  }
  const Json named = {{"331", {{"content", four}, {"special", false}, {"normalized", false}}}};
  for (const Json& config : {Json::object(), Json{{"added_tokens_decoder", named}}}) {
    const auto metadata = OpenPieces(pieces, config);
    ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
    expect(**metadata, "if x:\n    y", {291, 301, 319, 291, 327, 317, 13, 331, 328});
    expect(**metadata, "the     the  ", {263, 331, 263, 330});
    expect(**metadata, "the   quick", {263, 330, 291, 286, 301, 277});
    expect(**metadata, "  the", {330, 263});
  }
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

// Gemma 3's small models have no row for the token of an image, which their tokenizers share with the large ones.
TEST(HuggingFace, LeavesOutAddedTokensBeyondTheEmbedding) {
  using Json = nlohmann::json;
  std::vector<std::string> warnings;
  Log log([&](LogLevel level, const char* text) {
    if (level == LogLevel::kWarning) warnings.push_back(text);
  });
  const LogScope scope(&log);
  const TempFolder folder;
  WriteHuggingFaceFolder(kGolden + "qwen2", folder.path());
  const auto plain = OpenHuggingFace(folder.path(), "");
  ASSERT_TRUE(plain.ok()) << plain.status().ToString();
  const auto tokens = plain->metadata->GetStrings("tokenizer.ggml.tokens").value();
  Json json = Json::parse(ReadWholeFile(folder.path() + "/tokenizer.json"));
  for (const char* content : {"<image_soft_token>", "<image>"})
    json["added_tokens"].push_back({{"id", tokens.size() + json["added_tokens"].size()},
                                    {"content", content},
                                    {"special", true},
                                    {"rstrip", true}});
  json["added_tokens"].push_back({{"id", uint64_t{1} << 40}, {"content", "far"}});
  folder.Write("tokenizer.json", json.dump());
  EXPECT_TRUE(warnings.empty());
  const auto model = OpenHuggingFace(folder.path(), "");
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("<image_soft_token>"), std::string::npos) << warnings[0];
  EXPECT_EQ(model->metadata->GetStrings("tokenizer.ggml.tokens").value(), tokens);
  EXPECT_EQ(MakeTokenizer(*model->metadata)->Encode("<image>  x", {.parse_special = true}).value(),
            MakeTokenizer(*plain->metadata)->Encode("<image>  x", {.parse_special = true}).value());

  warnings.clear();
  const Json config = {{"added_tokens_decoder", {{"999", {{"content", "a"}, {"special", true}}}}}};
  const auto pieces = OpenPieces(ReadWholeFile(kFolders + "sentencepiece/bpe.model"), config, R"({"b": 340})");
  ASSERT_TRUE(pieces.ok()) << pieces.status().ToString();
  EXPECT_EQ((*pieces)->GetStrings("tokenizer.ggml.tokens")->size(), 340u);
  EXPECT_EQ(warnings.size(), 1u);
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
  EXPECT_EQ(with("/added_tokens", {{{"id", -1}, {"content", "x"}}}), Code::kCorrupt);
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

TEST(HuggingFace, WordPiecePartsAreComputedOrRefused) {
  using Json = nlohmann::json;
  const auto with = [](const std::string& path, const Json& value) {
    const TempFolder folder;
    WriteHuggingFaceFolder(kGolden + "bert", folder.path());
    Json json = Json::parse(ReadWholeFile(folder.path() + "/tokenizer.json"));
    json[Json::json_pointer(path)] = value;
    folder.Write("tokenizer.json", json.dump());
    return OpenHuggingFaceTokenizer(folder.path(), "");
  };
  const auto refused = [&](const char* path, const Json& value, const char* named) {
    const Status status = with(path, value).status();
    EXPECT_EQ(status.code(), Code::kUnsupported) << path << " " << value;
    EXPECT_NE(status.message().find(named), std::string_view::npos) << named << ": " << status.ToString();
  };
  refused("/model/continuing_subword_prefix", "@@", "continuing_subword_prefix");
  refused("/normalizer/clean_text", false, "clean_text");
  refused("/normalizer/handle_chinese_chars", false, "handle_chinese_chars");
  refused("/normalizer", {{"type", "NFKC"}}, "NFKC");
  refused("/pre_tokenizer", {{"type", "Whitespace"}}, "Whitespace");
  refused("/post_processor/single", Json::array({{{"Sequence", {{"id", "A"}}}}}), "post_processor");
  refused("/post_processor", {{"type", "BertProcessing"}, {"sep", {"[MASK]", 4}}, {"cls", {"[CLS]", 2}}}, "[MASK]");
  refused("/post_processor", {{"type", "BertProcessing"}}, "post_processor");
  const auto same = with("/post_processor", {{"type", "BertProcessing"}, {"sep", {"[SEP]", 3}}, {"cls", {"[CLS]", 2}}});
  ASSERT_TRUE(same.ok()) << same.status().ToString();
  const auto ids = [](const Metadata& metadata, const char* text) {
    return MakeTokenizer(metadata)->Encode(text, {}).value();
  };
  EXPECT_EQ(ids(**same, "THE"), ids(**same, "the"));
  const auto cased = with("/normalizer/lowercase", false);
  ASSERT_TRUE(cased.ok()) << cased.status().ToString();
  EXPECT_NE(ids(**cased, "THE"), ids(**cased, "the"));
  EXPECT_NE(ids(**cased, "th\xc3\xa9"), ids(**cased, "the"));
  const auto bare = with("/normalizer", {{"type", "BertNormalizer"}, {"lowercase", false}, {"strip_accents", true}});
  ASSERT_TRUE(bare.ok()) << bare.status().ToString();
  EXPECT_EQ(ids(**bare, "th\xc3\xa9"), ids(**bare, "the"));
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

// Files of Phi-3 keep nowhere but in their name that control tokens take the white space behind them along. A folder's name is its
// user's, and its tokenizer says of each token what it strips.
TEST(HuggingFace, AFoldersNameChangesNoIds) {
  const TempFolder outer, out;
  const std::string folder = outer.path() + "/my-phi3-notes";
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  WriteHuggingFaceFolder(kGolden + "mistral", folder);
  const auto model = OpenHuggingFace(folder, "");
  ASSERT_TRUE(model.ok()) << model.status().ToString();
  ASSERT_EQ(model->metadata->GetString("general.name").value(), "my-phi3-notes");
  const std::string path = out.path() + "/out.gguf";
  ASSERT_TRUE(ConvertFolder(folder, path, "", {}).ok());
  const auto file = GgufSource::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const auto plain = GgufSource::Open(kGolden + "mistral/model.gguf");
  ASSERT_TRUE(plain.ok());
  const auto ids = [](const Metadata& metadata) {
    return MakeTokenizer(metadata)->Encode("the</s>  and", {.parse_special = true}).value();
  };
  EXPECT_EQ(ids(*model->metadata), ids((*plain)->metadata()));
  EXPECT_EQ(ids((*file)->metadata()), ids((*plain)->metadata()));
}

}  // namespace
}  // namespace moonlit
