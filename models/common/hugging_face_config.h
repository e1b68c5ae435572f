// SPDX-License-Identifier: Apache-2.0
// Reads the fields of a config.json within stated ranges. The first fault is kept and later reads give a harmless value, so a
// config is checked once at the end. A field that is null counts as absent.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nlohmann/json.hpp"
#include "runtime/base/status.h"
#include "runtime/weights/metadata_map.h"

namespace moonlit {

class HuggingFaceConfig {
 public:
  // Fields of "text_config" count as if they stood at the top. kCorrupt: no JSON object.
  static Result<HuggingFaceConfig> Create(const nlohmann::json& json);

  bool Has(const char* field) const { return Find(field) != nullptr; }
  // 1 to 2^31 - 1.
  uint32_t Count(const char* field);
  float Number(const char* field);
  bool Flag(const char* field, bool otherwise);
  // A fault (kUnsupported) when the field is there with another value.
  void Expect(const char* field, const nlohmann::json& value);

  // "layer_types": whether a layer sees a window only; empty when the config does not say. kUnsupported: other kinds of layers.
  std::vector<bool> WindowedLayers();
  // A fault (kUnsupported) that names the field, its value and what can be computed.
  void Refuse(const char* field, const std::string& computed);

  std::string ClassName() const;  // of "architectures"; may be empty
  std::string ModelType() const;
  uint32_t KvHeads();  // as many as heads when the config does not say
  uint32_t HeadDim();
  uint32_t Experts();  // 0: none
  // Elements of a head that RoPE turns, by partial_rotary_factor; `otherwise` where the config does not say.
  uint32_t RotaryDim(double otherwise);
  // A fault (kUnsupported) unless every `period`-th layer has full attention and the others a window, as far as the config says.
  void ExpectLayerPeriod(size_t period);
  // A fault (kUnsupported) unless RoPE turns all elements of a head, as far as the config says.
  void ExpectWholeRotation();
  // "rope.freq_base" and "rope.scaling.*".
  void SetRopeKeys(const std::string& prefix, MetadataMap& metadata);
  // Llama 3.1's divisors of the frequencies, [head_dim / 2]; empty for other models.
  std::vector<float> RopeDivisors();

  const Status& status() const { return status_; }

 private:
  const nlohmann::json* Find(const char* field) const;
  // Every RoPE field of a wrong kind.
  void CheckRopeFields();
  // "rope_parameters" (where layers differ: those of full attention), or "rope_scaling" as it was called before; null when absent.
  const nlohmann::json* Rope() const;
  std::string RopeType() const;
  double RopeNumber(const char* field, double otherwise);
  // 0: the config does not say.
  double RopeTheta();
  double SlidingRopeTheta();
  void RefuseOtherYarn();
  void Fail(Status status);

  nlohmann::json json_;
  Status status_;
};

}  // namespace moonlit
