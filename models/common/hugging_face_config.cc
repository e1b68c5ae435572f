// SPDX-License-Identifier: Apache-2.0
#include "models/common/hugging_face_config.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "runtime/graph/graph.h"

namespace moonlit {
namespace {

// For a message: JSON text, cut.
std::string Shown(const Json& value) {
  const std::string text = JsonForMessage(value, 61);
  return text.size() > 60 ? text.substr(0, 60) + "..." : text;
}

// What families call a field that the others have under another name (their config classes' attribute_map).
struct Alias {
  const char* usual;
  const char* other;
};
constexpr uint32_t kMostHeadDim = 4096;  // no head is that wide; what is wrong is said where heads are checked
constexpr Alias kAliases[] = {
    {"hidden_size", "n_embd"},
    {"hidden_size", "n_embed"},
    {"hidden_size", "d_model"},
    {"num_hidden_layers", "n_layer"},
    {"num_hidden_layers", "n_layers"},
    {"num_attention_heads", "n_head"},
    {"num_attention_heads", "n_heads"},
    {"num_key_value_heads", "num_kv_heads"},
    {"num_key_value_heads", "attn_config.kv_n_heads"},
    {"intermediate_size", "n_inner"},
    {"intermediate_size", "ffn_hidden_size"},
    {"max_position_embeddings", "n_positions"},
    {"max_position_embeddings", "max_seq_len"},
    {"hidden_act", "activation_function"},
    {"hidden_act", "activation"},
    {"layer_norm_eps", "layer_norm_epsilon"},
    {"partial_rotary_factor", "rotary_pct"},
    {"rope_theta", "rotary_emb_base"},
};

// As a float, too.
bool IsAboveZero(const Json& value) {
  if (!value.is_number()) return false;
  const auto narrow = static_cast<float>(value.AsDouble());
  return std::isfinite(narrow) && narrow > 0;
}

}  // namespace

Result<HuggingFaceConfig> HuggingFaceConfig::Create(const Json& json) {
  if (!json.is_object()) return Errorf(Code::kCorrupt, "config.json: expected a JSON object");
  HuggingFaceConfig config;
  const auto take = [&](const Json& object, const char* prefix) {
    for (size_t i = 0; object.is_object() && i < object.size(); ++i)
      config.fields_[prefix + std::string(object.Key(i))] = object[i];
  };
  take(json, "");
  take(json.Get("text_config"), "");
  take(config.Get("attn_config"), "attn_config.");
  for (const Alias& alias : kAliases) {
    if (!config.Has(alias.usual) && config.Has(alias.other)) config.fields_[alias.usual] = config.Get(alias.other);
  }
  return config;
}

void HuggingFaceConfig::SetDefaults(const Json& values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string field(values.Key(i));
    const Json rope = Rope();
    if (fields_.count(field) != 0 || rope.Has(field)) continue;
    if (field == "rope_parameters" && !rope.is_null()) continue;
    if (!values[i].is_null()) {
      fields_[field] = values[i];
      continue;
    }
    Fail(Errorf(Code::kCorrupt, "config.json: has no %s, which releases of transformers take for different values",
                field.c_str()));
  }
}

void HuggingFaceConfig::Fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

Json HuggingFaceConfig::Get(const char* field) const {
  const auto found = fields_.find(std::string_view(field));
  return found == fields_.end() ? Json() : found->second;
}

uint32_t HuggingFaceConfig::Count(const char* field) {
  const Json value = Get(field);
  if (value.is_null()) {
    Fail(Errorf(Code::kCorrupt, "config.json: has no %s, which the architecture needs", field));
  } else if (!value.is_unsigned() || value.AsUnsigned() < 1 || value.AsUnsigned() > INT32_MAX) {
    Fail(Errorf(Code::kCorrupt, "config.json: %s: expected 1 to 2^31 - 1, found %s", field, Shown(value).c_str()));
  } else {
    return static_cast<uint32_t>(value.AsUnsigned());
  }
  return 1;
}

uint32_t HuggingFaceConfig::CountOrNone(const char* field) {
  const Json value = Get(field);
  return value.is_null() || (value.is_number() && value.AsDouble() == 0) ? 0 : Count(field);
}

bool HuggingFaceConfig::Is(const char* field, const char* text) const { return Get(field).Is(text); }

float HuggingFaceConfig::Number(const char* field) { return static_cast<float>(WideNumber(field)); }

double HuggingFaceConfig::WideNumber(const char* field) {
  const Json value = Get(field);
  if (value.is_null()) {
    Fail(Errorf(Code::kCorrupt, "config.json: has no %s, which the architecture needs", field));
  } else if (!value.is_number() || !std::isfinite(static_cast<float>(value.AsDouble()))) {
    Fail(Errorf(Code::kCorrupt, "config.json: %s: expected a number, found %s", field, Shown(value).c_str()));
  } else {
    return value.AsDouble();
  }
  return 1;
}

bool HuggingFaceConfig::Flag(const char* field, bool otherwise) {
  const Json value = Get(field);
  if (value.is_null()) return otherwise;
  if (value.is_boolean()) return value.AsBoolean();
  Fail(Errorf(Code::kCorrupt, "config.json: %s: expected true or false, found %s", field, Shown(value).c_str()));
  return otherwise;
}

void HuggingFaceConfig::Expect(const char* field, std::string_view json) {
  const Json found = Get(field);
  if (found.is_null()) return;
  const Result<Json> expected = ParseJson(json);
  if (!expected.ok()) return Fail(expected.status());
  if (found == *expected) return;
  Refuse(field, expected.value().is_null() ? "models without it" : Shown(*expected));
}

void HuggingFaceConfig::ExpectNumber(const char* field, double value) {
  const Json found = Get(field);
  if (found.is_null() || (found.is_number() && found.AsDouble() == value)) return;
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  Refuse(field, text);
}

void HuggingFaceConfig::Refuse(const char* field, const std::string& computed) {
  const Json found = Get(field);
  Fail(Errorf(Code::kUnsupported, "config.json: %s is %s, and this build can only compute %s", field,
              found.is_null() ? "absent" : Shown(found).c_str(), computed.c_str()));
}

std::vector<bool> HuggingFaceConfig::WindowedLayers() {
  std::vector<bool> windowed;
  const Json types = Get("layer_types");
  if (types.is_null()) return windowed;
  if (!types.is_array() || types.size() != Layers()) {
    Fail(Errorf(Code::kCorrupt, "config.json: layer_types: expected one a layer, found %s", Shown(types).c_str()));
    return windowed;
  }
  for (const Json type : types) {
    windowed.push_back(type.Is("sliding_attention"));
    if (type.Is("sliding_attention") || type.Is("full_attention")) continue;
    Fail(Errorf(Code::kUnsupported,
                "config.json: layer_types has %s: this build knows full_attention, sliding_attention",
                Shown(type).c_str()));
  }
  return windowed;
}

std::vector<bool> HuggingFaceConfig::WindowedLayers(uint32_t period) {
  if (Has("layer_types")) return WindowedLayers();
  std::string letters;
  for (const char* field : {"_sliding_window_pattern", "sliding_window_pattern"}) {
    const Json pattern = Get(field);
    if (pattern.is_null()) continue;
    if (!pattern.is_string()) {
      period = Count(field);
      continue;
    }
    letters = pattern.AsString();
    if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos) {
      Fail(Errorf(Code::kUnsupported, "config.json: %s is %s: expected L for a layer with a window, G for one without",
                  field, Shown(pattern).c_str()));
      letters.clear();
    }
  }
  std::vector<bool> windowed;
  const uint32_t layers = Layers();
  for (uint32_t layer = 0; layer < layers; ++layer)
    windowed.push_back(letters.empty() ? (layer + 1) % period != 0 : letters[layer % letters.size()] == 'L');
  return windowed;
}

std::string HuggingFaceConfig::ClassName() const {
  const Json classes = Get("architectures");
  if (!classes.is_array() || classes.empty() || !classes[0].is_string()) return "";
  return std::string(classes[0].AsString());
}

std::string HuggingFaceConfig::ModelType() const {
  const Json type = Get("model_type");
  return std::string(type.is_string() ? type.AsString() : "");
}

uint32_t HuggingFaceConfig::Layers() {
  const uint32_t layers = Count("num_hidden_layers");
  if (layers <= kMostLayers) return layers;
  Fail(Errorf(Code::kCorrupt, "config.json: num_hidden_layers: expected 1 to %u, found %u", kMostLayers, layers));
  return 1;
}

uint32_t HuggingFaceConfig::KvHeads() {
  // Falcon's second decoder counts them.
  if (Flag("multi_query", false) && !Flag("new_decoder_architecture", false)) return 1;
  return Count(Has("num_key_value_heads") ? "num_key_value_heads" : "num_attention_heads");
}

uint32_t HuggingFaceConfig::HeadDim() {
  return Has("head_dim") ? Count("head_dim") : Count("hidden_size") / Count("num_attention_heads");
}

uint32_t HuggingFaceConfig::Experts() {
  for (const char* field : {"num_local_experts", "num_experts"}) {
    if (!Has(field)) continue;
    const uint32_t experts = Count(field);
    if (experts <= kMostExperts) return experts;
    Fail(Errorf(Code::kCorrupt, "config.json: %s: expected 1 to %zu, found %u", field, kMostExperts, experts));
  }
  return 0;
}

uint32_t HuggingFaceConfig::RotaryDim(double otherwise) {
  const double inside = RopeNumber("partial_rotary_factor", otherwise);
  const double factor = Has("partial_rotary_factor") ? WideNumber("partial_rotary_factor") : inside;
  if (factor > 0 && factor <= 1) return static_cast<uint32_t>(factor * HeadDim());
  Fail(Errorf(Code::kCorrupt, "config.json: partial_rotary_factor is %g: expected more than 0 and at most 1", factor));
  return 2;
}

void HuggingFaceConfig::ExpectLayerPeriod(size_t period) {
  if (!Has("layer_types")) return Expect("sliding_window_pattern", std::to_string(period));
  const std::vector<bool> windowed = WindowedLayers();
  for (size_t i = 0; i < windowed.size(); ++i) {
    if (windowed[i] == ((i + 1) % period != 0)) continue;
    return Refuse("layer_types",
                  "full_attention in every layer whose number is a multiple of " + std::to_string(period));
  }
}

void HuggingFaceConfig::ExpectWholeRotation() {
  Expect("partial_rotary_factor", "1.0");
  const double inside = RopeNumber("partial_rotary_factor", 1.0);
  if (inside == 1.0) return;
  Fail(
      Errorf(Code::kUnsupported,
             "config.json: RoPE's partial_rotary_factor is %g, and this build can only compute 1 for this architecture",
             inside));
}

Json HuggingFaceConfig::Rope() const {
  for (const char* field : {"rope_parameters", "rope_scaling"}) {
    const Json rope = Get(field);
    if (!rope.is_object() || rope.empty()) continue;
    const Json full = rope.Get("full_attention");
    return full.is_object() ? full : rope;
  }
  return Json();
}

std::string HuggingFaceConfig::RopeType() const {
  const Json rope = Rope();
  for (const char* field : {"rope_type", "type"}) {
    if (const Json found = rope.Get(field); found.is_string())
      return std::string(found.Is("su") ? "longrope" : found.AsString());  // its name at first
  }
  return "default";
}

double HuggingFaceConfig::RopeNumber(const char* field, double otherwise) {
  const Json found = Rope().Get(field);
  if (found.is_null()) return otherwise;
  if (IsAboveZero(found)) return found.AsDouble();
  Fail(Errorf(Code::kCorrupt, "config.json: RoPE's %s: expected a number above 0, found %s", field,
              Shown(found).c_str()));
  return otherwise;
}

double HuggingFaceConfig::NeededRopeNumber(const char* field) {
  const double value = RopeNumber(field, 0);
  if (value == 0) {
    Fail(Errorf(Code::kCorrupt, "config.json: RoPE of type \"%s\" has no %s, which it needs", RopeType().c_str(),
                field));
  }
  return value == 0 ? 1 : value;
}

double HuggingFaceConfig::RopeTheta() {
  const double inside = RopeNumber("rope_theta", 0);
  if (inside > 0) return inside;
  return Has("rope_theta") ? WideNumber("rope_theta") : 0;
}

void HuggingFaceConfig::CheckRopeField(const Json& value, const char* field, JsonType kind, const char* expected) {
  if (value.is_null() || value.type() == kind || (kind == JsonType::kDouble && value.is_number())) return;
  Fail(Errorf(Code::kCorrupt, "config.json: RoPE's %s: expected %s, found %s", field, expected, Shown(value).c_str()));
}

void HuggingFaceConfig::CheckRopeFields() {
  const auto check = [&](const Json& rope) {
    for (const char* field : {"rope_type", "type"}) CheckRopeField(rope.Get(field), field, JsonType::kString, "a name");
    for (const char* field : {"rope_theta", "factor", "partial_rotary_factor", "original_max_position_embeddings"})
      CheckRopeField(rope.Get(field), field, JsonType::kDouble, "a number");
  };
  const Json parameters = Get("rope_parameters"), scaling = Get("rope_scaling");
  if (parameters.is_object() && scaling.is_object() && !parameters.empty() && !scaling.empty() && parameters != scaling)
    Refuse("rope_scaling", "what rope_parameters says (transformers 4 and 5 differ in which of both they take)");
  for (const char* field : {"rope_parameters", "rope_scaling"}) {
    const Json rope = Get(field);
    CheckRopeField(rope, field, JsonType::kObject, "an object");
    check(rope);
    for (const char* layers : {"full_attention", "sliding_attention"}) {
      CheckRopeField(rope.Get(layers), layers, JsonType::kObject, "an object");
      check(rope.Get(layers));
    }
    CheckSlidingRope(rope.Get("sliding_attention"));
  }
}

void HuggingFaceConfig::CheckSlidingRope(const Json& sliding) {
  const Json type = sliding.Get("rope_type");
  if (!sliding.Has("rope_type") || type.Is("default")) return;
  Fail(Errorf(Code::kUnsupported,
              "config.json: RoPE of sliding_attention is %s, and this build can only compute default",
              JsonForMessage(type, 60).c_str()));
}

// Gemma 3's layers with a window have a base of their own.
double HuggingFaceConfig::SlidingRopeTheta() {
  if (Has("rope_local_base_freq")) return WideNumber("rope_local_base_freq");
  const Json theta = Get("rope_parameters").Get("sliding_attention").Get("rope_theta");
  return theta.is_number() && static_cast<float>(theta.AsDouble()) > 0 ? theta.AsDouble() : 0;
}

// Parts of YaRN that this build computes in one way only.
void HuggingFaceConfig::RefuseOtherYarn() {
  const double usual = 0.1 * std::log(std::fmax(RopeNumber("factor", 1), 1.0)) + 1;
  if (const double given = RopeNumber("attention_factor", usual); std::fabs(given - usual) > 1e-4) {
    Fail(Errorf(
        Code::kUnsupported,
        "config.json: RoPE's attention_factor is %g, and this build can only compute 0.1 ln(factor) + 1, here %g",
        given, usual));
  }
  for (const char* field : {"mscale", "mscale_all_dim", "truncate"}) {
    const Json found = Rope().Get(field);
    if (found.is_null() || (found.is_boolean() && found.AsBoolean())) continue;
    Fail(Errorf(Code::kUnsupported, "config.json: RoPE has %s %s, which this build can't compute", field,
                Shown(found).c_str()));
  }
}

void HuggingFaceConfig::SetRopeKeys(const std::string& prefix, std::string_view other, MetadataMap& metadata) {
  CheckRopeFields();
  const std::string type = RopeType();
  const std::string scaling = prefix + "rope.scaling.";
  if (type == "linear" || type == "yarn") {
    metadata.Set(scaling + "type", type);
    metadata.Set(scaling + "factor", static_cast<float>(NeededRopeNumber("factor")));
  } else if (type != "default" && type != "llama3" && type != other) {
    Fail(Errorf(Code::kUnsupported,
                "config.json: RoPE of type \"%s\": this build knows default, linear, yarn, llama3%s%s for this "
                "architecture",
                type.substr(0, 60).c_str(), other.empty() ? "" : ", ", std::string(other).c_str()));
  }
  if (type == "yarn") {
    metadata.Set(scaling + "original_context_length", OriginalContext());
    const auto copy = [&](const char* from, const char* to) {
      if (const double value = RopeNumber(from, 0); value > 0) metadata.Set(scaling + to, static_cast<float>(value));
    };
    RefuseOtherYarn();
    copy("beta_fast", "yarn_beta_fast");
    copy("beta_slow", "yarn_beta_slow");
  }
  if (const double theta = RopeTheta(); theta > 0) metadata.Set(prefix + "rope.freq_base", static_cast<float>(theta));
  if (const double theta = SlidingRopeTheta(); theta > 0)
    metadata.Set(prefix + "rope.freq_base_swa", static_cast<float>(theta));
}

// At the top as Phi-3's first files have it, which is what transformers prefers, or beside the kind of RoPE.
uint32_t HuggingFaceConfig::OriginalContext() {
  const char* field = "original_max_position_embeddings";
  if (Has(field)) return Count(field);
  const double inside = RopeNumber(field, Count("max_position_embeddings"));
  if (inside >= 1 && inside <= INT32_MAX) return static_cast<uint32_t>(inside);
  Fail(Errorf(Code::kCorrupt, "config.json: RoPE's %s: expected 1 to 2^31 - 1, found %g", field, inside));
  return 1;
}

double HuggingFaceConfig::LongRopeMagnitude() {
  if (RopeType() != "longrope") return 0;
  const double original = OriginalContext();
  const double factor = RopeNumber("factor", Count("max_position_embeddings") / original);
  const double usual = factor > 1 && original > 1 ? std::sqrt(1 + std::log(factor) / std::log(original)) : 1.0;
  return RopeNumber("attention_factor", usual);
}

std::vector<float> HuggingFaceConfig::RopeFactors(const char* field, size_t count) {
  std::vector<float> factors;
  const Json found = Rope().Get(field);
  for (size_t i = 0; found.is_array() && i < found.size(); ++i) {
    if (IsAboveZero(found[i])) factors.push_back(static_cast<float>(found[i].AsDouble()));
  }
  if (factors.size() == count && found.size() == count) return factors;
  Fail(Errorf(Code::kCorrupt, "config.json: RoPE's %s: expected %zu numbers above 0", field, count));
  return {};
}

std::vector<MadeTensor> HuggingFaceConfig::RopeTensors() {
  const std::string type = RopeType();
  if (type == "llama3") return {{"rope_freqs.weight", Llama3Divisors()}};
  if (type == "longrope") {
    const size_t pairs = RotaryDim(1.0) / 2;
    return {{"rope_factors_long.weight", RopeFactors("long_factor", pairs)},
            {"rope_factors_short.weight", RopeFactors("short_factor", pairs)}};
  }
  if (type != "proportional") return {};
  // The first pairs turn as if all did, the others (nearly) not at all: GGUF has no other way to say so (llama.cpp,
  // conversion/gemma.py).
  const uint32_t dim = std::min(Count(Has("global_head_dim") ? "global_head_dim" : "head_dim"), kMostHeadDim);
  const auto turning = static_cast<size_t>(dim * RopeNumber("partial_rotary_factor", 1.0) / 2);
  std::vector<float> divisors(dim / 2, 1e30f);
  std::fill_n(divisors.begin(), std::min(turning, divisors.size()), 1.0f);
  return {{"rope_freqs.weight", std::move(divisors)}};
}

// As transformers' modeling_rope_utils.py computes it, in float.
std::vector<float> HuggingFaceConfig::Llama3Divisors() {
  std::vector<float> divisors;
  const double theta = RopeTheta();
  const auto base = static_cast<float>(theta > 0 ? theta : 10000.0);
  const auto factor = static_cast<float>(NeededRopeNumber("factor"));
  const auto low = static_cast<float>(NeededRopeNumber("low_freq_factor"));
  const auto high = static_cast<float>(NeededRopeNumber("high_freq_factor"));
  const auto original = static_cast<float>(NeededRopeNumber("original_max_position_embeddings"));
  if (!(high > low)) Fail(Errorf(Code::kCorrupt, "config.json: RoPE's high_freq_factor is not above low_freq_factor"));
  const uint32_t dim = std::min(RotaryDim(1.0), kMostHeadDim);
  for (uint32_t i = 0; i < dim; i += 2) {
    const float frequency = 1.0f / std::pow(base, static_cast<float>(i) / static_cast<float>(dim));
    const float wavelength = 6.28318530717958647692f / frequency;
    if (wavelength < original / high) {
      divisors.push_back(1);
    } else if (wavelength > original / low) {
      divisors.push_back(factor);
    } else {
      const float smooth = (original / wavelength - low) / (high - low);
      divisors.push_back(1.0f / ((1.0f - smooth) / factor + smooth));
    }
  }
  return divisors;
}

}  // namespace moonlit
