// SPDX-License-Identifier: Apache-2.0
// Broken files: each gives one error that names file and place, allocates no more than the file justifies, and crashes nothing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/base/log.h"
#include "runtime/gguf/gguf.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/gguf_bytes.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using testing::HasSubstr;

// What the reader may hold for a file of n bytes: the header, once more while it grows (doubling: 3 n); per 14 bytes of a key 48
// bytes of GgufValue and 8 of name, per 8 bytes of a string 4, per 33 bytes of a tensor 88: all in vectors that double (factor 3
// while they grow). Keys are the worst: 3 + 3 * 56 / 14 = 15, strings on top 3 * 4 / 8 = 1.5. A few messages and paths beside.
size_t AllocationLimit(size_t file_bytes) { return 17 * file_bytes + 8192; }

// Opens from a file and from memory; both must agree. Returns the status.
Status OpenBoth(const GgufBytes& b) {
  static const TempFolder* folder = new TempFolder;
  const std::string path = folder->Write("x.gguf", b.bytes());
  ResetAllocations();
  Status from_file;
  {
    Result<GgufFile> file = GgufFile::Open(path);
    if (!file.ok()) from_file = file.status();
  }
  EXPECT_LE(PeakAllocatedBytes(), AllocationLimit(b.size()));
  // A copy of exactly this size on the heap, so that sanitizers see a read beyond it.
  const std::vector<char> exact(b.data(), b.data() + b.size());
  Result<GgufFile> memory = GgufFile::OpenMemory(exact.data(), exact.size(), path);
  EXPECT_EQ(memory.ok(), from_file.ok());
  if (!memory.ok()) {
    EXPECT_EQ(memory.status().ToString(), from_file.ToString());
    EXPECT_THAT(memory.status().ToString(), HasSubstr(path));
  }
  return from_file;
}

void ExpectRefused(const GgufBytes& b, const std::string& what) {
  const Status status = OpenBoth(b);
  EXPECT_FALSE(status.ok()) << what;
  EXPECT_TRUE(status.code() == Code::kCorrupt || status.code() == Code::kUnsupported)
      << what << ": " << status.ToString();
}

void ExpectMessage(const GgufBytes& b, Code code, const std::vector<std::string>& parts) {
  const Status status = OpenBoth(b);
  EXPECT_EQ(status.code(), code) << status.ToString();
  for (const std::string& part : parts) EXPECT_THAT(status.ToString(), HasSubstr(part));
}

std::string At(const GgufBytes& b, const std::string& field) { return "at offset " + std::to_string(b.Offset(field)); }

TEST(HostileGguf, TheUnbrokenFileOpens) {
  const Status status = OpenBoth(SmallGguf());
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(HostileGguf, EveryDimensionAtEveryBadValue) {
  const uint64_t values[] = {
      0, uint64_t{1} << 31, uint64_t{1} << 32, (uint64_t{1} << 42) + 1, uint64_t{1} << 62, INT64_MAX, UINT64_MAX};
  for (const char* field : {"tensor.0.dim.0", "tensor.0.dim.1", "tensor.1.dim.0", "tensor.1.dim.1", "tensor.2.dim.0"}) {
    for (uint64_t value : values) {
      GgufBytes b = SmallGguf();
      b.PatchU64(field, value);
      ExpectRefused(b, std::string(field) + " = " + std::to_string(value));
    }
    // One is a legal dimension, but "b" then has no whole block in a row.
    GgufBytes b = SmallGguf();
    b.PatchU64(field, 1);
    EXPECT_EQ(OpenBoth(b).ok(), std::string(field) != "tensor.1.dim.0") << field;
  }
  GgufBytes b = SmallGguf();
  b.PatchU64("tensor.0.dim.1", 0);
  ExpectMessage(b, Code::kCorrupt,
                {"tensor \"a\"", "dimension", At(b, "tensor.0.dim.1"), "expected at least 1", "found 0"});
  b.PatchU64("tensor.0.dim.1", INT64_MAX);  // 8 * INT64_MAX wraps to -8
  ExpectMessage(b, Code::kCorrupt, {"tensor \"a\"", "dimension", At(b, "tensor.0.dim.1"), "9223372036854775807"});
}

TEST(HostileGguf, SizesThatWrapToSmallNumbers) {
  // (2^42 + 1) * 2^20 elements * 4 bytes wraps to 4 MiB in 64 bits; 2^61 F32 elements are 2^63 bytes.
  for (std::vector<uint64_t> dims :
       {std::vector<uint64_t>{(uint64_t{1} << 42) + 1, uint64_t{1} << 20}, std::vector<uint64_t>{uint64_t{1} << 61},
        std::vector<uint64_t>{uint64_t{1} << 62},
        std::vector<uint64_t>{uint64_t{1} << 16, uint64_t{1} << 16, uint64_t{1} << 16, uint64_t{1} << 16},
        std::vector<uint64_t>{INT64_MAX, 2}, std::vector<uint64_t>{UINT64_MAX, UINT64_MAX, 1, 1}}) {
    GgufBytes b;
    b.Begin(1, 0);
    b.Tensor("t", dims, 0, 0);
    b.Data(64);
    ExpectMessage(b, Code::kCorrupt, {"tensor \"t\"", "dimension"});
  }
}

TEST(HostileGguf, NumberOfDimensions) {
  for (uint32_t rank : {0u, 5u, 0x80000000u, UINT32_MAX}) {
    GgufBytes b = SmallGguf();
    b.PatchU32("tensor.0.rank", rank);
    ExpectMessage(b, Code::kCorrupt,
                  {"tensor \"a\"", "number of dimensions", At(b, "tensor.0.rank"), std::to_string(rank)});
  }
  // Within the limits, but what follows is then misread.
  for (uint32_t rank : {1u, 3u, 4u}) {
    GgufBytes b = SmallGguf();
    b.PatchU32("tensor.0.rank", rank);
    ExpectRefused(b, "rank " + std::to_string(rank));
  }
}

TEST(HostileGguf, EveryCountAndLengthAtEveryBadValue) {
  const GgufBytes good = SmallGguf();
  size_t tried = 0;
  for (const auto& [field, offset] : good.fields()) {
    const bool counts =
        field == "tensor_count" || field == "key_count" || field.ends_with(".count") || field.ends_with(".length");
    const bool is_string = field == "key.0.value";  // begins with its length
    if (!counts && !is_string) continue;
    for (uint64_t value : {uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{1} << 60, uint64_t{1} << 61,
                           uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 7, uint64_t{good.size()}}) {
      GgufBytes b = good;
      b.PatchU64(field, value);
      ExpectRefused(b, field + " = " + std::to_string(value));
      ++tried;
    }
  }
  EXPECT_EQ(tried, 8u * (2 + 6 + 18 + 3 + 1));
  GgufBytes b = good;
  b.PatchU64("tensor_count", UINT64_MAX);
  ExpectMessage(b, Code::kCorrupt, {"tensor count at offset 8", "18446744073709551615"});
  b = good;
  b.PatchU64("key_count", uint64_t{1} << 63);
  ExpectMessage(b, Code::kCorrupt, {"key count at offset 16", "9223372036854775808"});
  b = good;
  b.PatchU64("key.13.count", uint64_t{1} << 62);  // times 4 bytes wraps to 0
  ExpectMessage(b, Code::kCorrupt, {"key \"scores\"", "array length", At(b, "key.13.count"), "4611686018427387904"});
}

TEST(HostileGguf, CutAtEveryByte) {
  const GgufBytes good = SmallGguf();
  for (size_t size = 0; size < good.size(); ++size) {
    GgufBytes b = good;
    b.bytes().resize(size);
    const Status status = OpenBoth(b);
    ASSERT_FALSE(status.ok()) << size;
    // Before the magic is whole it is some other file.
    EXPECT_EQ(status.code(), size < 4 ? Code::kUnsupported : Code::kCorrupt) << status.ToString();
    if (size >= 4) {
      EXPECT_THAT(status.ToString(), HasSubstr(std::to_string(size))) << "the real size is named";
    }
  }
}

TEST(HostileGguf, ACutTailNamesBothSizesAndTheFirstMissingTensor) {
  GgufBytes b = SmallGguf();
  const std::string whole = std::to_string(b.size());
  b.bytes().resize(b.size() - 1);
  ExpectMessage(b, Code::kCorrupt,
                {"expected " + whole + " bytes", "found " + std::to_string(b.size()), "1 of 3 tensors",
                 "the first is \"c\"", "download it again"});
  b.bytes().resize(b.Offset("data") + 100);
  ExpectMessage(b, Code::kCorrupt, {"2 of 3 tensors", "the first is \"b\""});
  b.bytes().resize(b.Offset("data"));
  ExpectMessage(b, Code::kCorrupt, {"3 of 3 tensors", "the first is \"a\""});
}

TEST(HostileGguf, Alignment) {
  for (uint32_t alignment : {0u, 3u, 24u, 33u, 0x00400000u, 0x80000000u, UINT32_MAX}) {
    GgufBytes b = SmallGguf();
    b.PatchU32("key.1.value", alignment);
    ExpectMessage(b, Code::kCorrupt,
                  {"general.alignment", At(b, "key.1.value"), "power of two", "found " + std::to_string(alignment)});
  }
  GgufBytes b = SmallGguf();
  b.PatchU32("key.1.type", 5);
  ExpectMessage(b, Code::kCorrupt, {"general.alignment", "expected uint32", "found int32"});
}

TEST(HostileGguf, ValueTypes) {
  for (uint32_t type : {13u, 255u, 0x80000000u, UINT32_MAX}) {
    GgufBytes b = SmallGguf();
    b.PatchU32("key.2.type", type);
    ExpectMessage(b, Code::kCorrupt, {"key \"u8\"", "value type", At(b, "key.2.type"), std::to_string(type)});
    b = SmallGguf();
    b.PatchU32("key.13.element", type);
    ExpectMessage(b, Code::kCorrupt, {"key \"scores\"", "element type", At(b, "key.13.element"), std::to_string(type)});
  }
  GgufBytes b = SmallGguf();
  b.PatchU32("key.13.element", 9);
  ExpectMessage(b, Code::kUnsupported, {"key \"scores\"", "array of arrays"});
  b = SmallGguf();
  b.Patch("key.8.value", uint8_t{2});
  ExpectMessage(b, Code::kCorrupt, {"key \"yes\"", "expected 0 or 1", "found 2"});
  b = SmallGguf();
  b.Patch("key.15.value", uint8_t{255});
  ExpectMessage(b, Code::kCorrupt, {"key \"flags\"", "expected 0 or 1", "found 255"});
}

TEST(HostileGguf, DeeplyNestedArraysDoNotRecurse) {
  GgufBytes b;
  b.Begin(0, 1);
  b.Key("deep", 9);
  for (int i = 0; i < 100000; ++i) b.ArrayOf(9, 1);
  ExpectMessage(b, Code::kUnsupported, {"key \"deep\"", "array of arrays"});
}

TEST(HostileGguf, TensorTypes) {
  GgufBytes b = SmallGguf();
  b.PatchU32("tensor.1.type", 200);
  ExpectMessage(b, Code::kUnsupported, {"tensor \"b\"", "type", At(b, "tensor.1.type"), "200"});
  b = SmallGguf();
  b.PatchU32("tensor.1.type", 12);  // Q4_K: 64 is no whole block
  ExpectMessage(b, Code::kCorrupt, {"tensor \"b\"", "multiple of 256", "Q4_K", "found 64"});
  // Known but foreign: the reader opens it, so that it can be inspected.
  b = SmallGguf();
  b.PatchU32("tensor.2.type", 25);
  ASSERT_TRUE(OpenBoth(b).ok());
  Result<GgufFile> file = GgufFile::OpenMemory(b.data(), b.size(), "x");
  EXPECT_STREQ(file->FindTensor("c")->type->name, "I16");
  EXPECT_FALSE(file->FindTensor("c")->type->supported);
}

TEST(HostileGguf, NamesTwiceOrMissing) {
  GgufBytes b = SmallGguf();
  b.bytes()[b.Offset("tensor.2.length") + 8] = 'a';
  ExpectMessage(b, Code::kCorrupt,
                {"tensor", "\"a\" twice", "at offset " + std::to_string(b.Offset("tensor.2.length") + 8)});
  b = SmallGguf();
  b.bytes().replace(b.Offset("key.5.length") + 8, 3, "u16");  // was i16
  ExpectMessage(b, Code::kCorrupt, {"key", "\"u16\" twice"});
  b = SmallGguf();
  b.PatchU64("tensor.0.length", 0);
  ExpectMessage(b, Code::kCorrupt, {"tensor 1: name", At(b, "tensor.0.length"), "found 0"});
  b = SmallGguf();
  b.PatchU64("key.3.length", 0);
  ExpectMessage(b, Code::kCorrupt, {"key 4: key", At(b, "key.3.length"), "found 0"});
  GgufBytes long_name;
  long_name.Begin(1, 0);
  long_name.Tensor(std::string(65536, 'n'), {4}, 0, 0);
  long_name.Data(16);
  ExpectMessage(long_name, Code::kCorrupt, {"tensor 1: name", "found 65536"});
}

TEST(HostileGguf, OffsetsThatOverlapOrLeaveTheFile) {
  GgufBytes b = SmallGguf();
  b.PatchU64("tensor.1.offset", 32);  // inside "a"
  ExpectMessage(b, Code::kCorrupt,
                {"tensor \"a\"", "expected 64 bytes of its own", "\"b\" beginning 32 bytes after it"});
  b = SmallGguf();
  b.PatchU64("tensor.2.offset", 192);  // the tail of "b", which is 144 bytes at 64
  ExpectMessage(b, Code::kCorrupt,
                {"tensor \"b\"", "expected 144 bytes of its own", "\"c\" beginning 128 bytes after it"});
  b = SmallGguf();
  b.PatchU64("tensor.1.offset", 0);
  ExpectMessage(b, Code::kCorrupt, {"\"a\"", "\"b\"", "of its own"});
  for (uint64_t offset :
       {uint64_t{1} << 31, uint64_t{1} << 62, uint64_t{INT64_MAX}, uint64_t{1} << 63, UINT64_MAX, UINT64_MAX - 31}) {
    b = SmallGguf();
    b.PatchU64("tensor.1.offset", offset);
    ExpectMessage(b, Code::kCorrupt, {"\"b\""});
  }
}

TEST(HostileGguf, OddButReadableFilesAreOpenedWithAWarning) {
  std::string logged;
  Log log([&](LogLevel level, const char* text) { logged += std::string(LogLevelName(level)) + ": " + text + "\n"; });
  const LogScope scope(&log);
  GgufBytes b = SmallGguf();
  b.PatchU64("tensor.1.offset", 65);
  logged.clear();
  EXPECT_TRUE(GgufFile::OpenMemory(b.data(), b.size(), "odd").ok());
  EXPECT_THAT(logged, HasSubstr("warning: odd: tensor \"b\""));
  b = SmallGguf();
  b.bytes().append(5000, 'x');
  logged.clear();
  EXPECT_TRUE(GgufFile::OpenMemory(b.data(), b.size(), "long").ok());
  EXPECT_THAT(logged, HasSubstr("warning: long: 5000 bytes follow the last tensor"));
  b = SmallGguf();
  logged.clear();
  EXPECT_TRUE(GgufFile::OpenMemory(b.data(), b.size(), "good").ok());
  EXPECT_EQ(logged, "");
}

TEST(HostileGguf, OtherFilesAreCalledByTheirName) {
  const auto expect = [](std::string bytes, const char* name) {
    GgufBytes b;
    b.bytes() = std::move(bytes);
    ExpectMessage(b, Code::kUnsupported, {name});
  };
  expect("", "an empty one");
  expect("G", "begin with \"G\"");
  expect("<!DOCTYPE html><html><body>Log in</body></html>", "a web page");
  expect("\xef\xbb\xbf\n  <HTML>", "a web page");
  expect(std::string("\x40\0\0\0\0\0\0\0{\"__metadata__\":{}}", 26), "safetensors");
  expect("version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS pointer");
  expect("{\"error\":\"not found\"}", "JSON");
  expect("tjgg\3\0\0\0", "before August 2023");
  expect(std::string("PK\3\4\0\0\0\0", 8), "zip");
  expect(std::string(100, '\0'), "zeros");
  expect("FUGG\0\0\0\3", "big-endian");
  expect("plain text", "begin with \"plai\"");
  for (uint32_t version : {1u, 0u, 4u, 0x03000000u, UINT32_MAX}) {
    GgufBytes b = SmallGguf();
    b.PatchU32("version", version);
    ExpectMessage(b, Code::kUnsupported, {"expected"});
  }
  GgufBytes b = SmallGguf();
  b.PatchU32("version", 1);
  ExpectMessage(b, Code::kUnsupported, {"version 1"});
  b.PatchU32("version", 0x03000000);
  ExpectMessage(b, Code::kUnsupported, {"big-endian"});
  b.PatchU32("version", 4);
  ExpectMessage(b, Code::kUnsupported, {"found 4", "newer"});
}

// Small enough (73 bytes) to have been a real exploit: a zero dimension that an overflow check divides by.
TEST(HostileGguf, ZeroDimensionInTheSmallestFile) {
  GgufBytes b;
  b.Begin(1, 0);
  b.Tensor("t", {4, 0}, 0, 0);
  b.Data(0);
  ExpectMessage(b, Code::kCorrupt, {"tensor \"t\"", "dimension", "found 0"});
}

TEST(HostileGguf, NotAFile) {
  TempFolder folder;
  EXPECT_EQ(GgufFile::Open(folder.path()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(GgufFile::Open(folder.path() + "/none.gguf").status().code(), Code::kNotFound);
  EXPECT_EQ(GgufFile::Open("/dev/null").status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace moonlit
