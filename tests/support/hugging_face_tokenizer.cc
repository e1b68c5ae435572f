// SPDX-License-Identifier: Apache-2.0
#include "tests/support/hugging_face_tokenizer.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <vector>

#include "kernels/base/check.h"
#include "nlohmann/json.hpp"

namespace moonlit {
namespace {

using Json = nlohmann::ordered_json;

void Save(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary);
  out << bytes;
  out.close();
  MOONLIT_CHECK(out.good());
}

Json Split(const std::string& regex) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
}

// What the families' own files have.
Json PreTokenizerOf(const std::string& pre) {
  const std::string words = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)";
  const std::string rest = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const bool threes = pre == "llama-bpe" || pre == "glm4", ones = pre == "qwen2" || pre == "stablelm2",
             seed = pre == "seed-coder";
  Json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", !threes && !ones && !seed}};
  Json steps = Json::array();
  if (threes) steps.push_back(Split(words + R"(\p{N}{1,3})" + rest));
  if (seed) steps.push_back(Split(words + R"(\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"));
  if (ones) steps.push_back(Split(words + R"(\p{N})" + rest));
  if (pre == "falcon") {
    bytes["use_regex"] = true;
    return {{"type", "Sequence"},
            {"pretokenizers",
             {{{"type", "Punctuation"}, {"behavior", "Contiguous"}},
              bytes,
              {{"type", "Digits"}, {"individual_digits", false}},
              Split("[0-9][0-9][0-9]")}}};
  }
  if (pre == "refact" || pre == "smollm" || pre == "starcoder" || pre == "command-r")
    steps.push_back({{"type", "Digits"}, {"individual_digits", true}});
  steps.push_back(bytes);
  return {{"type", "Sequence"}, {"pretokenizers", steps}};
}

Json BytePairs(const GgufFile& file, const std::string& pre) {
  Json json;
  json["model"] = {
      {"type", "BPE"}, {"vocab", Json::object()}, {"merges", Json::array()}, {"ignore_merges", pre == "llama-bpe"}};
  json["pre_tokenizer"] = PreTokenizerOf(pre);
  if (pre == "qwen2") json["normalizer"] = {{"type", "NFC"}};
  const GgufStrings merges = file.GetStringArray("tokenizer.ggml.merges").value();
  for (size_t i = 0; i < merges.size(); ++i) json["model"]["merges"].push_back(std::string(merges[i]));
  return json;
}

// Every pair of pieces whose union is a piece, best score first, as transformers makes merges from SentencePiece.
Json PiecePairs(const std::vector<std::string>& tokens, const std::vector<float>& scores) {
  std::map<std::string, size_t> ids;
  for (size_t i = 0; i < tokens.size(); ++i) ids.emplace(tokens[i], i);
  std::vector<std::pair<float, std::string>> pairs;
  for (size_t i = 0; i < tokens.size(); ++i) {
    for (size_t cut = 1; cut < tokens[i].size(); ++cut) {
      const std::string left = tokens[i].substr(0, cut), right = tokens[i].substr(cut);
      if (ids.count(left) != 0 && ids.count(right) != 0) pairs.push_back({-scores[i], left + " " + right});
    }
  }
  std::stable_sort(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Json merges = Json::array();
  for (const auto& [score, pair] : pairs) merges.push_back(pair);
  return merges;
}

// As bert-base-uncased's: pieces that begin no word are marked, in GGUF those that do.
void WriteWords(std::vector<std::string> tokens, const std::vector<int32_t>& types, const std::string& folder) {
  Json json;
  json["model"] = {
      {"type", "WordPiece"}, {"unk_token", "[UNK]"}, {"continuing_subword_prefix", "##"}, {"vocab", Json::object()}};
  json["normalizer"] = {{"type", "BertNormalizer"},
                        {"clean_text", true},
                        {"handle_chinese_chars", true},
                        {"strip_accents", nullptr},
                        {"lowercase", true}};
  json["pre_tokenizer"] = {{"type", "BertPreTokenizer"}};
  const auto special = [](const char* token) { return Json{{"SpecialToken", {{"id", token}, {"type_id", 0}}}}; };
  json["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single", {special("[CLS]"), {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}, special("[SEP]")}}};
  json["added_tokens"] = Json::array();
  for (size_t i = 0; i < tokens.size(); ++i) {
    std::string& token = tokens[i];
    const std::string space = "\xe2\x96\x81";
    if (types[i] != 1) {
      json["added_tokens"].push_back({{"id", i}, {"content", token}, {"special", true}});
    } else {
      token = token.starts_with(space) ? token.substr(space.size()) : "##" + token;
    }
    json["model"]["vocab"][token] = i;
  }
  Save(folder + "/tokenizer.json", json.dump());
  const Json config = {{"cls_token", "[CLS]"},
                       {"sep_token", "[SEP]"},
                       {"unk_token", "[UNK]"},
                       {"pad_token", "[PAD]"},
                       {"mask_token", "[MASK]"}};
  Save(folder + "/tokenizer_config.json", config.dump());
}

}  // namespace

void WriteHuggingFaceTokenizer(const GgufFile& file, const std::string& folder) {
  std::vector<std::string> tokens;
  const GgufStrings texts = file.GetStringArray("tokenizer.ggml.tokens").value();
  for (size_t i = 0; i < texts.size(); ++i) tokens.emplace_back(texts[i]);
  const std::vector<int32_t> types = file.GetI32Array("tokenizer.ggml.token_type").value();
  const std::string model(file.GetString("tokenizer.ggml.model").value());
  if (model == "bert") return WriteWords(std::move(tokens), types, folder);
  Json json;
  if (model == "llama") {
    json["model"] = {{"type", "BPE"}, {"vocab", Json::object()}, {"byte_fallback", true}, {"unk_token", "<unk>"}};
    json["model"]["merges"] = PiecePairs(tokens, file.GetF32Array("tokenizer.ggml.scores").value());
    json["normalizer"] = {{"type", "Prepend"}, {"prepend", "\xe2\x96\x81"}};
  } else {
    json = BytePairs(file, std::string(file.GetString("tokenizer.ggml.pre").value()));
  }
  json["added_tokens"] = Json::array();
  for (size_t i = 0; i < tokens.size(); ++i) {
    const bool special = types[i] == 2 || types[i] == 3;
    if (special || types[i] == 4) {
      json["added_tokens"].push_back({{"id", i}, {"content", tokens[i]}, {"special", special}});
    } else {
      json["model"]["vocab"][tokens[i]] = i;
    }
  }
  Save(folder + "/tokenizer.json", json.dump());
  Json config = {{"add_bos_token", file.GetBool("tokenizer.ggml.add_bos_token").value()},
                 {"add_eos_token", file.GetBool("tokenizer.ggml.add_eos_token").value()},
                 {"bos_token", tokens[file.GetU32("tokenizer.ggml.bos_token_id").value()]},
                 {"eos_token", {{"content", tokens[file.GetU32("tokenizer.ggml.eos_token_id").value()]}}}};
  if (const auto turn = file.GetU32("tokenizer.ggml.eot_token_id"); turn.ok())
    config["eot_token"] = tokens[turn.value()];
  Save(folder + "/tokenizer_config.json", config.dump());
}

}  // namespace moonlit
