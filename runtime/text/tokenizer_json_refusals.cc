// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer_json_refusals.h"

#include <string>
#include <string_view>

#include "runtime/base/quote.h"
#include "runtime/text/tokenizer_json_parts.h"
#include "runtime/text/utf8.h"

namespace moonlit::json_parts {
namespace {

std::string Shown(const Json& value) { return JsonForMessage(value, 200); }

bool IsFalse(const Json& value) { return value.is_boolean() && !value.AsBoolean(); }

Status Refused(const std::string& part, const Json& value) {
  return Errorf(Code::kUnsupported, "tokenizer.json: %s is %s, which this build can't compute", part.c_str(),
                Shown(value).c_str());
}

Status RefuseModel(const Json& model, JsonKind kind) {
  const bool pieces = kind == JsonKind::kPieces, words = kind == JsonKind::kWords;
  for (const char* field : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const Json value = model.Get(field);
    const char* usual = words && std::string_view(field).starts_with("cont") ? "##" : "";
    if (!value.is_null() && !value.Is(usual)) return Refused(std::string("model.") + field, value);
  }
  const Json dropout = model.Get("dropout");
  if (!dropout.is_null() && !(dropout.is_number() && dropout.AsDouble() == 0)) return Refused("model.dropout", dropout);
  if (const Json ignored = model.Get("ignore_merges"); pieces && !ignored.is_null() && !IsFalse(ignored))
    return Refused("model.ignore_merges", ignored);
  return Status();
}

bool IsText(const Json& pattern, const char* text) { return pattern.Get("String").Is(text); }

bool KnownNormalizer(const Json& step, JsonKind kind) {
  const std::string type = Text(step, "type");
  if (kind == JsonKind::kBytes) return type == "NFC";
  if (kind == JsonKind::kWords)
    return type == "BertNormalizer" && Flag(step, "clean_text", true) && Flag(step, "handle_chinese_chars", true);
  return (type == "Prepend" && Text(step, "prepend") == kMetaSpace) ||
         (type == "Replace" && IsText(step.Get("pattern"), " ") && Text(step, "content") == kMetaSpace);
}

bool KnownPreTokenizer(const Json& step, JsonKind kind) {
  const std::string type = Text(step, "type");
  if (kind == JsonKind::kWords) return type == "BertPreTokenizer";
  if (kind == JsonKind::kBytes) return type != "ByteLevel" || !Flag(step, "add_prefix_space", false);
  // Gemma's: after normalizing there is no space left to split at.
  if (type == "Split")
    return IsText(step.Get("pattern"), " ") && Text(step, "behavior") == "MergedWithPrevious" &&
           !Flag(step, "invert", false);
  return type == "Metaspace" && Text(step, "replacement") == kMetaSpace && !Flag(step, "split", true);
}

// Every step of `part` by `known`.
template <typename Known>
Status RefuseSteps(const Json& tokenizer, const char* part, const char* list, JsonKind kind, const Known& known) {
  const Json steps = tokenizer.Get(part);
  if (!steps.is_null() && !steps.is_object())
    return Errorf(Code::kCorrupt, "tokenizer.json: %s: expected an object, found %s", part, Shown(steps).c_str());
  Status status;
  ForEachStep(steps, list, [&](const Json& step) {
    if (status.ok() && !known(step, kind)) status = Refused(part, step);
  });
  return status;
}

Status RefuseAddedTokens(const Json& tokenizer, JsonKind kind) {
  const Json added = tokenizer.Get("added_tokens");
  const bool normalizes = !tokenizer.Get("normalizer").is_null();
  for (size_t i = 0; added.is_array() && i < added.size(); ++i) {
    const Json token = added[i];
    const std::string content = Text(token, "content");
    for (const char* field : {"lstrip", "rstrip", "single_word", "normalized"}) {
      const Json value = token.Get(field);
      if (value.is_null() || IsFalse(value)) continue;
      if (!value.is_boolean())
        return Errorf(Code::kCorrupt, "tokenizer.json: added_tokens: %s: expected true or false, found %s", field,
                      Shown(value).c_str());
      if (std::string_view(field).ends_with("strip")) continue;
      // Sought in the normalized text, which is the text itself, or has the same ASCII characters.
      if (std::string_view(field) == "normalized" &&
          (!normalizes || (kind == JsonKind::kBytes && Utf8IsAscii(content))))
        continue;
      return Errorf(Code::kUnsupported,
                    "tokenizer.json: added_tokens: token \"%s\" has %s, which this build can't compute",
                    std::string(FrontForMessage(content, 60)).c_str(), field);
    }
  }
  return Status();
}

// [SpecialToken] Sequence [SpecialToken]
bool IsPlainTemplate(const Json& single) {
  if (!single.is_array() || single.empty() || single.size() > 3) return false;
  size_t texts = 0, last = 0;
  for (size_t i = 0; i < single.size(); ++i) {
    if (!single[i].Has("Sequence")) continue;
    ++texts;
    last = i;
  }
  return texts == 1 && last <= 1 && single.size() - last <= 2;
}

Status RefusePostProcessors(const Json& tokenizer, JsonKind kind) {
  size_t templates = 0;
  return RefuseSteps(tokenizer, "post_processor", "processors", kind, [&](const Json& step, JsonKind) {
    const std::string type = Text(step, "type");
    if (type == "BertProcessing") return kind == JsonKind::kWords && ++templates == 1;
    if (type != "TemplateProcessing") return type == "ByteLevel";
    return ++templates == 1 && IsPlainTemplate(step.Get("single"));
  });
}

}  // namespace

Status RefuseForeignParts(const Json& tokenizer, JsonKind kind) {
  MOONLIT_RETURN_IF_ERROR(RefuseModel(tokenizer.Get("model"), kind));
  MOONLIT_RETURN_IF_ERROR(RefuseSteps(tokenizer, "normalizer", "normalizers", kind, KnownNormalizer));
  MOONLIT_RETURN_IF_ERROR(RefuseSteps(tokenizer, "pre_tokenizer", "pretokenizers", kind, KnownPreTokenizer));
  MOONLIT_RETURN_IF_ERROR(RefuseAddedTokens(tokenizer, kind));
  return RefusePostProcessors(tokenizer, kind);
}

}  // namespace moonlit::json_parts
