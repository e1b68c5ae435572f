// SPDX-License-Identifier: Apache-2.0
// Well-formed files: everything that is in them comes out, and what the writer writes is what the format page says.
#include "runtime/gguf/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/quote.h"
#include "runtime/gguf/gguf_writer.h"
#include "tests/support/gguf_bytes.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

GgufFile OpenGood(const GgufBytes& b) {
  Result<GgufFile> file = GgufFile::OpenMemory(b.data(), b.size(), "mem");
  EXPECT_TRUE(file.ok()) << file.status().ToString();
  MOONLIT_CHECK(file.ok());
  return std::move(file).value();
}

class GgufVersion : public testing::TestWithParam<uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Two, GgufVersion, testing::Values(2u, 3u));

TEST_P(GgufVersion, FileAndMemoryGiveTheSame) {
  const GgufBytes b = SmallGguf(GetParam());
  TempFolder folder;
  const std::string path = folder.Write("small.gguf", b.bytes());
  Result<GgufFile> opened = GgufFile::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  GgufFile file = std::move(opened).value();  // views must survive a move
  const GgufFile memory = OpenGood(b);
  EXPECT_EQ(file.version(), GetParam());
  EXPECT_EQ(file.path(), path);
  EXPECT_EQ(file.file_bytes(), b.size());
  EXPECT_EQ(file.data_offset(), b.Offset("data"));
  EXPECT_EQ(file.header(), memory.header());
  EXPECT_EQ(file.header(), b.bytes().substr(0, file.header().size()));
  ASSERT_EQ(file.values().size(), 18u);
  ASSERT_EQ(file.tensors().size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const GgufTensor& tensor = file.tensors()[i];
    std::string from_file(tensor.bytes, '?'), from_memory(tensor.bytes, '!');
    ASSERT_TRUE(file.ReadTensor(tensor, 0, from_file.data(), from_file.size()).ok());
    ASSERT_TRUE(memory.ReadTensor(memory.tensors()[i], 0, from_memory.data(), from_memory.size()).ok());
    EXPECT_EQ(from_file, from_memory);
    EXPECT_EQ(from_file, b.bytes().substr(tensor.offset, tensor.bytes));
  }
}

TEST(Gguf, TensorsHaveRowMajorDimensions) {
  const GgufBytes b = SmallGguf();
  const GgufFile file = OpenGood(b);
  const GgufTensor* a = file.FindTensor("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->rank, 2u);
  EXPECT_EQ(a->dims[0], 2u);
  EXPECT_EQ(a->dims[1], 8u);
  EXPECT_EQ(a->bytes, 64u);
  EXPECT_EQ(a->offset, b.Offset("data"));
  const GgufTensor* q = file.FindTensor("b");
  ASSERT_NE(q, nullptr);
  EXPECT_EQ(q->type->format, Format::kQ4_0);
  EXPECT_EQ(q->dims[0], 4u);
  EXPECT_EQ(q->dims[1], 64u);
  EXPECT_EQ(q->bytes, 4u * 2 * 18);
  EXPECT_EQ(file.FindTensor("c")->offset, b.Offset("data") + 224);
  EXPECT_EQ(file.FindTensor("d"), nullptr);
  EXPECT_EQ(file.FindTensor(""), nullptr);
}

TEST(Gguf, ScalarsOfEveryType) {
  const GgufBytes b = SmallGguf();
  const GgufFile file = OpenGood(b);
  EXPECT_EQ(*file.GetString("general.architecture"), "llama");
  EXPECT_EQ(*file.GetU32("u8"), 200u);
  EXPECT_EQ(*file.GetI64("i8"), -100);
  EXPECT_EQ(*file.GetU64("u16"), 60000u);
  EXPECT_EQ(*file.GetI64("i16"), -30000);
  EXPECT_EQ(*file.GetI64("i32"), -2000000000);
  EXPECT_EQ(*file.GetU64("u64"), UINT64_MAX);
  EXPECT_EQ(*file.GetI64("i64"), INT64_MIN);
  EXPECT_EQ(*file.GetF32("f32"), 0.5f);
  EXPECT_EQ(*file.GetF64("f64"), 0.1);
  EXPECT_EQ(*file.GetF32("f64"), 0.1f);
  EXPECT_TRUE(*file.GetBool("yes"));
}

TEST(Gguf, Arrays) {
  const GgufBytes b = SmallGguf();
  const GgufFile file = OpenGood(b);
  Result<GgufStrings> tokens = file.GetStringArray("tokens");
  ASSERT_TRUE(tokens.ok());
  ASSERT_EQ(tokens->size(), 4u);
  EXPECT_EQ((*tokens)[0], "<s>");
  EXPECT_EQ((*tokens)[1], "");
  EXPECT_EQ((*tokens)[2], "月");
  EXPECT_EQ((*tokens)[3], "a\"b");
  EXPECT_EQ(file.GetStringArray("nothing")->size(), 0u);
  EXPECT_THAT(*file.GetF32Array("scores"), ElementsAre(0.0f, -1.5f, 3.25f));
  EXPECT_THAT(*file.GetI32Array("types"), ElementsAre(1, -2, 2147483647));
  EXPECT_THAT(*file.GetI64Array("wide"), ElementsAre(7, int64_t{1} << 40));
  // A scalar counts as an array of one.
  EXPECT_THAT(*file.GetI32Array("u8"), ElementsAre(200));
  EXPECT_THAT(*file.GetF32Array("f32"), ElementsAre(0.5f));
  EXPECT_EQ((*file.GetStringArray("general.architecture"))[0], "llama");
}

TEST(Gguf, WrongTypesSayWhatWasExpectedAndFound) {
  const GgufBytes b = SmallGguf();
  const GgufFile file = OpenGood(b);
  const auto expect = [](const Status& status, Code code, const char* expected, const char* found) {
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("expected ") + expected)) << status.message();
    EXPECT_THAT(std::string(status.message()), HasSubstr(std::string("found ") + found)) << status.message();
    EXPECT_THAT(std::string(status.message()), HasSubstr("mem: key \"")) << status.message();
  };
  expect(file.GetU32("general.architecture").status(), Code::kCorrupt, "an integer", "string");
  expect(file.GetU32("f32").status(), Code::kCorrupt, "an integer", "float32");
  expect(file.GetU32("yes").status(), Code::kCorrupt, "an integer", "bool");
  expect(file.GetU32("types").status(), Code::kCorrupt, "an integer", "an array of int32");
  expect(file.GetU32("i8").status(), Code::kCorrupt, "an integer from 0", "-100");
  expect(file.GetU32("u64").status(), Code::kCorrupt, "an integer from 0", "18446744073709551615");
  expect(file.GetU64("i64").status(), Code::kCorrupt, "an integer of at least 0", "-9223372036854775808");
  expect(file.GetI64("u64").status(), Code::kCorrupt, "an integer below", "18446744073709551615");
  expect(file.GetF32("u8").status(), Code::kCorrupt, "a float", "uint8");
  expect(file.GetBool("u8").status(), Code::kCorrupt, "a bool", "uint8");
  expect(file.GetString("tokens").status(), Code::kCorrupt, "a string", "an array of string");
  expect(file.GetStringArray("scores").status(), Code::kCorrupt, "an array of strings", "an array of float32");
  expect(file.GetF32Array("types").status(), Code::kCorrupt, "an array of floats", "an array of int32");
  expect(file.GetI32Array("scores").status(), Code::kCorrupt, "an array of integers", "an array of float32");
  expect(file.GetI32Array("wide").status(), Code::kCorrupt, "an array of integers of 32 bits",
         "1099511627776 at index 1");
  const Status absent = file.GetU32("llama.block_count").status();
  EXPECT_EQ(absent.code(), Code::kNotFound);
  EXPECT_THAT(std::string(absent.message()), HasSubstr("\"llama.block_count\""));
}

TEST(Gguf, AnArrayIsNoScalarNotEvenAnArrayOfOne) {
  GgufWriter writer;
  writer.SetU32Array("uints", {7});
  writer.SetI32Array("ints", {7});
  writer.SetF32Array("floats", {7});
  writer.SetStringArray("strings", {"seven"});
  const std::string header = writer.Header();
  const Result<GgufFile> opened = GgufFile::OpenMemory(header.data(), header.size(), "mem");
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const GgufFile& file = opened.value();
  const auto expect = [](const char* key, const Status& status, const std::string& expected, const std::string& found) {
    EXPECT_EQ(status.code(), Code::kCorrupt);
    const std::string start = std::string("mem: key \"") + key + "\": expected " + expected;
    EXPECT_THAT(std::string(status.message()), testing::StartsWith(start));
    EXPECT_THAT(std::string(status.message()), testing::EndsWith(", found an array of " + found));
  };
  for (const auto& [key, type] : {std::pair("uints", "uint32"), std::pair("ints", "int32"),
                                  std::pair("floats", "float32"), std::pair("strings", "string")}) {
    expect(key, file.GetU32(key).status(), "an integer from 0", type);
    expect(key, file.GetU64(key).status(), "an integer of at least 0", type);
    expect(key, file.GetI64(key).status(), "an integer below", type);
    expect(key, file.GetF32(key).status(), "a float", type);
    expect(key, file.GetF64(key).status(), "a float", type);
    expect(key, file.GetBool(key).status(), "a bool", type);
    expect(key, file.GetString(key).status(), "a string", type);
  }
}

TEST(Gguf, DescribesValuesForPeople) {
  const GgufBytes b = SmallGguf();
  const GgufFile file = OpenGood(b);
  EXPECT_EQ(file.Describe(*file.Find("i8")), "-100");
  EXPECT_EQ(file.Describe(*file.Find("yes")), "true");
  EXPECT_EQ(file.Describe(*file.Find("f64")), "0.10000000000000001");
  EXPECT_EQ(file.Describe(*file.Find("tokens")), "[\"<s>\", \"\", \"月\", \"a\\\"b\"]");
  EXPECT_EQ(file.Describe(*file.Find("scores"), 2), "[0, -1.5, ... 3 in all]");
  EXPECT_EQ(file.Describe(*file.Find("nothing")), "[]");
  EXPECT_EQ(QuoteForMessage(std::string("a\0\n\x7f\xff\xe6\x9c", 7)), "\"a\\x00\\x0a\\x7f\\xff\\xe6\\x9c\"");
  EXPECT_EQ(QuoteForMessage(std::string(1000, 'x')), "\"" + std::string(80, 'x') + "\"... (1000 bytes)");
}

TEST(Gguf, ReadTensorKeepsInsideTheTensor) {
  const GgufBytes b = SmallGguf();
  const GgufFile file = OpenGood(b);
  const GgufTensor& tensor = *file.FindTensor("a");
  char bytes[65];
  EXPECT_TRUE(file.ReadTensor(tensor, 64, bytes, 0).ok());
  EXPECT_TRUE(file.ReadTensor(tensor, 60, bytes, 4).ok());
  EXPECT_EQ(bytes[0], 60);
  EXPECT_EQ(file.ReadTensor(tensor, 0, bytes, 65).code(), Code::kInvalidArgument);
  EXPECT_EQ(file.ReadTensor(tensor, 65, bytes, 0).code(), Code::kInvalidArgument);
  EXPECT_EQ(file.ReadTensor(tensor, UINT64_MAX, bytes, 2).code(), Code::kInvalidArgument);
}

TEST(Gguf, FileThatShrinksAfterOpeningIsAStatus) {
  TempFolder folder;
  const GgufBytes b = SmallGguf();
  const std::string path = folder.Write("small.gguf", b.bytes());
  Result<GgufFile> file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok());
  folder.Write("small.gguf", b.bytes().substr(0, b.size() - 1));
  char bytes[16];
  const Status status = file->ReadTensor(*file->FindTensor("c"), 0, bytes, sizeof(bytes));
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(std::string(status.message()), HasSubstr("tensor \"c\""));
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
}

TEST(Gguf, LongNamesAreKeptWhole) {
  for (size_t length : {1, 63, 64, 65, 1000, 65535}) {
    const std::string name(length, 'n');
    GgufBytes b;
    b.Begin(1, 1);
    b.Key(std::string(length, 'k'), 4);
    b.Put(uint32_t{7});
    b.Tensor(name, {4}, 0, 0);
    b.Data(16);
    const GgufFile file = OpenGood(b);
    ASSERT_NE(file.FindTensor(name), nullptr);
    EXPECT_EQ(file.FindTensor(name)->name, name);
    EXPECT_EQ(file.FindTensor(std::string(length - 1, 'n')), nullptr);
    EXPECT_EQ(*file.GetU32(std::string(length, 'k')), 7u);
  }
}

TEST(Gguf, LargeVocabularyIsReadThroughManyChunks) {
  GgufBytes b;
  b.Begin(1, 2);
  b.Key("tokens", 9);
  b.ArrayOf(8, 256000);
  for (size_t i = 0; i < 256000; ++i) b.PutString("token" + std::to_string(i));
  b.Key("scores", 9);
  b.ArrayOf(6, 256000);
  for (size_t i = 0; i < 256000; ++i) b.Put(static_cast<float>(i));
  b.Tensor("x", {4}, 0, 0);
  b.Data(16);
  TempFolder folder;
  Result<GgufFile> file = GgufFile::Open(folder.Write("vocab.gguf", b.bytes()));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const GgufStrings tokens = *file->GetStringArray("tokens");
  ASSERT_EQ(tokens.size(), 256000u);
  for (size_t i : {0u, 1u, 131071u, 255999u}) EXPECT_EQ(tokens[i], "token" + std::to_string(i));
  EXPECT_EQ((*file->GetF32Array("scores"))[255999], 255999.0f);
  EXPECT_EQ(file->FindTensor("x")->offset, b.Offset("data"));
}

TEST(Gguf, FilesWithoutTensorsMayEndWithTheHeader) {
  GgufBytes b;
  b.Begin(0, 1);
  b.Key("general.architecture", 8);
  b.PutString("bert");
  const GgufFile file = OpenGood(b);
  EXPECT_EQ(file.header().size(), b.size());
  EXPECT_TRUE(file.tensors().empty());
}

// The writer against bytes made by hand.
TEST(GgufWriterTest, WritesWhatTheFormatPageSays) {
  GgufBytes b;
  b.Begin(2, 3);
  b.Key("general.alignment", 4);
  b.Put(uint32_t{64});
  b.Key("name", 8);
  b.PutString("x");
  b.Key("list", 9);
  b.ArrayOf(8, 2);
  b.PutString("one");
  b.PutString("");
  b.Tensor("a", {8, 2}, 0, 0);
  b.Tensor("b", {64, 4}, 2, 64);
  b.Data(64 + 144, 64);
  std::string expected = b.bytes();
  expected.append(192 - 144, '\0');  // the writer pads after the last tensor too

  GgufWriter writer(64);
  writer.SetString("name", "x");
  writer.SetStringArray("list", {"one", ""});
  writer.AddTensor("a", Format::kF32, {2, 8});
  writer.AddTensor("b", Format::kQ4_0, {4, 64});
  EXPECT_EQ(writer.tensor_bytes(), 208u);
  TempFolder folder;
  const std::string path = folder.path() + "/out.gguf";
  ASSERT_TRUE(writer.Begin(path).ok());
  const std::string data = b.bytes().substr(b.Offset("data"));
  for (char c : data) ASSERT_TRUE(writer.Append(&c, 1).ok());  // pieces that end anywhere
  EXPECT_EQ(writer.Append("x", 1).code(), Code::kInvalidArgument);
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(writer.Finish().ok());
  EXPECT_EQ(ReadWholeFile(path), expected);
  EXPECT_EQ(folder.FileCount(), 1u);
}

TEST(GgufWriterTest, CopiesEveryKindOfValue) {
  const GgufBytes b = SmallGguf();
  const GgufFile file = OpenGood(b);
  GgufWriter writer(16);
  for (const GgufValue& value : file.values()) writer.CopyValue(file, value);
  const std::string header = writer.Header();
  Result<GgufFile> copy = GgufFile::OpenMemory(header.data(), header.size(), "copy");
  ASSERT_TRUE(copy.ok()) << copy.status().ToString();
  EXPECT_EQ(copy->values().size(), file.values().size());
  EXPECT_EQ(copy->alignment(), 16u);
  for (const GgufValue& value : file.values()) {
    if (value.key == "general.alignment") continue;
    const GgufValue* other = copy->Find(value.key);
    ASSERT_NE(other, nullptr) << value.key;
    EXPECT_EQ(copy->Describe(*other), file.Describe(value));
    EXPECT_EQ(copy->ValueBytes(*other), file.ValueBytes(value));
  }
}

TEST(GgufWriterTest, MistakesAreReportedAndLeaveNoFile) {
  TempFolder folder;
  const std::string path = folder.path() + "/out.gguf";
  const auto begin = [&](auto fill) {
    GgufWriter writer;
    fill(writer);
    return writer.Begin(path).code();
  };
  EXPECT_EQ(begin([](GgufWriter& w) { w.SetU32("a", 1), w.SetU32("a", 1); }), Code::kInvalidArgument);
  EXPECT_EQ(begin([](GgufWriter& w) { w.SetU32("", 1); }), Code::kInvalidArgument);
  EXPECT_EQ(begin([](GgufWriter& w) { w.AddTensor("t", Format::kF32, {1}), w.AddTensor("t", Format::kF32, {1}); }),
            Code::kInvalidArgument);
  EXPECT_EQ(begin([](GgufWriter& w) { w.AddTensor("t", Format::kQ4_K, {1, 128}); }), Code::kInvalidArgument);
  EXPECT_EQ(begin([](GgufWriter& w) { w.AddTensor("t", Format::kF32, {}); }), Code::kInvalidArgument);
  EXPECT_EQ(begin([](GgufWriter& w) { w.AddTensor("t", Format::kF32, {0, 4}); }), Code::kInvalidArgument);
  EXPECT_EQ(begin([](GgufWriter& w) {
              w.AddTensor("t", Format::kF32, {uint64_t{1} << 62, 4});
            }),
            Code::kInvalidArgument);
  EXPECT_EQ(GgufWriter(24).Begin(path).code(), Code::kInvalidArgument);
  {
    GgufWriter unfinished;
    unfinished.AddTensor("t", Format::kF32, {4});
    ASSERT_TRUE(unfinished.Begin(path).ok());
    EXPECT_EQ(unfinished.Finish().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(folder.FileCount(), 0u);
}

}  // namespace
}  // namespace moonlit
