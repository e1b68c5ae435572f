// SPDX-License-Identifier: Apache-2.0
#include "runtime/safetensors/safetensors_header.h"

#include <cstdio>
#include <utility>

#include "nlohmann/json.hpp"
#include "runtime/base/quote.h"

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

using Json = nlohmann::json;

// Reads the header event by event: a document of its values would take ten times its bytes, and a value nested too deep or of
// another kind ends the parse at once.
class Reader : public nlohmann::json_sax<Json> {
 public:
  explicit Reader(const std::string& path) : path_(path) {}

  std::vector<SafetensorsTensor> tensors;
  Status status;

  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool number_float(double, const std::string&) override { return Unexpected("a number that is no count"); }
  bool number_integer(int64_t) override { return Unexpected("a number below 0"); }
  bool binary(Json::binary_t&) override { return Unexpected("bytes"); }
  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::kShape) return Append(&tensors.back().shape, value, kMaxRank);
    if (place_ == Place::kOffsets) return Append(&offsets_, value, 2);
    return Unexpected("a number");
  }
  bool string(std::string& text) override {
    if (place_ == Place::kMetadata) return true;
    if (place_ != Place::kType) return Unexpected("a string");
    tensors.back().type = FindSafetensorsType(text);
    place_ = Place::kTensor;
    if (tensors.back().type != nullptr) return true;
    return Fail(Errorf(Code::kUnsupported, "file %s: tensor %s has values of type %s, which this build does not know",
                       path_.c_str(), QuoteForMessage(tensors.back().name).c_str(), QuoteForMessage(text).c_str()));
  }
  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
      return true;
    }
    if (place_ == Place::kMetadataStart) {
      place_ = Place::kMetadata;
      return true;
    }
    if (place_ != Place::kTensorStart) return Unexpected("an object");
    place_ = Place::kTensor;
    offsets_.clear();
    has_type_ = has_shape_ = has_offsets_ = false;
    return true;
  }
  bool key(std::string& name) override {
    if (place_ == Place::kTop) return Start(name);
    if (place_ == Place::kMetadata) return true;
    if (name == "dtype") return Enter(Place::kType, &has_type_);
    if (name == "shape") return Enter(Place::kShapeStart, &has_shape_);
    if (name == "data_offsets") return Enter(Place::kOffsetsStart, &has_offsets_);
    return Fail(Broken("expected dtype, shape and data_offsets, found the field " + QuoteForMessage(name)));
  }
  bool start_array(std::size_t) override {
    if (place_ != Place::kShapeStart && place_ != Place::kOffsetsStart) return Unexpected("an array");
    place_ = place_ == Place::kShapeStart ? Place::kShape : Place::kOffsets;
    return true;
  }
  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }
  bool end_object() override {
    if (place_ == Place::kMetadata) {
      place_ = Place::kTop;
      return true;
    }
    if (place_ == Place::kTop) {
      place_ = Place::kEnd;
      return true;
    }
    if (place_ != Place::kTensor) return Unexpected("the end of an object");
    place_ = Place::kTop;
    if (!has_type_ || !has_shape_ || !has_offsets_ || offsets_.size() != 2)
      return Fail(Broken("expected dtype, shape and two data_offsets"));
    if (offsets_[1] < offsets_[0]) return Fail(Broken("its end lies before its beginning"));
    tensors.back().offset = offsets_[0];
    tensors.back().bytes = offsets_[1] - offsets_[0];
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception&) override {
    return Fail(Errorf(Code::kCorrupt,
                       "file %s: expected JSON in the header, found something else at its byte %zu; "
                       "download the file again",
                       path_.c_str(), position));
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

  bool Start(const std::string& name) {
    if (name == "__metadata__") {
      place_ = Place::kMetadataStart;
      return true;
    }
    tensors.push_back({name, nullptr, {}, 0, 0});
    place_ = Place::kTensorStart;
    return name.empty() ? Fail(Broken("a tensor has no name")) : true;
  }
  bool Enter(Place place, bool* seen) {
    if (*seen) return Fail(Broken("a field stands twice"));
    *seen = true;
    place_ = place;
    return true;
  }
  bool Append(std::vector<uint64_t>* values, uint64_t value, size_t most) {
    if (values->size() == most) return Fail(Broken("more numbers than the field can have"));
    values->push_back(value);
    return true;
  }
  bool Unexpected(const char* what) { return Fail(Broken(std::string("found ") + what + " where it has no place")); }
  Status Broken(const std::string& why) const {
    const std::string where =
        tensors.empty() ? std::string("the header") : "tensor " + QuoteForMessage(tensors.back().name);
    return Errorf(Code::kCorrupt, "file %s: %s: %s; download the file again", path_.c_str(), where.c_str(),
                  why.c_str());
  }
  bool Fail(Status fault) {
    if (status.ok()) status = std::move(fault);
    return false;
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
  const bool whole = Json::sax_parse(json.begin(), json.end(), &reader);
  MOONLIT_RETURN_IF_ERROR(reader.status);
  if (!whole) return Errorf(Code::kCorrupt, "file %s: the header is no JSON; download the file again", path.c_str());
  return std::move(reader.tensors);
}

}  // namespace moonlit
