// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/tokenizer_json_parts.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "runtime/base/quote.h"
#include "runtime/text/pretokenizer.h"
#include "runtime/text/replace_all.h"
#include "runtime/text/utf8.h"

namespace moonlit::json_parts {
namespace {

constexpr int kDepth = 4;

// What ByteLevel splits by unless told not to (tokenizers' pre_tokenizers/byte_level.rs), but for its last alternative "\s+",
// which changes nothing: what no pattern matches stays a piece.
constexpr char kByteLevel[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)";

// Unicode's punctuation and ASCII's (tokenizers' pre_tokenizers/punctuation.rs), runs of it.
constexpr char kPunctuation[] = "[\\p{P}\\$\\+<=>\\^~\\|`]+";

void Walk(const Json& step, const char* list, int depth, const std::function<void(const Json&)>& visit) {
  const Json inner = step.Get(list);
  if (!inner.is_array()) {
    if (step.is_object()) visit(step);
    return;
  }
  for (const Json one : inner) {
    if (depth < kDepth) Walk(one, list, depth + 1, visit);
  }
}

// As pretokenizers.inc writes it: line ends and characters beyond ASCII as escapes, contractions spelt out.
std::string Canonical(std::string_view pattern) {
  std::string out;
  for (size_t at = 0; at < pattern.size();) {
    const size_t length = std::max<size_t>(1, Utf8CharLength(pattern.substr(at)));
    if (pattern[at] == '\r' || pattern[at] == '\n') {
      out += pattern[at] == '\r' ? "\\r" : "\\n";
    } else if (length == 1) {
      out += pattern[at];
    } else {
      char escaped[16];
      std::snprintf(escaped, sizeof escaped, "\\x{%04X}",
                    static_cast<unsigned>(Utf8Decode(pattern.substr(at), length)));
      out += escaped;
    }
    at += length;
  }
  return ReplaceAll(out, "(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])");
}

// The pattern of a Split; nothing when its matches are not pieces of their own.
std::optional<std::string> SplitPattern(const Json& step) {
  const Json pattern = step.Get("pattern");
  const std::string regex = Text(pattern, "Regex");
  const std::string behavior = Text(step, "behavior");
  const bool invert = Flag(step, "invert", false);
  if (regex.empty() || !((behavior == "Isolated" && !invert) || (behavior == "Removed" && invert))) return std::nullopt;
  return Canonical(regex);
}

struct Steps {
  std::vector<std::string> patterns;
  bool byte_level = false;
  std::string foreign;  // the first step that is not known
};

Steps ReadSteps(const Json& pre_tokenizer) {
  Steps steps;
  ForEachStep(pre_tokenizer, "pretokenizers", [&](const Json& step) {
    const std::string type = Text(step, "type");
    if (type == "ByteLevel") {
      steps.byte_level = true;
      if (Flag(step, "use_regex", true)) steps.patterns.push_back(kByteLevel);
    } else if (type == "Punctuation" && Text(step, "behavior") == "Contiguous") {
      steps.patterns.push_back(kPunctuation);
    } else if (type == "Digits" && !Flag(step, "individual_digits", false) && !steps.patterns.empty() &&
               steps.patterns.back() == kByteLevel) {
      // Falcon's. What ByteLevel cuts off are digits and at most a space before them, which no merge joins.
    } else if (type == "Digits") {
      steps.patterns.push_back(Flag(step, "individual_digits", false) ? "\\p{N}" : "\\p{N}+");
    } else if (const std::optional<std::string> pattern = SplitPattern(step); type == "Split" && pattern) {
      steps.patterns.push_back(*pattern);
    } else if (steps.foreign.empty()) {
      steps.foreign = JsonForMessage(step, 200);
    }
  });
  return steps;
}

// Which of several names with the same patterns llama.cpp's converter gives a family: they differ in how text is decoded.
constexpr std::pair<std::string_view, std::string_view> kPreferred[] = {
    {"llama", "smollm"},      {"smollm3", "smollm"},      {"starcoder2", "starcoder"},
    {"granite", "refact"},    {"granitemoe", "refact"},   {"command-r", "command-r"},
    {"cohere2", "command-r"}, {"stablelm", "stablelm2"},  {"olmo", "olmo"},
    {"olmo2", "olmo"},        {"olmoe", "olmo"},          {"phi2", "phi-2"},
    {"mpt", "mpt"},           {"exaone4", "exaone4"},     {"glm4", "glm4"},
    {"bloom", "bloom"},       {"starcoder", "starcoder"},
};

bool IsPreferred(std::string_view architecture, std::string_view name) {
  return std::find(std::begin(kPreferred), std::end(kPreferred), std::pair(architecture, name)) != std::end(kPreferred);
}

}  // namespace

std::string Text(const Json& object, const char* name) {
  const Json field = object.Get(name);
  return std::string(field.is_string() ? field.AsString() : "");
}

bool Flag(const Json& object, const char* name, bool otherwise) {
  const Json field = object.Get(name);
  return field.is_boolean() ? field.AsBoolean() : otherwise;
}

void ForEachStep(const Json& step, const char* list, const std::function<void(const Json&)>& visit) {
  Walk(step, list, 0, visit);
}

Result<PreTokenizerName> FindPreTokenizer(const Json& tokenizer, std::string_view architecture) {
  const Steps steps = ReadSteps(tokenizer.Get("pre_tokenizer"));
  bool nfc = false;
  ForEachStep(tokenizer.Get("normalizer"), "normalizers",
              [&](const Json& step) { nfc |= Text(step, "type") == "NFC"; });
  const bool ignore_merges = Flag(tokenizer.Get("model"), "ignore_merges", false);
  PreTokenizerName best;
  std::string near;  // cuts the same words, but differs in what happens to them
  int best_points = -1;
  for (const PreTokenizer::Known& known : PreTokenizer::KnownWithPatterns(steps.patterns)) {
    near = known.name;
    if (((known.flags & kIgnoreMerges) != 0) != ignore_merges) continue;
    const bool same = ((known.flags & kNfc) != 0) == nfc;
    const int points = (IsPreferred(architecture, known.name) ? 2 : 0) + (same ? 1 : 0);
    if (points <= best_points) continue;
    best_points = points;
    best.name = known.name;
    best.normalizer_nfc = same ? std::nullopt : std::optional<bool>(nfc);
  }
  if (steps.foreign.empty() && steps.byte_level && !best.name.empty()) return best;
  if (steps.foreign.empty() && steps.byte_level && !near.empty()) {
    return Errorf(Code::kUnsupported,
                  "tokenizer.json cuts words as %s does, but with ignore_merges %s, which no pre-tokenizer of this "
                  "build has together; --pre takes one nevertheless",
                  near.c_str(), ignore_merges ? "true" : "false");
  }
  std::string shown = steps.foreign;
  for (const std::string& pattern : steps.patterns)
    shown += (shown.empty() ? "" : ", then ") + std::string(FrontForMessage(pattern, 200));
  return Errorf(
      Code::kUnsupported,
      "tokenizer.json cuts words by %s, which is no pre-tokenizer that this build knows; if they are cut as those of a "
      "known one (qwen2, llama-bpe, gpt-2, ...), name it with --pre",
      shown.empty() ? "nothing" : shown.c_str());
}

}  // namespace moonlit::json_parts
