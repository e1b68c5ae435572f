// SPDX-License-Identifier: Apache-2.0
#include "runtime/convert/hugging_face.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>
#include <variant>
#include <vector>

#include "models/common/hugging_face.h"
#include "runtime/base/file.h"
#include "runtime/convert/check_model.h"
#include "runtime/convert/hugging_face_source.h"
#include "runtime/convert/write_tensors.h"
#include "runtime/json/json.h"
#include "runtime/text/tokenizer_json.h"
#include "runtime/text/tokenizer_json_parts.h"

namespace moonlit {
namespace {

constexpr uint64_t kMostJsonBytes = uint64_t{256} << 20;

// Empty when there is no such file.
Result<std::string> ReadOptional(const std::string& path) {
  Result<std::string> text = ReadText(path, kMostJsonBytes);
  return text.ok() || text.status().code() != Code::kNotFound ? text : Result<std::string>(std::string());
}

Result<Json> ReadConfig(const std::string& folder) {
  const std::string path = folder + "/config.json";
  Result<std::string> text = ReadText(path, kMostJsonBytes);
  if (text.status().code() == Code::kNotFound) {
    return Errorf(Code::kNotFound,
                  "folder %s: expected a Hugging Face model, but there is no config.json: name its folder, or a "
                  "GGUF file",
                  folder.c_str());
  }
  MOONLIT_RETURN_IF_ERROR(text.status());
  Result<Json> config = ParseJson(*text);
  if (config.status().code() == Code::kOutOfMemory || (config.ok() && config->is_object())) return config;
  return Errorf(Code::kCorrupt, "file %s: expected a JSON object, nested at most %zu deep; download it again",
                path.c_str(), kMostJsonDepth);
}

Result<TokenizerData> ReadTokenizer(const std::string& folder, const std::string& pre, const std::string& architecture,
                                    size_t vocab_size) {
  Result<std::string> json = ReadText(folder + "/tokenizer.json", kMostJsonBytes);
  std::string pieces;
  if (json.status().code() == Code::kNotFound) {
    MOONLIT_ASSIGN_OR_RETURN(pieces, ReadOptional(folder + "/tokenizer.model"));
    if (pieces.empty()) {
      return Errorf(Code::kNotFound,
                    "folder %s: there is no tokenizer.json and no tokenizer.model, one of which this build reads the "
                    "tokenizer from",
                    folder.c_str());
    }
    json = std::string();
  }
  MOONLIT_RETURN_IF_ERROR(json.status());
  MOONLIT_ASSIGN_OR_RETURN(const std::string added_tokens, ReadOptional(folder + "/added_tokens.json"));
  MOONLIT_ASSIGN_OR_RETURN(const std::string tokenizer_config, ReadOptional(folder + "/tokenizer_config.json"));
  MOONLIT_ASSIGN_OR_RETURN(const std::string config, ReadText(folder + "/config.json", kMostJsonBytes));
  MOONLIT_ASSIGN_OR_RETURN(const std::string chat_template, ReadOptional(folder + "/chat_template.jinja"));
  TokenizerFiles files;
  files.tokenizer_json = *json;
  files.tokenizer_model = pieces;
  files.added_tokens_json = added_tokens;
  files.tokenizer_config_json = tokenizer_config;
  files.config_json = config;
  files.chat_template = chat_template;
  files.architecture = architecture;
  files.pre = pre;
  files.vocab_size = vocab_size;
  Result<TokenizerData> data = ImportTokenizer(files);
  return data.ok() ? std::move(data) : Result<TokenizerData>(data.status().WithContext("folder " + folder));
}

void SetTokenizerKeys(const TokenizerData& data, MetadataMap* metadata) {
  const std::string prefix = "tokenizer.ggml.";
  metadata->Set(prefix + "model", data.model);
  metadata->Set(prefix + "pre", data.pre);
  metadata->Set(prefix + "tokens", data.tokens);
  if (!data.scores.empty()) metadata->Set(prefix + "scores", data.scores);
  metadata->Set(prefix + "token_type", data.token_types);
  if (!data.merges.empty()) metadata->Set(prefix + "merges", data.merges);
  for (const TokenIdKey& id : kTokenIdKeys) {
    if (data.*id.field != kNoToken) metadata->Set(prefix + id.key, static_cast<uint32_t>(data.*id.field));
  }
  const auto flag = [&](const char* key, const std::optional<bool>& value) {
    if (value) metadata->Set(prefix + key, *value);
  };
  flag("add_bos_token", data.add_bos);
  flag("add_eos_token", data.add_eos);
  flag("add_space_prefix", data.add_space_prefix);
  flag("normalizer.nfc", data.normalizer_nfc);
  flag("normalizer.lowercase", data.normalizer_lowercase);
  flag("normalizer.strip_accents", data.normalizer_strip_accents);
  if (data.strips_stated) {
    metadata->Set(prefix + "strip_left_token_ids", data.strip_left_ids);
    metadata->Set(prefix + "strip_right_token_ids", data.strip_right_ids);
  }
  if (!data.chat_template.empty()) metadata->Set("tokenizer.chat_template", data.chat_template);
}

// What sentence-transformers does with the hidden states, by modules.json and the pooling's own config; absent: nothing.
Status SetPooling(const std::string& folder, const std::string& architecture, MetadataMap* metadata) {
  MOONLIT_ASSIGN_OR_RETURN(const std::string text, ReadOptional(folder + "/modules.json"));
  if (text.empty()) return Status();
  const Result<Json> modules = ParseJson(text);
  if (modules.status().code() == Code::kOutOfMemory) return modules.status();
  if (!modules.ok() || !modules.value().is_array())
    return Errorf(Code::kCorrupt, "folder %s: modules.json: expected an array", folder.c_str());
  for (const Json module : *modules) {
    const std::string type = json_parts::Text(module, "type"), path = json_parts::Text(module, "path");
    if (type.ends_with(".Transformer") || type.ends_with(".Normalize")) continue;
    if (!type.ends_with(".Pooling") || path.empty() || path.find_first_of("/\\.") != std::string::npos) {
      return Errorf(Code::kUnsupported,
                    "folder %s: modules.json has a module \"%s\" in \"%s\", which this build can't compute",
                    folder.c_str(), type.substr(0, 80).c_str(), path.substr(0, 80).c_str());
    }
    MOONLIT_ASSIGN_OR_RETURN(const std::string config, ReadText(folder + "/" + path + "/config.json", kMostJsonBytes));
    const Result<Json> pooling = ParseJson(config);
    if (pooling.status().code() == Code::kOutOfMemory) return pooling.status();
    std::string chosen;
    for (size_t i = 0; pooling.ok() && pooling->is_object() && i < pooling->size(); ++i) {
      const std::string mode(pooling->Key(i));
      if (mode.starts_with("pooling_mode_") && json_parts::Flag(*pooling, mode.c_str(), false))
        chosen += (chosen.empty() ? "" : ", ") + mode;
    }
    static constexpr std::pair<const char*, uint32_t> kModes[] = {
        {"pooling_mode_mean_tokens", 1}, {"pooling_mode_cls_token", 2}, {"pooling_mode_lasttoken", 3}};
    const auto known =
        std::find_if(std::begin(kModes), std::end(kModes), [&](const auto& m) { return chosen == m.first; });
    if (known == std::end(kModes)) {
      return Errorf(
          Code::kUnsupported,
          "folder %s: %s/config.json pools by \"%s\": this build knows pooling_mode_mean_tokens, _cls_token and "
          "_lasttoken, one of them",
          folder.c_str(), path.c_str(), chosen.substr(0, 200).c_str());
    }
    metadata->Set(architecture + ".pooling_type", known->second);
  }
  return Status();
}

// "135M", or "8x7B" where there are experts (gguf-py's naming convention): two digits where one would be left.
std::string SizeLabel(const std::vector<const TensorInfo*>& tensors, size_t experts) {
  double count = 0;
  for (const TensorInfo* tensor : tensors) {
    const bool stacked = tensor->name.find("_exps.") != std::string::npos;
    count += static_cast<double>(tensor->shape.elements()) / static_cast<double>(stacked ? experts : 1);
  }
  static constexpr std::pair<double, char> kUnits[] = {{1e12, 'T'}, {1e9, 'B'}, {1e6, 'M'}, {1e3, 'K'}};
  const std::pair<double, char>* unit = kUnits;
  while (unit->first > count && unit != std::end(kUnits) - 1) ++unit;
  const double scaled = count / unit->first;
  char text[48];
  std::snprintf(text, sizeof text, "%.*f%c", std::nearbyint(scaled) < 10 ? 1 : 0, scaled, unit->second);
  return experts > 1 ? std::to_string(experts) + "x" + text : text;
}

std::string BaseName(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path.substr(path.rfind('/') + 1);
}

void WriteValue(const std::string& key, const MetadataMap::Value& value, GgufWriter* writer) {
  struct Setter {
    const std::string& key;
    GgufWriter* writer;
    void operator()(uint32_t v) const { writer->SetU32(key, v); }
    void operator()(float v) const { writer->SetF32(key, v); }
    void operator()(bool v) const { writer->SetBool(key, v); }
    void operator()(const std::string& v) const { writer->SetString(key, v); }
    void operator()(const std::vector<std::string>& v) const { writer->SetStringArray(key, v); }
    void operator()(const std::vector<int32_t>& v) const { writer->SetI32Array(key, v); }
    void operator()(const std::vector<float>& v) const { writer->SetF32Array(key, v); }
    void operator()(const std::vector<bool>& v) const { writer->SetBoolArray(key, v); }
  };
  std::visit(Setter{key, writer}, value);
}

// The type of the folder's matrices: that of the embedding.
Result<FileType> TypeOf(const WeightSource& weights) {
  const TensorInfo* table = weights.Find("token_embd.weight");
  return FindFileType(table == nullptr ? "F16" : Traits(table->format).name);
}

}  // namespace

bool IsFolder(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Result<HuggingFaceModel> OpenHuggingFace(const std::string& folder, const std::string& pre) {
  MOONLIT_ASSIGN_OR_RETURN(const Json config, ReadConfig(folder));
  Result<SafetensorsSet> set = SafetensorsSet::Open(folder);
  std::vector<std::string> names;
  if (set.ok()) {
    for (const SafetensorsEntry& entry : set->entries()) names.push_back(entry.tensor->name);
  }
  // Before its weights are asked for, which may be in files that this build can't read either.
  MOONLIT_RETURN_IF_ERROR(CheckHuggingFaceFamily(config, names).WithContext("folder " + folder));
  MOONLIT_RETURN_IF_ERROR(set.status());
  Result<MappedModel> mapped = MapHuggingFace(config, names);
  if (!mapped.ok()) return mapped.status().WithContext("folder " + folder);
  MOONLIT_ASSIGN_OR_RETURN(std::unique_ptr<HuggingFaceSource> source,
                           HuggingFaceSource::Create(std::move(*set), mapped->tensors, mapped->made, folder));
  MetadataMap& metadata = mapped->metadata;
  MOONLIT_ASSIGN_OR_RETURN(const std::string architecture, metadata.GetString("general.architecture"));
  const Result<uint64_t> experts = metadata.GetUint(architecture + ".expert_count");
  metadata.Set("general.name", BaseName(folder));
  metadata.Set("general.size_label", SizeLabel(source->All(), experts.ok() ? static_cast<size_t>(*experts) : 0));
  const TensorInfo* table = source->Find("token_embd.weight");
  if (table == nullptr)
    return Errorf(Code::kCorrupt, "folder %s: there is no embedding among its tensors", folder.c_str());
  MOONLIT_ASSIGN_OR_RETURN(const TokenizerData tokenizer,
                           ReadTokenizer(folder, pre, architecture, table->shape.rows()));
  SetTokenizerKeys(tokenizer, &metadata);
  MOONLIT_RETURN_IF_ERROR(SetPooling(folder, architecture, &metadata));
  return HuggingFaceModel{std::make_shared<const MetadataMap>(std::move(metadata)), std::move(source)};
}

std::string HeaderOf(const HuggingFaceModel& model) {
  GgufWriter writer;
  for (const auto& [key, value] : model.metadata->entries()) WriteValue(key, value, &writer);
  AddTensors(*model.weights, &writer);
  return writer.Header();
}

Result<std::shared_ptr<const MetadataMap>> OpenHuggingFaceTokenizer(const std::string& folder, const std::string& pre) {
  MOONLIT_ASSIGN_OR_RETURN(const Json config, ReadConfig(folder));
  // Maps no tensor: the keys are enough.
  Result<MappedModel> mapped = MapHuggingFace(config, {});
  if (!mapped.ok()) return mapped.status().WithContext("folder " + folder);
  MOONLIT_ASSIGN_OR_RETURN(const std::string architecture, mapped->metadata.GetString("general.architecture"));
  const Json size = config.Get("vocab_size");
  const bool stated = size.is_unsigned() && size.AsUnsigned() <= (uint64_t{1} << 24);
  MOONLIT_ASSIGN_OR_RETURN(
      const TokenizerData tokenizer,
      ReadTokenizer(folder, pre, architecture, stated ? static_cast<size_t>(size.AsUnsigned()) : 0));
  SetTokenizerKeys(tokenizer, &mapped->metadata);
  return std::make_shared<const MetadataMap>(std::move(mapped->metadata));
}

Result<QuantizeReport> ConvertFolder(const std::string& folder, const std::string& out, const std::string& pre,
                                     const QuantizeOptions& options) {
  MOONLIT_ASSIGN_OR_RETURN(const HuggingFaceModel model, OpenHuggingFace(folder, pre));
  Result<FileType> type = options.type.empty() ? TypeOf(*model.weights) : FindFileType(options.type);
  MOONLIT_RETURN_IF_ERROR(type.status());
  GgufWriter writer;
  for (const auto& [key, value] : model.metadata->entries()) WriteValue(key, value, &writer);
  QuantizeReport report;
  MOONLIT_ASSIGN_OR_RETURN(const std::unique_ptr<WeightSource> encoded,
                           EncodeForFile(model.weights, *model.metadata, *type, options, &writer, &report));
  MOONLIT_RETURN_IF_ERROR(RefuseInputs(out, encoded->Files()));
  MOONLIT_RETURN_IF_ERROR(CheckModel(*model.metadata, *encoded, pre).status());
  MOONLIT_RETURN_IF_ERROR(WriteTensors(*encoded, out, {options.pool, options.progress}, &writer));
  return report;
}

}  // namespace moonlit
