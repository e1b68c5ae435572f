// SPDX-License-Identifier: Apache-2.0
#include "gguf_tokenizer.h"

#include <filesystem>

#include "runtime/gguf/gguf.h"

namespace moonlit::test {
namespace {

int32_t IdOrNone(const GgufFile& file, const std::string& key) {
  const auto id = file.GetU32("tokenizer.ggml." + key);
  return id.ok() ? static_cast<int32_t>(id.value()) : kNoToken;
}

std::optional<bool> BoolOrNone(const GgufFile& file, const std::string& key) {
  const auto value = file.GetBool("tokenizer.ggml." + key);
  return value.ok() ? std::optional<bool>(value.value()) : std::nullopt;
}

std::string StringOrEmpty(const GgufFile& file, const std::string& key) {
  const auto value = file.GetString(key);
  return value.ok() ? std::string(value.value()) : std::string();
}

std::vector<std::string> Strings(const GgufFile& file, const std::string& key) {
  std::vector<std::string> out;
  const auto strings = file.GetStringArray("tokenizer.ggml." + key);
  if (!strings.ok()) return out;
  for (size_t i = 0; i < strings.value().size(); ++i) out.emplace_back(strings.value()[i]);
  return out;
}

}  // namespace

Result<TokenizerData> ReadTokenizerData(const std::string& path) {
  MOONLIT_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  TokenizerData data;
  data.model = StringOrEmpty(file, "tokenizer.ggml.model");
  data.pre = StringOrEmpty(file, "tokenizer.ggml.pre");
  data.tokens = Strings(file, "tokens");
  data.merges = Strings(file, "merges");
  if (auto scores = file.GetF32Array("tokenizer.ggml.scores"); scores.ok()) data.scores = std::move(scores).value();
  if (auto types = file.GetI32Array("tokenizer.ggml.token_type"); types.ok())
    data.token_types = std::move(types).value();
  data.bos_id = IdOrNone(file, "bos_token_id");
  data.eos_id = IdOrNone(file, "eos_token_id");
  data.eot_id = IdOrNone(file, "eot_token_id");
  data.unk_id = IdOrNone(file, "unknown_token_id");
  data.sep_id = IdOrNone(file, "seperator_token_id");
  data.pad_id = IdOrNone(file, "padding_token_id");
  data.cls_id = IdOrNone(file, "cls_token_id");
  data.mask_id = IdOrNone(file, "mask_token_id");
  data.add_bos = BoolOrNone(file, "add_bos_token");
  data.add_eos = BoolOrNone(file, "add_eos_token");
  data.add_space_prefix = BoolOrNone(file, "add_space_prefix");
  data.chat_template = StringOrEmpty(file, "tokenizer.chat_template");
  data.general_name = StringOrEmpty(file, "general.name");
  data.architecture = StringOrEmpty(file, "general.architecture");
  return data;
}

Result<std::unique_ptr<const Tokenizer>> ReadTokenizer(const std::string& path) {
  MOONLIT_ASSIGN_OR_RETURN(TokenizerData data, ReadTokenizerData(path));
  return Tokenizer::Create(std::move(data));
}

TokenizerData FromJson(const nlohmann::json& json, const std::string& pre) {
  const auto flag = [&](const char* key) {
    return json.contains(key) ? std::optional<bool>(json[key].get<bool>()) : std::nullopt;
  };
  TokenizerData data;
  data.model = json["model"];
  data.pre = pre.empty() ? json.value("pre", "") : pre;
  data.tokens = json["tokens"].get<std::vector<std::string>>();
  data.merges = json.value("merges", std::vector<std::string>());
  data.scores = json.value("scores", std::vector<float>());
  data.token_types = json["token_type"].get<std::vector<int32_t>>();
  data.bos_id = json.value("bos_token_id", kNoToken);
  data.eos_id = json.value("eos_token_id", kNoToken);
  data.unk_id = json.value("unknown_token_id", kNoToken);
  data.sep_id = json.value("seperator_token_id", kNoToken);
  data.pad_id = json.value("padding_token_id", kNoToken);
  data.cls_id = json.value("cls_token_id", kNoToken);
  data.mask_id = json.value("mask_token_id", kNoToken);
  data.add_bos = flag("add_bos_token");
  data.add_eos = flag("add_eos_token");
  data.add_space_prefix = flag("add_space_prefix");
  return data;
}

std::string VocabularyFolder() { return std::string(MOONLIT_SOURCE_DIR) + "/../shared/fixtures/tokenizers"; }

bool Exists(const std::string& path) { return std::filesystem::exists(path); }

std::string FromHex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

}  // namespace moonlit::test
