// SPDX-License-Identifier: Apache-2.0
// Reads the fields of a config.json within stated ranges. The first fault is kept and later reads give a harmless value, so a
// config is checked once at the end. A field that is null counts as absent.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/common/hugging_face.h"
#include "runtime/base/status.h"
#include "runtime/json/json.h"
#include "runtime/weights/metadata_map.h"

namespace moonlit {

inline constexpr uint32_t kMostLayers = 1024;

class HuggingFaceConfig {
 public:
  // Fields of "text_config" count as if they stood at the top, those of "attn_config" as "attn_config.field". Fields that families
  // call otherwise (n_embd, d_model) are read by the usual names. kCorrupt: no JSON object.
  static Result<HuggingFaceConfig> Create(const Json& json);

  // Takes these values for fields that are not there at all: where null means "without", it stays. A null among the values is a fault
  // (kCorrupt) that names the field.
  void SetDefaults(const Json& values);

  bool Has(const char* field) const { return !Get(field).is_null(); }
  bool Is(const char* field, const char* text) const;
  // 1 to 2^31 - 1.
  uint32_t Count(const char* field);
  // 0 where it is absent, too.
  uint32_t CountOrNone(const char* field);
  float Number(const char* field);
  bool Flag(const char* field, bool otherwise);
  // A fault (kUnsupported) when the field is there with another value than this JSON text; than this number.
  void Expect(const char* field, std::string_view json);
  void ExpectNumber(const char* field, double value);

  // "layer_types": whether a layer sees a window only; empty when the config does not say. kUnsupported: other kinds of layers.
  std::vector<bool> WindowedLayers();
  // The same; where the config says no more than a period or a pattern ("LLLG"), or nothing, by that or by `period`: every
  // period-th layer sees all.
  std::vector<bool> WindowedLayers(uint32_t period);
  // A fault (kUnsupported) that names the field, its value and what can be computed.
  void Refuse(const char* field, const std::string& computed);

  std::string ClassName() const;  // of "architectures"; may be empty
  std::string ModelType() const;
  uint32_t Layers();   // 1 to kMostLayers
  uint32_t KvHeads();  // as many as heads when the config does not say
  uint32_t HeadDim();
  uint32_t Experts();  // 0: none
  // Elements of a head that RoPE turns, by partial_rotary_factor; `otherwise` where the config does not say.
  uint32_t RotaryDim(double otherwise);
  // A fault (kUnsupported) unless every `period`-th layer has full attention and the others a window, as far as the config says.
  void ExpectLayerPeriod(size_t period);
  // A fault (kUnsupported) unless RoPE turns all elements of a head, as far as the config says.
  void ExpectWholeRotation();
  // "rope.freq_base" and "rope.scaling.*". `other`: a kind of RoPE beyond those that every family has.
  void SetRopeKeys(const std::string& prefix, std::string_view other, MetadataMap& metadata);
  // Divisors of the frequencies, where the kind of RoPE has them: Llama 3.1's and Gemma 4's rope_freqs.weight, LongRoPE's
  // rope_factors_long.weight and rope_factors_short.weight.
  std::vector<MadeTensor> RopeTensors();
  // LongRoPE's factor of cos and sin; 0: another kind of RoPE.
  double LongRopeMagnitude();
  // Tokens that the model was first made for, 1 to 2^31 - 1.
  uint32_t OriginalContext();

  const Status& status() const { return status_; }

 private:
  Json Get(const char* field) const;  // null when absent
  double WideNumber(const char* field);
  // Every RoPE field of a wrong kind.
  void CheckRopeFields();
  void CheckRopeField(const Json& value, const char* field, JsonType kind, const char* expected);
  void CheckSlidingRope(const Json& sliding);
  // "rope_parameters" (where layers differ: those of full attention), or "rope_scaling" as it was called before; null when absent.
  Json Rope() const;
  std::string RopeType() const;
  double RopeNumber(const char* field, double otherwise);
  double NeededRopeNumber(const char* field);
  std::vector<float> RopeFactors(const char* field, size_t count);
  std::vector<float> Llama3Divisors();
  // 0: the config does not say.
  double RopeTheta();
  double SlidingRopeTheta();
  void RefuseOtherYarn();
  void Fail(Status status);

  std::map<std::string, Json, std::less<>> fields_;
  Status status_;
};

}  // namespace moonlit
