// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer_json.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "runtime/base/log.h"
#include "runtime/base/quote.h"
#include "runtime/json/json.h"
#include "runtime/text/pretokenizer.h"
#include "runtime/text/sentencepiece_model.h"
#include "runtime/text/replace_all.h"
#include "runtime/text/tokenizer_json_parts.h"
#include "runtime/text/tokenizer_json_refusals.h"
#include "runtime/text/utf8.h"

namespace moonlit {
namespace {

constexpr char kFile[] = "tokenizer.json";
constexpr float kOutsideScore = -10000;  // of tokens that a SentencePiece model does not have

Status Broken(const std::string& why) {
  return Errorf(Code::kCorrupt, "the tokenizer in %s or beside it: %s; download it again", kFile, why.c_str());
}

// Names that Hugging Face's tools leave without "special": true, though they are (llama.cpp, conversion/base.py).
bool LooksSpecial(std::string_view token) {
  if (token == "<pad>" || token == "<mask>" || token == "<2mass>" || token == "[@BOS@]") return true;
  return (token.starts_with("<|") && token.ends_with("|>")) ||
         (token.starts_with("<\xef\xbd\x9c") && token.ends_with("\xef\xbd\x9c>")) ||
         (token.starts_with("<unused") && token.ends_with(">"));
}

bool IsByteToken(std::string_view token) {
  const auto hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f'); };
  return token.size() == 6 && token.starts_with("<0x") && token[5] == '>' && hex(token[3]) && hex(token[4]);
}

// Of a token, as a file gives it.
struct Id {
  Id(const Json& value) : found(value), known(value.is_unsigned()), number(known ? value.AsUnsigned() : 0) {}  // NOLINT
  Id(uint64_t value) : known(true), number(value) {}                                                           // NOLINT
  std::string Shown() const { return known ? std::to_string(number) : JsonForMessage(found, 40); }

  Json found;
  bool known;  // else `found` is no id
  uint64_t number;
};

class Importer {
 public:
  Importer(const TokenizerFiles& files, const Json& json, const Json& config, const Json& model_config)
      : files_(files), json_(json), config_(config), model_config_(model_config) {}

  Result<TokenizerData> Run() {
    const Json model = json_.Get("model");
    MOONLIT_ASSIGN_OR_RETURN(kind_, KindOf(model));
    MOONLIT_RETURN_IF_ERROR(json_parts::RefuseForeignParts(json_, kind_));
    MOONLIT_RETURN_IF_ERROR(ReadVocabulary(model));
    MOONLIT_RETURN_IF_ERROR(ReadAddedTokens());
    WarnOfBeyond();
    FillHoles();
    data_.pre = "default";
    if (words()) {
      data_.model = "bert";
      MOONLIT_RETURN_IF_ERROR(SetWords(json_parts::Text(model, "unk_token")));
    } else {
      MOONLIT_RETURN_IF_ERROR(SetPairs(model));
    }
    SetChatTemplate();
    data_.architecture = std::string(files_.architecture);
    data_.strips_stated = true;
    return std::move(data_);
  }

  // From tokenizer.model, and what the other files add to it.
  Result<TokenizerData> RunPieces(const SentencePieceModel& model, const Json& added) {
    kind_ = json_parts::JsonKind::kPieces;
    data_.model = "llama";
    data_.pre = "default";
    const Json decoder = config_.Get("added_tokens_decoder");
    most_ = files_.vocab_size != 0 ? files_.vocab_size : model.pieces.size() + added.size() + decoder.size();
    for (size_t i = 0; i < model.pieces.size(); ++i) {
      const SentencePieceModel::Piece& piece = model.pieces[i];
      const bool spaces = piece.type == TokenType::kUserDefined && HasMetaSpace(piece.text);  // as those of AddToken
      MOONLIT_RETURN_IF_ERROR(Place(piece.text, i, spaces ? TokenType::kNormal : piece.type, false));
    }
    for (size_t i = 0; i < added.size(); ++i) {
      const std::string content(added.Key(i));
      const Id id = added[i];
      if (IsBeyond(content, id) || IsOfSpaces(content, id)) continue;
      MOONLIT_RETURN_IF_ERROR(Place(content, id, TokenType::kUserDefined, true));
    }
    if (!decoder.is_null() && !decoder.is_object()) return Broken("added_tokens_decoder: expected an object of ids");
    for (size_t i = 0; i < decoder.size(); ++i) {
      const std::string id(decoder.Key(i));
      if (id.empty() || id.size() > 8 || id.find_first_not_of("0123456789") != std::string::npos)
        return Broken("added_tokens_decoder: expected an id, found \"" + std::string(FrontForMessage(id, 40)) + "\"");
      MOONLIT_RETURN_IF_ERROR(AddToken(decoder[i], uint64_t{std::stoul(id)}, true));
    }
    WarnOfBeyond();
    FillHoles();
    // What is not of the model takes no part in merging.
    data_.scores.assign(data_.tokens.size(), kOutsideScore);
    for (size_t i = 0; i < model.pieces.size(); ++i) {
      if (data_.tokens[i] == model.pieces[i].text) data_.scores[i] = model.pieces[i].score;
    }
    SetPieceIds(model);
    data_.add_space_prefix = json_parts::Flag(config_, "add_prefix_space", model.add_space_prefix);
    // Where nothing is said, there is a BOS if there is a token for it.
    const Json begins = config_.Get("add_bos_token");
    if (begins.is_boolean()) data_.add_bos = begins.AsBoolean();
    data_.add_eos = json_parts::Flag(config_, "add_eos_token", false);
    SetChatTemplate();
    data_.architecture = std::string(files_.architecture);
    data_.strips_stated = true;
    return std::move(data_);
  }

 private:
  bool pieces() const { return kind_ == json_parts::JsonKind::kPieces; }
  bool words() const { return kind_ == json_parts::JsonKind::kWords; }

  static Result<json_parts::JsonKind> KindOf(const Json& model) {
    const std::string type = json_parts::Text(model, "type");
    if (type == "WordPiece") return json_parts::JsonKind::kWords;
    if (!model.is_object() || (type.empty() ? !model.Has("merges") : type != "BPE")) {
      return Errorf(Code::kUnsupported,
                    "%s: model of type \"%s\": this build reads BPE, byte-level or with byte fallback, and WordPiece",
                    kFile, std::string(FrontForMessage(type, 40)).c_str());
    }
    const bool pieces = json_parts::Flag(model, "byte_fallback", false);
    return pieces ? json_parts::JsonKind::kPieces : json_parts::JsonKind::kBytes;
  }

  // What BPE has beyond a vocabulary.
  Status SetPairs(const Json& model) {
    data_.model = pieces() ? "llama" : "gpt2";
    MOONLIT_RETURN_IF_ERROR(ReadMerges(model));
    if (pieces()) {
      SetScores();
      data_.add_space_prefix = AddsSpace();
    } else {
      data_.pre = std::string(files_.pre);
      if (data_.pre.empty()) {
        MOONLIT_ASSIGN_OR_RETURN(const json_parts::PreTokenizerName found,
                                 json_parts::FindPreTokenizer(json_, files_.architecture));
        data_.pre = found.name;
        data_.normalizer_nfc = found.normalizer_nfc;
      }
    }
    SetSpecialTokens(json_parts::Text(model, "unk_token"));
    return SetAddedAtEnds();
  }

  // What WordPiece has. GGUF marks the pieces that begin a word, the file those that do not ("##ing").
  Status SetWords(const std::string& unknown) {
    SetSpecialTokens(unknown);
    for (size_t i = 0; i < data_.tokens.size(); ++i) {
      if (data_.token_types[i] != static_cast<int32_t>(TokenType::kNormal)) continue;
      std::string& token = data_.tokens[i];
      token = token.starts_with("##") ? token.substr(2) : std::string(kMetaSpace) + token;
    }
    json_parts::ForEachStep(json_.Get("normalizer"), "normalizers", [&](const Json& step) {
      const bool lowercase = json_parts::Flag(step, "lowercase", true);
      const bool strip = json_parts::Flag(step, "strip_accents", lowercase);
      if (!lowercase) data_.normalizer_lowercase = false;
      if (strip != lowercase) data_.normalizer_strip_accents = strip;
    });
    std::string before, after;
    ReadEnds(&before, &after);
    if (data_.cls_id != kNoToken && data_.sep_id != kNoToken && IdOf(before) == data_.cls_id &&
        IdOf(after) == data_.sep_id)
      return Status();
    return Errorf(Code::kUnsupported,
                  "%s: post_processor puts \"%s\" before a text and \"%s\" behind it, where tokenizer_config.json's "
                  "cls_token and sep_token belong: this build can't compute it",
                  kFile, std::string(FrontForMessage(before, 60)).c_str(),
                  std::string(FrontForMessage(after, 60)).c_str());
  }

  // Places a token; ids are those of rows of the embedding.
  Status Place(const std::string& token, const Id& id, TokenType type, bool replace) {
    if (!id.known || id.number >= most_) {
      return Broken("token \"" + std::string(FrontForMessage(token, 40)) + "\": expected an id below " +
                    std::to_string(most_) + ", found " + id.Shown());
    }
    const auto index = static_cast<size_t>(id.number);
    if (index >= data_.tokens.size()) {
      data_.tokens.resize(index + 1);
      data_.token_types.resize(index + 1, static_cast<int32_t>(TokenType::kUndefined));
    }
    if (!replace && data_.token_types[index] != static_cast<int32_t>(TokenType::kUndefined))
      return Broken("id " + std::to_string(index) + " has two tokens");
    data_.tokens[index] = token;
    data_.token_types[index] = static_cast<int32_t>(type);
    return Status();
  }

  Status ReadVocabulary(const Json& model) {
    const Json vocabulary = model.Get("vocab");
    if (!vocabulary.is_object() || vocabulary.empty()) return Broken("model.vocab: expected an object of tokens");
    const Json added = json_.Get("added_tokens");
    most_ = files_.vocab_size != 0 ? files_.vocab_size : vocabulary.size() + (added.is_array() ? added.size() : 0);
    for (size_t i = 0; i < vocabulary.size(); ++i) {
      const std::string token(vocabulary.Key(i));
      const TokenType type = pieces() && IsByteToken(token) ? TokenType::kByte : TokenType::kNormal;
      MOONLIT_RETURN_IF_ERROR(Place(token, vocabulary[i], type, false));
    }
    return Status();
  }

  Status ReadAddedTokens() {
    const Json added = json_.Get("added_tokens");
    if (!added.is_array()) return Status();
    for (const Json token : added) MOONLIT_RETURN_IF_ERROR(AddToken(token, token.Get("id"), !pieces()));
    return Status();
  }

  // Models of one family share a tokenizer, and the smaller ones have no row for tokens that are not theirs (Gemma 3's
  // <image_soft_token>). llama.cpp's converter leaves such added tokens out, too.
  bool IsBeyond(const std::string& content, const Id& id) {
    if (files_.vocab_size == 0 || !id.known || id.number < files_.vocab_size) return false;
    if (beyond_++ == 0) first_beyond_ = content;
    return true;
  }

  void WarnOfBeyond() const {
    if (beyond_ == 0) return;
    Logf(LogLevel::kWarning,
         "%s: %zu added tokens, the first of them \"%s\", lie beyond the embedding's %zu rows; not used", kFile,
         beyond_, std::string(FrontForMessage(first_beyond_, 60)).c_str(), files_.vocab_size);
  }

  static bool HasMetaSpace(const std::string& token) { return token.find(kMetaSpace) != std::string::npos; }

  // An added token that the model itself has too, with U+2581 in it, as Gemma's runs of spaces: that stands for a space, so no text
  // has the token as it is written, and it stays an ordinary one, which merges reach and which decodes to spaces.
  bool IsOfSpaces(const std::string& content, const Id& id) const {
    return pieces() && HasMetaSpace(content) && id.known && id.number < data_.tokens.size() &&
           data_.tokens[static_cast<size_t>(id.number)] == content;
  }

  // `spaces`: U+2581 stands for a space in tokens that are no control tokens.
  Status AddToken(const Json& token, const Id& id, bool spaces) {
    std::string content = json_parts::Text(token, "content");
    if (content.empty()) return Broken("added_tokens: expected objects with content and id");
    if (IsBeyond(content, id)) return Status();
    const bool control = json_parts::Flag(token, "special", false) || LooksSpecial(content);
    if (!control && IsOfSpaces(content, id)) return Status();
    if (!control && spaces) content = ReplaceAll(content, kMetaSpace, " ");
    MOONLIT_RETURN_IF_ERROR(Place(content, id, control ? TokenType::kControl : TokenType::kUserDefined, true));
    const auto index = static_cast<int32_t>(id.number);
    if (json_parts::Flag(token, "lstrip", false)) data_.strip_left_ids.push_back(index);
    if (json_parts::Flag(token, "rstrip", false)) data_.strip_right_ids.push_back(index);
    return Status();
  }

  // Rows of the embedding that no token names.
  void FillHoles() {
    if (files_.vocab_size > data_.tokens.size()) {
      data_.tokens.resize(files_.vocab_size);
      data_.token_types.resize(files_.vocab_size, static_cast<int32_t>(TokenType::kUndefined));
    }
    for (size_t i = 0; i < data_.tokens.size(); ++i) {
      if (data_.token_types[i] != static_cast<int32_t>(TokenType::kUndefined)) continue;
      data_.tokens[i] = "[PAD" + std::to_string(i) + "]";
      data_.token_types[i] = static_cast<int32_t>(TokenType::kUnused);
    }
    for (size_t i = 0; i < data_.tokens.size(); ++i) ids_.emplace(data_.tokens[i], static_cast<int32_t>(i));
  }

  // "left right", or ["left", "right"] in newer files.
  Status ReadMerges(const Json& model) {
    const Json merges = model.Get("merges");
    if (!merges.is_array()) return Broken("model.merges: expected an array");
    for (const Json merge : merges) {
      const bool pair = merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string();
      if (!pair && !merge.is_string()) return Broken("model.merges: expected pairs of tokens");
      data_.merges.emplace_back(pair ? merge[0].AsString() : merge.AsString());
      if (pair) data_.merges.back().append(" ").append(merge[1].AsString());
    }
    return Status();
  }

  // A tokenizer of model "llama" joins the pair whose result has the best score: the order of merges says which is best.
  void SetScores() {
    data_.scores.assign(data_.tokens.size(), 0.0f);
    for (size_t rank = 0; rank < data_.merges.size(); ++rank) {
      const std::string& merge = data_.merges[rank];
      const size_t space = merge.find(' ');
      if (space == std::string::npos) continue;
      const auto found = ids_.find(merge.substr(0, space) + merge.substr(space + 1));
      if (found == ids_.end()) continue;
      float& score = data_.scores[static_cast<size_t>(found->second)];
      if (score == 0.0f) score = -static_cast<float>(rank + 1);
    }
    data_.merges.clear();
  }

  // A space before the text, by either of the ways that files say it.
  bool AddsSpace() const {
    bool adds = false;
    json_parts::ForEachStep(json_.Get("normalizer"), "normalizers", [&](const Json& step) {
      adds |= json_parts::Text(step, "type") == "Prepend" && json_parts::Text(step, "prepend") == kMetaSpace;
    });
    json_parts::ForEachStep(json_.Get("pre_tokenizer"), "pretokenizers", [&](const Json& step) {
      if (json_parts::Text(step, "type") != "Metaspace") return;
      const std::string scheme = json_parts::Text(step, "prepend_scheme");
      adds |= scheme.empty() ? json_parts::Flag(step, "add_prefix_space", true) : scheme != "never";
    });
    return adds;
  }

  int64_t IdOf(const std::string& token) const {
    const auto found = ids_.find(token);
    return token.empty() || found == ids_.end() ? kNoToken : int64_t{found->second};
  }

  void SetSpecialTokens(const std::string& unknown) {
    static constexpr std::pair<const char*, int64_t TokenizerData::*> kNames[] = {
        {"bos", &TokenizerData::bos_id}, {"eos", &TokenizerData::eos_id},   {"unk", &TokenizerData::unk_id},
        {"sep", &TokenizerData::sep_id}, {"pad", &TokenizerData::pad_id},   {"cls", &TokenizerData::cls_id},
        {"eot", &TokenizerData::eot_id}, {"mask", &TokenizerData::mask_id}, {"eom", &TokenizerData::eom_id}};
    for (const auto& [name, field] : kNames) {
      const Json token = config_.Get(std::string(name) + "_token");
      int64_t id = IdOf(token.is_string() ? std::string(token.AsString()) : json_parts::Text(token, "content"));
      if (id == kNoToken) {
        Json given = model_config_.Get(std::string(name) + "_token_id");
        if (given.is_array() && !given.empty()) given = given[0];
        if (given.is_unsigned() && given.AsUnsigned() < data_.tokens.size())
          id = static_cast<int64_t>(given.AsUnsigned());
      }
      data_.*field = id;
    }
    if (!pieces() && !words()) return;
    if (const int64_t id = IdOf(unknown); id != kNoToken) {
      data_.unk_id = id;
      data_.token_types[static_cast<size_t>(id)] = static_cast<int32_t>(TokenType::kUnknown);
    }
  }

  // What the other files do not name, the model does.
  void SetPieceIds(const SentencePieceModel& model) {
    const auto unknown = static_cast<size_t>(model.unk_id);  // -1 is beyond all
    SetSpecialTokens(unknown < data_.tokens.size() ? data_.tokens[unknown] : "");
    const std::pair<int64_t, int64_t TokenizerData::*> ids[] = {{model.bos_id, &TokenizerData::bos_id},
                                                                {model.eos_id, &TokenizerData::eos_id},
                                                                {model.pad_id, &TokenizerData::pad_id}};
    for (const auto& [id, field] : ids) {
      if (data_.*field == kNoToken && id >= 0 && static_cast<uint64_t>(id) < data_.tokens.size()) data_.*field = id;
    }
  }

  // What a post-processor puts around one text.
  void ReadEnds(std::string* before, std::string* after) const {
    bool behind = false;
    json_parts::ForEachStep(json_.Get("post_processor"), "processors", [&](const Json& step) {
      const Json single = step.Get("single");
      for (const Json part : single) {
        *(behind ? after : before) += json_parts::Text(part.Get("SpecialToken"), "id");
        behind |= part.Has("Sequence");
      }
      if (json_parts::Text(step, "type") != "BertProcessing") return;
      const auto first = [&](const char* name) {  // ["[CLS]", 101]
        const Json pair = step.Get(name);
        return pair.is_array() && !pair.empty() && pair[0].is_string() ? std::string(pair[0].AsString())
                                                                       : std::string();
      };
      *before = first("cls");
      *after = first("sep");
    });
  }

  // What tokenizer_config.json says, else what the post-processor does.
  Status SetAddedAtEnds() {
    std::string before, after;
    ReadEnds(&before, &after);
    const auto decide = [&](const char* flag, const std::string& token, int64_t id) -> Result<bool> {
      const Json stated = config_.Get(flag);
      if (stated.is_boolean()) return stated.AsBoolean();
      if (token.empty()) return false;
      if (id != kNoToken && IdOf(token) == id) return true;
      return Errorf(
          Code::kUnsupported,
          "%s: post_processor puts the token \"%s\" beside a text, which is not the one that tokenizer_config.json "
          "names for that end: this build can't compute it",
          kFile, std::string(FrontForMessage(token, 60)).c_str());
    };
    MOONLIT_ASSIGN_OR_RETURN(data_.add_bos, decide("add_bos_token", before, data_.bos_id));
    MOONLIT_ASSIGN_OR_RETURN(data_.add_eos, decide("add_eos_token", after, data_.eos_id));
    return Status();
  }

  void SetChatTemplate() {
    const Json chat = config_.Get("chat_template");
    if (!files_.chat_template.empty()) {
      data_.chat_template = std::string(files_.chat_template);
    } else if (chat.is_string()) {
      data_.chat_template = chat.AsString();
    } else if (chat.is_array()) {
      for (const Json one : chat) {
        if (json_parts::Text(one, "name") == "default") data_.chat_template = json_parts::Text(one, "template");
      }
    }
  }

  const TokenizerFiles& files_;
  const Json json_, config_, model_config_;
  json_parts::JsonKind kind_ = json_parts::JsonKind::kBytes;
  uint64_t most_ = 0;  // ids are below
  size_t beyond_ = 0;  // added tokens that have no row
  std::string first_beyond_;
  TokenizerData data_;
  std::unordered_map<std::string, int32_t> ids_;
};

// Empty text gives null, which has no fields.
Result<Json> Parse(std::string_view text, const char* name) {
  if (text.empty()) return Json();
  Result<Json> json = ParseJson(text);
  if (json.status().code() == Code::kOutOfMemory || (json.ok() && json->is_object())) return json;
  return Errorf(Code::kCorrupt, "%s: expected a JSON object, nested at most %zu deep; download it again", name,
                kMostJsonDepth);
}

}  // namespace

Result<TokenizerData> ImportTokenizer(const TokenizerFiles& files) {
  const bool pieces = !files.tokenizer_model.empty();
  if (!pieces && files.tokenizer_json.empty()) return Broken("the file is empty");
  MOONLIT_ASSIGN_OR_RETURN(const Json json, Parse(files.tokenizer_json, kFile));
  MOONLIT_ASSIGN_OR_RETURN(const Json config, Parse(files.tokenizer_config_json, "tokenizer_config.json"));
  MOONLIT_ASSIGN_OR_RETURN(const Json model_config, Parse(files.config_json, "config.json"));
  Importer importer(files, json, config, model_config);
  if (!pieces) return importer.Run();
  MOONLIT_ASSIGN_OR_RETURN(const SentencePieceModel model, ParseSentencePieceModel(files.tokenizer_model));
  MOONLIT_ASSIGN_OR_RETURN(const Json added, Parse(files.added_tokens_json, "added_tokens.json"));
  return importer.RunPieces(model, added);
}

}  // namespace moonlit
