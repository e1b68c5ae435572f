// SPDX-License-Identifier: Apache-2.0
// safetensors files, good ones built here by hand and hostile ones made from them.
#include "runtime/safetensors/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

#include "runtime/safetensors/safetensors_set.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

std::string WithHeader(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

std::string Data(size_t size) {
  std::string data(size, '\0');
  for (size_t i = 0; i < size; ++i) data[i] = static_cast<char>(i % 251);
  return data;
}

const char kHeader[] =
    R"({"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[16,28]},)"
    R"("a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"n":{"shape":[0,7],"data_offsets":[28,28],"dtype":"F64"}}  )";

std::string Good() { return WithHeader(kHeader, Data(28)); }

Status OpenStatus(const std::string& bytes) {
  const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
  return SafetensorsFile::OpenMemory(exact.data(), exact.size(), "test").status();
}

TEST(Safetensors, ReadsNamesTypesShapesAndBytes) {
  const TempFolder folder;
  const auto file = SafetensorsFile::Open(folder.Write("model.safetensors", Good()));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_EQ(file->tensors().size(), 3u);
  const SafetensorsTensor* b = file->Find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(b->shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(b->bytes, 12u);
  EXPECT_TRUE(b->type->supported);
  EXPECT_EQ(b->type->format, Format::kBF16);
  std::string bytes(5, '\0');
  ASSERT_TRUE(file->Read(*b, 3, bytes.data(), bytes.size()).ok());
  EXPECT_EQ(bytes, Data(28).substr(19, 5));
  EXPECT_EQ(file->Read(*b, 8, bytes.data(), 5).code(), Code::kInvalidArgument);
  EXPECT_EQ(file->Read(*b, UINT64_MAX, bytes.data(), 1).code(), Code::kInvalidArgument);
  EXPECT_FALSE(file->Find("n")->type->supported);
  EXPECT_EQ(file->Find("n")->bytes, 0u);
  EXPECT_EQ(file->Find("c"), nullptr);
  EXPECT_EQ(file->Find("__metadata__"), nullptr);
}

TEST(Safetensors, RefusesEveryCutAndEveryExtraByte) {
  const std::string good = Good();
  ASSERT_TRUE(OpenStatus(good).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(OpenStatus(good.substr(0, size)).code(), Code::kCorrupt) << size;
  }
  EXPECT_EQ(OpenStatus(good + "x").code(), Code::kCorrupt);
}

TEST(Safetensors, RefusesAHeaderLongerThanTheFileWithoutAllocatingIt) {
  std::string bytes = Good();
  for (const uint64_t length : {uint64_t{UINT64_MAX}, uint64_t{1} << 62, kSafetensorsMaxHeader, uint64_t{28 + 400}}) {
    std::memcpy(bytes.data(), &length, sizeof length);
    ResetAllocations();
    EXPECT_EQ(OpenStatus(bytes).code(), Code::kCorrupt) << length;
    EXPECT_LT(PeakAllocatedBytes(), size_t{1} << 16);
  }
}

TEST(Safetensors, RefusesHostileHeaders) {
  const struct {
    const char* why;
    const char* header;
  } cases[] = {
      {"no JSON", "hello"},
      {"an array", "[]"},
      {"nothing", ""},
      {"a tensor that is no object", R"({"a":7})"},
      {"unknown type of value", R"({"a":{"dtype":"F31","shape":[4],"data_offsets":[0,16]}})"},
      {"no type", R"({"a":{"shape":[4],"data_offsets":[0,16]}})"},
      {"no shape", R"({"a":{"dtype":"F32","data_offsets":[0,16]}})"},
      {"no offsets", R"({"a":{"dtype":"F32","shape":[4]}})"},
      {"one offset", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0]}})"},
      {"three offsets", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16,16]}})"},
      {"end before beginning", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[16,0]}})"},
      {"below zero", R"({"a":{"dtype":"F32","shape":[-4],"data_offsets":[0,16]}})"},
      {"a fraction", R"({"a":{"dtype":"F32","shape":[4.0],"data_offsets":[0,16]}})"},
      {"beyond 64 bits", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,99999999999999999999]}})"},
      {"text as shape", R"({"a":{"dtype":"F32","shape":"4","data_offsets":[0,16]}})"},
      {"nested shape", R"({"a":{"dtype":"F32","shape":[[4]],"data_offsets":[0,16]}})"},
      {"a field twice", R"({"a":{"dtype":"F32","dtype":"F32","shape":[4],"data_offsets":[0,16]}})"},
      {"a field too many", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16],"x":1}})"},
      {"too many dimensions", R"({"a":{"dtype":"F32","shape":[4,1,1,1,1,1,1,1,1],"data_offsets":[0,16]}})"},
      {"a product that overflows",
       R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,16]}})"},
      {"a product that wraps to the right size",
       R"({"a":{"dtype":"F32","shape":[4,4611686018427387905],"data_offsets":[0,16]}})"},
      {"size and shape differ", R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,16]}})"},
      {"outside of the file", R"({"a":{"dtype":"F32","shape":[5],"data_offsets":[0,20]}})"},
      {"begins outside",
       R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[18446744073709551615,18446744073709551615]}})"},
      {"a gap", R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[4,16]}})"},
      {"an overlap",
       R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}})"},
      {"the same bytes twice",
       R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})"},
      {"a name twice",
       R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"a":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})"},
      {"no name", R"({"":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})"},
      {"half a byte", R"({"a":{"dtype":"F4","shape":[3],"data_offsets":[0,16]}})"},
      {"metadata that is no text", R"({"__metadata__":{"x":1},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})"},
      {"something behind", R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}} {})"},
      {"bad UTF-8", "{\"\xff\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}"},
  };
  for (const auto& one : cases) {
    const Status status = OpenStatus(WithHeader(one.header, Data(16)));
    EXPECT_TRUE(status.code() == Code::kCorrupt || status.code() == Code::kUnsupported) << one.why;
    EXPECT_NE(status.message().find("test"), std::string_view::npos) << one.why;
  }
}

TEST(Safetensors, DeepNestingEndsAtOnce) {
  const std::string deep = R"({"a":)" + std::string(1000000, '[');
  EXPECT_EQ(OpenStatus(WithHeader(deep, "")).code(), Code::kCorrupt);
  EXPECT_EQ(OpenStatus(WithHeader(R"({"__metadata__":)" + std::string(1000000, '{'), "")).code(), Code::kCorrupt);
}

std::string OneTensor(const std::string& name) {
  return WithHeader(R"({")" + name + R"(":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", Data(4));
}

TEST(SafetensorsSet, JoinsTheFilesOfAnIndex) {
  const TempFolder folder;
  folder.Write("one.safetensors", OneTensor("a"));
  folder.Write("two.safetensors", OneTensor("b"));
  folder.Write("model.safetensors.index.json",
               R"({"metadata":{"total_size":8},"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  const auto set = SafetensorsSet::Open(folder.path());
  ASSERT_TRUE(set.ok()) << set.status().ToString();
  EXPECT_EQ(set->files().size(), 2u);
  EXPECT_EQ(set->entries().size(), 2u);
  ASSERT_NE(set->Find("b").tensor, nullptr);
  EXPECT_TRUE(set->Find("b").file->path().ends_with("two.safetensors"));
  EXPECT_EQ(set->Find("c").tensor, nullptr);
}

TEST(SafetensorsSet, SaysWhatIsMissing) {
  const TempFolder folder;
  EXPECT_EQ(SafetensorsSet::Open(folder.path()).status().code(), Code::kNotFound);
  folder.Write("one.safetensors", OneTensor("a"));
  folder.Write("model.safetensors.index.json", R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  const Status status = SafetensorsSet::Open(folder.path()).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_NE(status.message().find("two.safetensors"), std::string_view::npos);
}

TEST(SafetensorsSet, RefusesIndexesThatLie) {
  const TempFolder folder;
  folder.Write("one.safetensors", OneTensor("a"));
  folder.Write("two.safetensors", OneTensor("a"));
  for (const char* index : {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{}})", R"({"weight_map":{"a":7}})",
                            R"({"weight_map":{"a":"../one.safetensors"}})", R"({"weight_map":{"a":"/etc/passwd"}})",
                            R"({"weight_map":{"a":""}})", R"({"weight_map":{"a":"one.gguf"}})",
                            R"({"weight_map":{"b":"one.safetensors"}})",                           // not in it
                            R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})"}) {  // "a" in both
    folder.Write("model.safetensors.index.json", index);
    EXPECT_EQ(SafetensorsSet::Open(folder.path()).status().code(), Code::kCorrupt) << index;
  }
}

}  // namespace
}  // namespace moonlit
