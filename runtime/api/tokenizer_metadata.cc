// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/tokenizer_metadata.h"

namespace moonlit {
namespace {

struct IdKey {
  const char* key;
  int32_t TokenizerData::*field;
};
constexpr IdKey kIdKeys[] = {
    {"bos_token_id", &TokenizerData::bos_id},         {"eos_token_id", &TokenizerData::eos_id},
    {"eot_token_id", &TokenizerData::eot_id},         {"eom_token_id", &TokenizerData::eom_id},
    {"unknown_token_id", &TokenizerData::unk_id},     {"seperator_token_id", &TokenizerData::sep_id},
    {"padding_token_id", &TokenizerData::pad_id},     {"cls_token_id", &TokenizerData::cls_id},
    {"mask_token_id", &TokenizerData::mask_id},       {"fim_pre_token_id", &TokenizerData::fim_pre_id},
    {"fim_suf_token_id", &TokenizerData::fim_suf_id}, {"fim_mid_token_id", &TokenizerData::fim_mid_id},
    {"fim_pad_token_id", &TokenizerData::fim_pad_id}, {"fim_rep_token_id", &TokenizerData::fim_rep_id},
    {"fim_sep_token_id", &TokenizerData::fim_sep_id},
};

struct FlagKey {
  const char* key;
  std::optional<bool> TokenizerData::*field;
};
constexpr FlagKey kFlagKeys[] = {
    {"add_bos_token", &TokenizerData::add_bos},
    {"add_eos_token", &TokenizerData::add_eos},
    {"add_sep_token", &TokenizerData::add_sep},
    {"add_space_prefix", &TokenizerData::add_space_prefix},
    {"remove_extra_whitespaces", &TokenizerData::remove_extra_whitespaces},
    {"normalizer.lowercase", &TokenizerData::normalizer_lowercase},
    {"normalizer.strip_accents", &TokenizerData::normalizer_strip_accents},
};

std::string Key(const char* suffix) { return std::string("tokenizer.ggml.") + suffix; }

// Absent keys leave the field as it is.
template <typename T>
Status Take(Result<T> found, T* field) {
  if (found.ok()) {
    *field = std::move(found).value();
    return Status();
  }
  return found.status().code() == Code::kNotFound ? Status() : found.status();
}

Status ReadIds(const Metadata& metadata, TokenizerData* data) {
  for (const IdKey& id : kIdKeys) {
    uint64_t value = 0;
    if (!metadata.Has(Key(id.key))) continue;
    MOONLIT_RETURN_IF_ERROR(Take(metadata.GetUint(Key(id.key)), &value));
    // Some converters write -1 cast to unsigned for "none".
    data->*id.field = value > INT32_MAX ? kNoToken : static_cast<int32_t>(value);
  }
  return Status();
}

}  // namespace

Result<TokenizerData> ReadTokenizerData(const Metadata& metadata) {
  TokenizerData data;
  MOONLIT_ASSIGN_OR_RETURN(data.model, metadata.GetString(Key("model")));
  MOONLIT_ASSIGN_OR_RETURN(data.tokens, metadata.GetStrings(Key("tokens")));
  MOONLIT_RETURN_IF_ERROR(Take(metadata.GetString(Key("pre")), &data.pre));
  MOONLIT_RETURN_IF_ERROR(Take(metadata.GetFloats(Key("scores")), &data.scores));
  MOONLIT_RETURN_IF_ERROR(Take(metadata.GetStrings(Key("merges")), &data.merges));
  std::vector<int64_t> types;
  MOONLIT_RETURN_IF_ERROR(Take(metadata.GetInts(Key("token_type")), &types));
  data.token_types.assign(types.begin(), types.end());
  MOONLIT_RETURN_IF_ERROR(ReadIds(metadata, &data));
  for (const FlagKey& flag : kFlagKeys) {
    bool value = false;
    if (!metadata.Has(Key(flag.key))) continue;
    MOONLIT_RETURN_IF_ERROR(Take(metadata.GetBool(Key(flag.key)), &value));
    data.*flag.field = value;
  }
  MOONLIT_RETURN_IF_ERROR(Take(metadata.GetString("tokenizer.chat_template"), &data.chat_template));
  MOONLIT_RETURN_IF_ERROR(Take(metadata.GetString("general.name"), &data.general_name));
  MOONLIT_RETURN_IF_ERROR(Take(metadata.GetString("general.architecture"), &data.architecture));
  return data;
}

}  // namespace moonlit
