// SPDX-License-Identifier: Apache-2.0
#include "runtime/safetensors/safetensors_header.h"

#include <cstdio>
#include <utility>

#include "runtime/base/quote.h"
#include "runtime/json/json_events.h"

namespace moonlit {
namespace {

constexpr SafetensorsType kTypes[] = {
    {"F32", 32, true, Format::kF32},     {"F16", 16, true, Format::kF16},     {"BF16", 16, true, Format::kBF16},
    {"F64", 64, false, Format::kF32},    {"BOOL", 8, false, Format::kF32},    {"U8", 8, false, Format::kF32},
    {"I8", 8, false, Format::kF32},      {"F8_E5M2", 8, false, Format::kF32}, {"F8_E4M3", 8, false, Format::kF32},
    {"F8_E8M0", 8, false, Format::kF32}, {"I16", 16, false, Format::kF32},    {"U16", 16, false, Format::kF32},
    {"I32", 32, false, Format::kF32},    {"U32", 32, false, Format::kF32},    {"I64", 64, false, Format::kF32},
    {"U64", 64, false, Format::kF32},    {"C64", 64, false, Format::kF32},    {"F4", 4, false, Format::kF32},
    {"F6_E2M3", 6, false, Format::kF32}, {"F6_E3M2", 6, false, Format::kF32},
};

// Reads the header event by event: a document of its values would take several times its bytes, and a value nested too deep or of
// another kind ends the reading at once.
class Reader : public JsonEvents {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  std::vector<SafetensorsTensor> tensors;

  Status Null() override { return Unexpected("null"); }
  Status Boolean(bool) override { return Unexpected("true or false"); }
  Status Double(double) override { return Unexpected("a number that is no count"); }
  Status Integer(int64_t) override { return Unexpected("a number below 0"); }
  Status Unsigned(uint64_t value) override {
    if (place_ == Place::kShape) return Append(&tensors.back().shape, value, kMaxRank);
    if (place_ == Place::kOffsets) return Append(&offsets_, value, 2);
    return Unexpected("a number");
  }
  Status String(std::string_view text) override {
    if (place_ == Place::kMetadata) return Status();
    if (place_ != Place::kType) return Unexpected("a string");
    tensors.back().type = FindSafetensorsType(text);
    place_ = Place::kTensor;
    if (tensors.back().type != nullptr) return Status();
    return Errorf(Code::kUnsupported, "file %s: tensor %s has values of type %s, which this build does not know",
                  path_.c_str(), QuoteForMessage(tensors.back().name).c_str(), QuoteForMessage(text).c_str());
  }
  Status StartObject() override {
    if (place_ == Place::kStart) return Go(Place::kTop);
    if (place_ == Place::kMetadataStart) return Go(Place::kMetadata);
    if (place_ != Place::kTensorStart) return Unexpected("an object");
    offsets_.clear();
    has_type_ = has_shape_ = has_offsets_ = false;
    return Go(Place::kTensor);
  }
  Status Key(std::string_view name) override {
    if (place_ == Place::kTop) return Start(name);
    if (place_ == Place::kMetadata) return Status();
    if (name == "dtype") return Enter(Place::kType, &has_type_);
    if (name == "shape") return Enter(Place::kShapeStart, &has_shape_);
    if (name == "data_offsets") return Enter(Place::kOffsetsStart, &has_offsets_);
    return Fault("expected dtype, shape and data_offsets, found the field " + QuoteForMessage(name));
  }
  Status StartArray() override {
    if (place_ == Place::kShapeStart) return Go(Place::kShape);
    return place_ == Place::kOffsetsStart ? Go(Place::kOffsets) : Unexpected("an array");
  }
  Status EndArray() override { return Go(Place::kTensor); }
  Status EndObject() override {
    if (place_ == Place::kMetadata) return Go(Place::kTop);
    if (place_ == Place::kTop) return Go(Place::kEnd);
    if (place_ != Place::kTensor) return Unexpected("the end of an object");
    if (!has_type_ || !has_shape_ || !has_offsets_ || offsets_.size() != 2)
      return Fault("expected dtype, shape and two data_offsets");
    if (offsets_[1] < offsets_[0]) return Fault("its end lies before its beginning");
    tensors.back().offset = offsets_[0];
    tensors.back().bytes = offsets_[1] - offsets_[0];
    return Go(Place::kTop);
  }
  Status Broken(size_t byte, std::string_view) override {
    return Errorf(Code::kCorrupt,
                  "file %s: expected JSON in the header, found something else at its byte %zu; "
                  "download the file again",
                  path_.c_str(), byte);
  }

 private:
  static constexpr size_t kMaxRank = 8;
  enum class Place {
    kStart,
    kTop,
    kMetadataStart,
    kMetadata,
    kTensorStart,
    kTensor,
    kType,
    kShapeStart,
    kShape,
    kOffsetsStart,
    kOffsets,
    kEnd,
  };

  Status Go(Place place) {
    place_ = place;
    return Status();
  }
  Status Start(std::string_view name) {
    if (name == "__metadata__") return Go(Place::kMetadataStart);
    tensors.push_back({std::string(name), nullptr, {}, 0, 0});
    return name.empty() ? Fault("a tensor has no name") : Go(Place::kTensorStart);
  }
  Status Enter(Place place, bool* seen) {
    if (*seen) return Fault("a field stands twice");
    *seen = true;
    return Go(place);
  }
  Status Append(std::vector<uint64_t>* values, uint64_t value, size_t most) const {
    if (values->size() == most) return Fault("more numbers than the field can have");
    values->push_back(value);
    return Status();
  }
  Status Unexpected(const char* what) const { return Fault(std::string("found ") + what + " where it has no place"); }
  Status Fault(const std::string& why) const {
    const std::string where =
        tensors.empty() ? std::string("the header") : "tensor " + QuoteForMessage(tensors.back().name);
    return Errorf(Code::kCorrupt, "file %s: %s: %s; download the file again", path_.c_str(), where.c_str(),
                  why.c_str());
  }

  const std::string& path_;
  Place place_ = Place::kStart;
  bool has_type_ = false, has_shape_ = false, has_offsets_ = false;
  std::vector<uint64_t> offsets_;
};

}  // namespace

const SafetensorsType* FindSafetensorsType(std::string_view name) {
  for (const SafetensorsType& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

Result<std::vector<SafetensorsTensor>> ParseSafetensorsHeader(std::string_view json, const std::string& path) {
  Reader reader(path);
  MOONLIT_RETURN_IF_ERROR(ReadJson(json, reader));
  return std::move(reader.tensors);
}

}  // namespace moonlit
