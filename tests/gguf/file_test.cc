// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using testing::HasSubstr;

TEST(FileTest, ReadsByPosition) {
  TempFolder folder;
  Result<File> file = File::Open(folder.Write("f", "0123456789"));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->size(), 10u);
  std::string bytes(4, ' ');
  ASSERT_TRUE(file->ReadAt(3, bytes.data(), 4).ok());
  EXPECT_EQ(bytes, "3456");
  EXPECT_TRUE(file->ReadAt(10, bytes.data(), 0).ok());
}

TEST(FileTest, ShortReadNamesWhatIsMissing) {
  TempFolder folder;
  const std::string path = folder.Write("f", "0123456789");
  Result<File> file = File::Open(path);
  ASSERT_TRUE(file.ok());
  char bytes[8];
  const Status status = file->ReadAt(7, bytes, 8);
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path + ": expected 8 bytes at offset 7, found 3"));
  EXPECT_EQ(file->ReadAt(UINT64_MAX, bytes, 8).code(), Code::kInvalidArgument);
  EXPECT_EQ(file->ReadAt(uint64_t{1} << 62, bytes, 8).code(), Code::kCorrupt);
}

TEST(FileTest, PipesAndFoldersAreRefusedWithoutWaiting) {
  TempFolder folder;
  const std::string pipe = folder.path() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(File::Open(pipe).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(File::Open(folder.path()).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(File::Open(folder.path() + "/none").status().code(), Code::kNotFound);
}

TEST(FileTest, IdentityTellsStatesApart) {
  TempFolder folder;
  const FileIdentity first = File::Open(folder.Write("f", "abc"))->identity();
  EXPECT_EQ(first, File::Open(folder.path() + "/f")->identity());
  EXPECT_EQ(first.size, 3u);
  EXPECT_NE(first, File::Open(folder.Write("f", "abcd"))->identity());
  EXPECT_NE(first.inode, File::Open(folder.Write("g", "abc"))->identity().inode);
}

TEST(FileTest, AnOutputIsNoInputByWhateverName) {
  TempFolder folder;
  const std::string input = folder.Write("in", "x"), other = folder.Write("other", "x");
  const std::string soft = folder.path() + "/soft", hard = folder.path() + "/hard", dotted = folder.path() + "/./in";
  ASSERT_EQ(symlink(input.c_str(), soft.c_str()), 0);
  ASSERT_EQ(link(input.c_str(), hard.c_str()), 0);
  const std::vector<std::string> inputs = {folder.path() + "/none", input}, linked = {soft};
  for (const std::string& out : {input, soft, hard, dotted}) {
    const Status status = RefuseInputs(out, inputs);
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << out;
    EXPECT_NE(status.message().find(out), std::string_view::npos);
    EXPECT_EQ(RefuseInputs(out, linked).code(), Code::kInvalidArgument) << out;
  }
  EXPECT_TRUE(RefuseInputs(other, inputs).ok());
  EXPECT_TRUE(RefuseInputs(folder.path() + "/none", inputs).ok()) << "what is not there is neither";
}

TEST(AtomicFileTest, AppearsOnlyWhenCommitted) {
  TempFolder folder;
  const std::string path = folder.Write("out", "old");
  Result<AtomicFile> file = AtomicFile::Create(path);
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->Append("new ", 4).ok());
  AtomicFile moved = std::move(file).value();
  ASSERT_TRUE(moved.Append("text", 4).ok());
  EXPECT_EQ(moved.size(), 8u);
  EXPECT_EQ(ReadWholeFile(path), "old");
  ASSERT_TRUE(moved.Commit().ok());
  EXPECT_EQ(ReadWholeFile(path), "new text");
  EXPECT_EQ(folder.FileCount(), 1u);
  EXPECT_EQ(moved.Commit().code(), Code::kInvalidArgument);
  EXPECT_EQ(moved.Append("x", 1).code(), Code::kInvalidArgument);
}

TEST(AtomicFileTest, DroppedWithoutCommitLeavesTheOldFile) {
  TempFolder folder;
  const std::string path = folder.Write("out", "old");
  {
    Result<AtomicFile> one = AtomicFile::Create(path);
    Result<AtomicFile> two = AtomicFile::Create(path);  // two writers do not meet
    ASSERT_TRUE(one.ok() && two.ok());
    ASSERT_TRUE(one->Append("new", 3).ok());
    EXPECT_EQ(folder.FileCount(), 3u);
  }
  EXPECT_EQ(ReadWholeFile(path), "old");
  EXPECT_EQ(folder.FileCount(), 1u);
  EXPECT_EQ(AtomicFile::Create(folder.path() + "/none/out").status().code(), Code::kNotFound);
}

TEST(AtomicFileTest, UnfinishedFilesCanBeRemovedBeforeASignalEndsTheProcess) {
  TempFolder folder;
  const std::string done = folder.path() + "/done", lost = folder.path() + "/lost";
  Result<AtomicFile> first = AtomicFile::Create(done), second = AtomicFile::Create(lost);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(first->Append("x", 1).ok() && first->Commit().ok());
  AtomicFile moved = std::move(second).value();
  EXPECT_EQ(folder.FileCount(), 2u);
  RemoveUnfinishedFiles();
  EXPECT_EQ(folder.FileCount(), 1u);
  EXPECT_EQ(ReadWholeFile(done), "x");
  EXPECT_FALSE(moved.Commit().ok());
  // More than there are slots for, and what became of the slots of finished ones.
  for (int round = 0; round < 3; ++round) {
    std::vector<AtomicFile> many;
    for (int i = 0; i < 20; ++i) many.push_back(AtomicFile::Create(folder.path() + "/many").value());
    RemoveUnfinishedFiles();
    EXPECT_EQ(folder.FileCount(), 1u + 4u) << round;
  }
}

// A renamed file would take the place of a device or a pipe, whoever reads there.
TEST(AtomicFileTest, TakesTheNameOfNothingButFiles) {
  TempFolder folder;
  const std::string pipe = folder.path() + "/pipe", link = folder.path() + "/link";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  ASSERT_EQ(symlink("/dev/null", link.c_str()), 0);
  for (const std::string& path : {pipe, link, folder.path(), folder.path() + "/none/", std::string()}) {
    EXPECT_EQ(AtomicFile::Create(path).status().code(), Code::kInvalidArgument) << path;
  }
  struct stat info;
  ASSERT_EQ(stat(pipe.c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
  EXPECT_EQ(folder.FileCount(), 2u);
}

TEST(AtomicFileTest, AFailedRenameIsAStatusAndLeavesNothing) {
  TempFolder folder;
  Result<AtomicFile> file = AtomicFile::Create(folder.path() + "/out");
  ASSERT_TRUE(file.ok());
  ASSERT_EQ(mkdir((folder.path() + "/out").c_str(), 0700), 0);
  ASSERT_TRUE(file->Append("x", 1).ok());
  EXPECT_EQ(file->Commit().code(), Code::kIo);
  EXPECT_EQ(folder.FileCount(), 1u);
}

}  // namespace
}  // namespace moonlit
