// SPDX-License-Identifier: Apache-2.0
#include "runtime/convert/tokenizer_metadata.h"

namespace moonlit {
namespace {

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
    {"normalizer.nfc", &TokenizerData::normalizer_nfc},
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

// Ids that are none are left out.
Status TakeTokens(const Metadata& metadata, const char* key, std::vector<int32_t>* ids) {
  std::vector<int64_t> values;
  MOONLIT_RETURN_IF_ERROR(Take(metadata.GetInts(Key(key)), &values));
  for (const int64_t id : values) {
    if (id >= 0 && id <= INT32_MAX) ids->push_back(static_cast<int32_t>(id));
  }
  return Status();
}

// -1 and, from converters that write every id as 32 unsigned bits, 2^32 - 1 say "none". Whether other values are tokens is for
// Tokenizer::Create to say.
Status ReadIds(const Metadata& metadata, TokenizerData* data) {
  for (const TokenIdKey& id : kTokenIdKeys) {
    int64_t value = kNoToken;
    MOONLIT_RETURN_IF_ERROR(Take(metadata.GetInt(Key(id.key)), &value));
    data->*id.field = value == UINT32_MAX ? kNoToken : value;
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
  data.strips_stated = metadata.Has(Key("strip_left_token_ids")) || metadata.Has(Key("strip_right_token_ids"));
  MOONLIT_RETURN_IF_ERROR(TakeTokens(metadata, "strip_left_token_ids", &data.strip_left_ids));
  MOONLIT_RETURN_IF_ERROR(TakeTokens(metadata, "strip_right_token_ids", &data.strip_right_ids));
  MOONLIT_RETURN_IF_ERROR(Take(metadata.GetString("tokenizer.chat_template"), &data.chat_template));
  MOONLIT_RETURN_IF_ERROR(Take(metadata.GetString("general.name"), &data.general_name));
  MOONLIT_RETURN_IF_ERROR(Take(metadata.GetString("general.architecture"), &data.architecture));
  return data;
}

}  // namespace moonlit
