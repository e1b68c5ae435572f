// SPDX-License-Identifier: Apache-2.0
#include "models/common/hugging_face_config.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/graph/graph.h"

namespace moonlit {
namespace {

using Json = nlohmann::json;

// For a message: JSON text, cut.
std::string Shown(const Json& value) {
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
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

bool Absent(const Json& json, const char* field) {
  const auto found = json.find(field);
  return found == json.end() || found->is_null();
}

}  // namespace

Result<HuggingFaceConfig> HuggingFaceConfig::Create(const Json& json) {
  if (!json.is_object()) return Errorf(Code::kCorrupt, "config.json: expected a JSON object");
  HuggingFaceConfig config;
  Json& fields = config.json_ = json;
  if (const auto text = json.find("text_config"); text != json.end() && text->is_object()) fields.update(*text);
  if (const auto attention = fields.find("attn_config"); attention != fields.end() && attention->is_object()) {
    const Json inner = *attention;
    for (const auto& [name, value] : inner.items()) fields["attn_config." + name] = value;
  }
  for (const Alias& alias : kAliases) {
    if (Absent(fields, alias.usual) && !Absent(fields, alias.other)) fields[alias.usual] = Json(fields[alias.other]);
  }
  return config;
}

void HuggingFaceConfig::SetDefaults(const Json& values) {
  for (const auto& [field, value] : values.items()) {
    const Json* rope = Rope();
    if (json_.contains(field) || (rope != nullptr && rope->contains(field))) continue;
    if (field == "rope_parameters" && rope != nullptr) continue;
    if (!value.is_null()) {
      json_[field] = value;
      continue;
    }
    Fail(Errorf(Code::kCorrupt, "config.json: has no %s, which releases of transformers take for different values",
                field.c_str()));
  }
}

void HuggingFaceConfig::Fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

const Json* HuggingFaceConfig::Find(const char* field) const {
  const auto found = json_.find(field);
  return found == json_.end() || found->is_null() ? nullptr : &*found;
}

uint32_t HuggingFaceConfig::Count(const char* field) {
  const Json* value = Find(field);
  if (value == nullptr) {
    Fail(Errorf(Code::kCorrupt, "config.json: has no %s, which the architecture needs", field));
  } else if (!value->is_number_unsigned() || value->get<uint64_t>() < 1 || value->get<uint64_t>() > INT32_MAX) {
    Fail(Errorf(Code::kCorrupt, "config.json: %s: expected 1 to 2^31 - 1, found %s", field, Shown(*value).c_str()));
  } else {
    return static_cast<uint32_t>(value->get<uint64_t>());
  }
  return 1;
}

uint32_t HuggingFaceConfig::CountOrNone(const char* field) {
  const Json* value = Find(field);
  return value == nullptr || *value == 0 ? 0 : Count(field);
}

bool HuggingFaceConfig::Is(const char* field, const char* text) const {
  const Json* value = Find(field);
  return value != nullptr && *value == text;
}

float HuggingFaceConfig::Number(const char* field) { return static_cast<float>(WideNumber(field)); }

double HuggingFaceConfig::WideNumber(const char* field) {
  const Json* value = Find(field);
  if (value == nullptr) {
    Fail(Errorf(Code::kCorrupt, "config.json: has no %s, which the architecture needs", field));
  } else if (!value->is_number() || !std::isfinite(value->get<float>())) {
    Fail(Errorf(Code::kCorrupt, "config.json: %s: expected a number, found %s", field, Shown(*value).c_str()));
  } else {
    return value->get<double>();
  }
  return 1;
}

bool HuggingFaceConfig::Flag(const char* field, bool otherwise) {
  const Json* value = Find(field);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  Fail(Errorf(Code::kCorrupt, "config.json: %s: expected true or false, found %s", field, Shown(*value).c_str()));
  return otherwise;
}

void HuggingFaceConfig::Expect(const char* field, const Json& value) {
  const Json* found = Find(field);
  if (found == nullptr || *found == value) return;
  Refuse(field, value.is_null() ? "models without it" : Shown(value));
}

void HuggingFaceConfig::Refuse(const char* field, const std::string& computed) {
  const Json* found = Find(field);
  Fail(Errorf(Code::kUnsupported, "config.json: %s is %s, and this build can only compute %s", field,
              found == nullptr ? "absent" : Shown(*found).c_str(), computed.c_str()));
}

std::vector<bool> HuggingFaceConfig::WindowedLayers() {
  std::vector<bool> windowed;
  const Json* types = Find("layer_types");
  if (types == nullptr) return windowed;
  if (!types->is_array() || types->size() != Layers()) {
    Fail(Errorf(Code::kCorrupt, "config.json: layer_types: expected one a layer, found %s", Shown(*types).c_str()));
    return windowed;
  }
  for (const Json& type : *types) {
    windowed.push_back(type == "sliding_attention");
    if (type == "sliding_attention" || type == "full_attention") continue;
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
    const Json* pattern = Find(field);
    if (pattern == nullptr) continue;
    if (!pattern->is_string()) {
      period = Count(field);
      continue;
    }
    letters = pattern->get<std::string>();
    if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos) {
      Fail(Errorf(Code::kUnsupported, "config.json: %s is %s: expected L for a layer with a window, G for one without",
                  field, Shown(*pattern).c_str()));
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
  const Json* classes = Find("architectures");
  if (classes == nullptr || !classes->is_array() || classes->empty() || !(*classes)[0].is_string()) return "";
  return (*classes)[0].get<std::string>();
}

std::string HuggingFaceConfig::ModelType() const {
  const Json* type = Find("model_type");
  return type != nullptr && type->is_string() ? type->get<std::string>() : std::string();
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
  if (Find("layer_types") == nullptr) return Expect("sliding_window_pattern", period);
  const std::vector<bool> windowed = WindowedLayers();
  for (size_t i = 0; i < windowed.size(); ++i) {
    if (windowed[i] == ((i + 1) % period != 0)) continue;
    return Refuse("layer_types",
                  "full_attention in every layer whose number is a multiple of " + std::to_string(period));
  }
}

void HuggingFaceConfig::ExpectWholeRotation() {
  Expect("partial_rotary_factor", 1.0);
  const double inside = RopeNumber("partial_rotary_factor", 1.0);
  if (inside == 1.0) return;
  Fail(
      Errorf(Code::kUnsupported,
             "config.json: RoPE's partial_rotary_factor is %g, and this build can only compute 1 for this architecture",
             inside));
}

const Json* HuggingFaceConfig::Rope() const {
  for (const char* field : {"rope_parameters", "rope_scaling"}) {
    const Json* rope = Find(field);
    if (rope == nullptr || !rope->is_object() || rope->empty()) continue;
    const auto full = rope->find("full_attention");
    return full != rope->end() && full->is_object() ? &*full : rope;
  }
  return nullptr;
}

std::string HuggingFaceConfig::RopeType() const {
  const Json* rope = Rope();
  if (rope == nullptr) return "default";
  for (const char* field : {"rope_type", "type"}) {
    if (const auto found = rope->find(field); found != rope->end() && found->is_string())
      return *found == "su" ? "longrope" : found->get<std::string>();  // its name at first
  }
  return "default";
}

double HuggingFaceConfig::RopeNumber(const char* field, double otherwise) {
  const Json* rope = Rope();
  const auto found = rope == nullptr ? Json::const_iterator() : rope->find(field);
  if (rope == nullptr || found == rope->end() || found->is_null()) return otherwise;
  if (found->is_number() && std::isfinite(found->get<float>()) && found->get<float>() > 0) return found->get<double>();
  Fail(Errorf(Code::kCorrupt, "config.json: RoPE's %s: expected a number above 0, found %s", field,
              Shown(*found).c_str()));
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

void HuggingFaceConfig::CheckRopeFields() {
  const auto expect = [this](const Json& parent, const char* field, Json::value_t kind, const char* expected) {
    const auto found = parent.find(field);
    if (found == parent.end() || found->is_null() || found->type() == kind) return;
    if (kind == Json::value_t::number_float && found->is_number()) return;
    Fail(Errorf(Code::kCorrupt, "config.json: RoPE's %s: expected %s, found %s", field, expected,
                Shown(*found).c_str()));
  };
  const auto check = [&](const Json& rope) {
    for (const char* field : {"rope_type", "type"}) expect(rope, field, Json::value_t::string, "a name");
    for (const char* field : {"rope_theta", "factor", "partial_rotary_factor", "original_max_position_embeddings"})
      expect(rope, field, Json::value_t::number_float, "a number");
  };
  const Json parameters = json_.value("rope_parameters", Json()), scaling = json_.value("rope_scaling", Json());
  if (parameters.is_object() && scaling.is_object() && !parameters.empty() && !scaling.empty() && parameters != scaling)
    Refuse("rope_scaling", "what rope_parameters says (transformers 4 and 5 differ in which of both they take)");
  for (const char* field : {"rope_parameters", "rope_scaling"}) {
    expect(json_, field, Json::value_t::object, "an object");
    const Json* rope = Find(field);
    if (rope == nullptr || !rope->is_object()) continue;
    check(*rope);
    for (const char* layers : {"full_attention", "sliding_attention"}) {
      expect(*rope, layers, Json::value_t::object, "an object");
      if (const auto found = rope->find(layers); found != rope->end() && found->is_object()) check(*found);
    }
    const auto sliding = rope->find("sliding_attention");
    if (sliding == rope->end() || !sliding->is_object()) continue;
    if (const std::string type = sliding->value("rope_type", Json("default")).dump(); type != "\"default\"") {
      Fail(Errorf(Code::kUnsupported,
                  "config.json: RoPE of sliding_attention is %s, and this build can only compute default",
                  type.substr(0, 60).c_str()));
    }
  }
}

// Gemma 3's layers with a window have a base of their own.
double HuggingFaceConfig::SlidingRopeTheta() {
  if (Has("rope_local_base_freq")) return WideNumber("rope_local_base_freq");
  const Json* rope = Find("rope_parameters");
  if (rope == nullptr || !rope->is_object()) return 0;
  const auto sliding = rope->find("sliding_attention");
  if (sliding == rope->end() || !sliding->is_object()) return 0;
  const auto theta = sliding->find("rope_theta");
  return theta != sliding->end() && theta->is_number() && theta->get<float>() > 0 ? theta->get<double>() : 0;
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
  const Json* rope = Rope();
  for (const char* field : {"mscale", "mscale_all_dim", "truncate"}) {
    if (rope == nullptr) break;
    const auto found = rope->find(field);
    if (found == rope->end() || found->is_null() || (found->is_boolean() && found->get<bool>())) continue;
    Fail(Errorf(Code::kUnsupported, "config.json: RoPE has %s %s, which this build can't compute", field,
                Shown(*found).c_str()));
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
  const Json* rope = Rope();
  const auto found = rope->find(field);
  for (const Json& value : found != rope->end() && found->is_array() ? *found : Json::array()) {
    if (value.is_number() && std::isfinite(value.get<float>()) && value.get<float>() > 0)
      factors.push_back(value.get<float>());
  }
  if (factors.size() == count && found->size() == count) return factors;
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
