// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/weights/gguf_source.h"
#include "runtime/weights/rows.h"
#include "tests/support/gguf_bytes.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(GgufSourceTest, TensorsAndMetadataOfOneFile) {
  const GgufBytes b = SmallGguf();
  TempFolder folder;
  const std::string path = folder.Write("small.gguf", b.bytes());
  Result<std::unique_ptr<GgufSource>> opened = GgufSource::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  const GgufSource& source = **opened;
  const TensorInfo* tensor = source.Find("b");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->format, Format::kQ4_0);
  EXPECT_EQ(tensor->shape, (Shape{4, 64}));
  EXPECT_EQ(tensor->bytes, 144u);
  EXPECT_EQ(source.Find("z"), nullptr);
  ASSERT_EQ(source.All().size(), 3u);
  EXPECT_EQ(source.All()[0]->name, "a");
  EXPECT_EQ(source.All()[2]->name, "c");
  EXPECT_EQ(source.description(), path);
  std::string bytes(36, ' ');
  ASSERT_TRUE(source.Read(*tensor, 36, bytes.data(), 36).ok());
  EXPECT_EQ(bytes, b.bytes().substr(b.Offset("data") + 64 + 36, 36));

  const Metadata& metadata = source.metadata();
  EXPECT_TRUE(metadata.Has("u8"));
  EXPECT_FALSE(metadata.Has("u9"));
  EXPECT_EQ(*metadata.GetUint("u16"), 60000u);
  EXPECT_EQ(*metadata.GetFloat("f64"), 0.1);
  EXPECT_TRUE(*metadata.GetBool("yes"));
  EXPECT_EQ(*metadata.GetString("general.architecture"), "llama");
  EXPECT_THAT(*metadata.GetInts("types"), ElementsAre(1, -2, 2147483647));
  EXPECT_THAT(*metadata.GetFloats("scores"), ElementsAre(0.0f, -1.5f, 3.25f));
  EXPECT_THAT(*metadata.GetStrings("tokens"), ElementsAre("<s>", "", "月", "a\"b"));
  EXPECT_EQ(metadata.GetUint("i8").status().code(), Code::kCorrupt);
  EXPECT_EQ(metadata.GetUint("none").status().code(), Code::kNotFound);
}

TEST(GgufSourceTest, TypesWithoutKernelsAreNamed) {
  GgufBytes b;
  b.Begin(1, 0);
  b.Tensor("blk.0.ffn_up.weight", {64}, 40, 0);
  b.Data(36);
  const Status status = GgufSource::OpenMemory(b.data(), b.size(), "q.gguf").status();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_THAT(std::string(status.message()), HasSubstr("q.gguf: tensor \"blk.0.ffn_up.weight\""));
  EXPECT_THAT(std::string(status.message()), HasSubstr("NVFP4"));
}

class SplitSet : public testing::Test {
 protected:
  std::string Name(int part, int count = 3) const {
    char name[64];
    snprintf(name, sizeof(name), "m-%05d-of-%05d.gguf", part, count);
    return name;
  }
  std::string Path(int part) const { return folder_.path() + "/" + Name(part); }
  void WriteGood() const {
    folder_.Write(Name(1), SplitPart(0, 3, 3, "t0").bytes());
    folder_.Write(Name(2), SplitPart(1, 3, 3, "t1").bytes());
    folder_.Write(Name(3), SplitPart(2, 3, 3, "t2").bytes());
  }
  void ExpectError(int named, Code code, const std::vector<std::string>& parts) const {
    const Status status = GgufSource::Open(Path(named)).status();
    EXPECT_EQ(status.code(), code) << status.ToString();
    for (const std::string& part : parts) EXPECT_THAT(status.ToString(), HasSubstr(part));
  }
  TempFolder folder_;
};

TEST_F(SplitSet, OpensByAnyPart) {
  WriteGood();
  for (int named : {1, 2, 3}) {
    Result<std::unique_ptr<GgufSource>> opened = GgufSource::Open(Path(named));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    const GgufSource& source = **opened;
    EXPECT_EQ(source.files().size(), 3u);
    EXPECT_EQ(*source.metadata().GetUint("part"), 0u) << "metadata are the first file's";
    EXPECT_THAT(source.description(), HasSubstr("2 other parts"));
    for (const char* name : {"t0", "t1", "t2"}) {
      const TensorInfo* tensor = source.Find(name);
      ASSERT_NE(tensor, nullptr);
      char bytes[16];
      ASSERT_TRUE(source.Read(*tensor, 0, bytes, 16).ok());
      EXPECT_EQ(bytes[15], 15);
    }
  }
}

TEST_F(SplitSet, MissingPartsAreAllNamed) {
  WriteGood();
  std::filesystem::remove(Path(1));
  std::filesystem::remove(Path(3));
  ExpectError(2, Code::kNotFound, {"all 3 parts", "2 missing", Name(1), Name(3)});
}

TEST_F(SplitSet, MisnumberedAndForeignParts) {
  WriteGood();
  folder_.Write(Name(2), SplitPart(2, 3, 3, "t1").bytes());  // a renamed third part
  ExpectError(1, Code::kCorrupt, {Name(2), "expected split.no 1 of 3", "found 2 of 3"});
  folder_.Write(Name(2), SplitPart(1, 4, 3, "t1").bytes());
  ExpectError(1, Code::kCorrupt, {Name(2), "found 1 of 4"});
  folder_.Write(Name(2), SmallGguf().bytes());
  ExpectError(1, Code::kNotFound, {Name(2), "split.count"});
}

TEST_F(SplitSet, TensorsTwiceOrTooFew) {
  WriteGood();
  folder_.Write(Name(3), SplitPart(2, 3, 3, "t0").bytes());
  ExpectError(1, Code::kCorrupt, {"\"t0\"", Name(1), Name(3)});
  WriteGood();
  folder_.Write(Name(1), SplitPart(0, 3, 4, "t0").bytes());
  ExpectError(1, Code::kCorrupt, {"expected 4 tensors", "found 3"});
}

TEST_F(SplitSet, ACutPartIsNamed) {
  WriteGood();
  const std::string whole = SplitPart(2, 3, 3, "t2").bytes();
  folder_.Write(Name(3), whole.substr(0, whole.size() - 1));
  ExpectError(1, Code::kCorrupt, {Name(3), "download it again"});
}

TEST_F(SplitSet, NamesThatAreNotTheSet) {
  const std::string part = SplitPart(0, 3, 3, "t0").bytes();
  for (const char* name : {"m.gguf", "m-00000-of-00003.gguf", "m-00004-of-00003.gguf", "m-00001-of-00004.gguf",
                           "m-0001-of-00003.gguf", "m-0000a-of-00003.gguf"}) {
    const Status status = GgufSource::Open(folder_.Write(name, part)).status();
    EXPECT_EQ(status.code(), Code::kCorrupt) << name;
    EXPECT_THAT(status.ToString(), HasSubstr("original names")) << name;
  }
  // split.count 0 and 65535 (with the fitting name) end in an error, not in a loop or a crash.
  const Status none = GgufSource::Open(folder_.Write("x.gguf", SplitPart(0, 0, 1, "t").bytes())).status();
  EXPECT_EQ(none.code(), Code::kCorrupt);
  const Status many =
      GgufSource::Open(folder_.Write("m-00001-of-65535.gguf", SplitPart(0, 65535, 1, "t").bytes())).status();
  EXPECT_EQ(many.code(), Code::kNotFound);
  EXPECT_THAT(many.ToString(), HasSubstr("65534 missing"));
  EXPECT_LT(many.message().size(), 1000u);
}

TEST(GgufSourceTest, ASetOfOneNeedsNoSpecialName) {
  TempFolder folder;
  EXPECT_TRUE(GgufSource::Open(folder.Write("only.gguf", SplitPart(0, 1, 1, "t").bytes())).ok());
}

// Rows of 6 floats; a source that checks what is asked of it.
class RowsTest : public testing::Test {
 protected:
  RowsTest() {
    bytes_.Begin(2, 0);
    bytes_.Tensor("m", {6, 50}, 0, 0);
    bytes_.Tensor("wide", {uint64_t{3} << 18, 3}, 0, 1216);  // 3 MiB a row
    bytes_.Data(1216 + (size_t{9} << 20));
    Result<std::unique_ptr<GgufSource>> source = GgufSource::OpenMemory(bytes_.data(), bytes_.size(), "rows");
    MOONLIT_CHECK(source.ok());
    source_ = std::move(source).value();
    data_ = bytes_.bytes().substr(bytes_.Offset("data"));
  }
  GgufBytes bytes_;
  std::string data_;
  std::unique_ptr<GgufSource> source_;
};

TEST_F(RowsTest, ReadsRows) {
  const TensorInfo& m = *source_->Find("m");
  EXPECT_EQ(TensorRowBytes(m), 24u);
  std::string rows(3 * 24, ' ');
  ASSERT_TRUE(ReadRows(*source_, m, 47, 50, rows.data(), rows.size()).ok());
  EXPECT_EQ(rows, data_.substr(47 * 24, 3 * 24));
  EXPECT_TRUE(ReadRows(*source_, m, 50, 50, rows.data(), 0).ok());
  EXPECT_EQ(ReadRows(*source_, m, 48, 51, rows.data(), rows.size()).code(), Code::kInvalidArgument);
  EXPECT_EQ(ReadRows(*source_, m, 3, 2, rows.data(), rows.size()).code(), Code::kInvalidArgument);
  EXPECT_EQ(ReadRows(*source_, m, 0, 4, rows.data(), rows.size()).code(), Code::kInvalidArgument);
}

TEST_F(RowsTest, PiecesAreAtMostFourMiBAndCoverEveryRowOnce) {
  const TensorInfo& wide = *source_->Find("wide");
  EXPECT_EQ(RowsPerPiece(wide), 1u);
  EXPECT_EQ(StagingBytes(wide), size_t{3} << 20);
  EXPECT_EQ(RowsPerPiece(*source_->Find("m")), 50u);

  const TensorInfo& m = *source_->Find("m");
  std::string staging(7 * 24, ' '), seen;
  size_t next = 2;
  const Status status = ForEachRowPiece(*source_, m, 2, 50, staging.data(), staging.size(), [&](const RowPiece& piece) {
    EXPECT_EQ(piece.first_row, next);
    EXPECT_LE(piece.rows, 7u);
    next += piece.rows;
    seen.append(reinterpret_cast<const char*>(piece.bytes), piece.rows * 24);
    return Status();
  });
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(next, 50u);
  EXPECT_EQ(seen, data_.substr(2 * 24, 48 * 24));
  EXPECT_EQ(ForEachRowPiece(*source_, m, 0, 50, staging.data(), 23, [](const RowPiece&) { return Status(); }).code(),
            Code::kInvalidArgument);
  int calls = 0;
  const Status stopped = ForEachRowPiece(*source_, m, 0, 50, staging.data(), staging.size(), [&](const RowPiece&) {
    ++calls;
    return Errorf(Code::kCancelled, "enough");
  });
  EXPECT_EQ(stopped.code(), Code::kCancelled);
  EXPECT_EQ(calls, 1);
}

// The files that other tests rest on, and those beside the source tree when they are there.
TEST(GgufSourceTest, EveryFixtureOpens) {
  namespace fs = std::filesystem;
  size_t opened = 0;
  for (const char* folder : {"/tests/data/golden", "/../shared/fixtures", "/../shared/poet"}) {
    const fs::path root = std::string(MOONLIT_SOURCE_DIR) + folder;
    if (!fs::exists(root)) continue;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root)) {
      if (entry.path().extension() != ".gguf") continue;
      Result<GgufFile> file = GgufFile::Open(entry.path().string());
      EXPECT_TRUE(file.ok()) << file.status().ToString();
      ++opened;
    }
  }
  EXPECT_GE(opened, 7u);
}

}  // namespace
}  // namespace moonlit
