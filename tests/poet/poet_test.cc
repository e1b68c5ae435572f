// SPDX-License-Identifier: Apache-2.0
#include "models/poet/poet.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "runtime/base/file.h"
#include "runtime/weights/gguf_source.h"

namespace moonlit {
namespace {

TEST(Poet, IsFoundAndIsTheModelOfTheCard) {
  unsetenv("MOONLIT_DATA_DIR");
  Result<std::string> path = FindPoet();
  ASSERT_TRUE(path.ok()) << path.status().ToString();
  Result<std::unique_ptr<GgufSource>> source = GgufSource::Open(*path);
  ASSERT_TRUE(source.ok()) << source.status().ToString();
  const GgufSource& poet = **source;
  EXPECT_EQ(poet.files()[0].file_bytes(), 4315072u);
  EXPECT_EQ(*poet.metadata().GetUint("llama.block_count"), 6u);
  EXPECT_EQ(poet.metadata().GetStrings("tokenizer.ggml.tokens")->size(), 7168u);
  EXPECT_EQ(poet.Find("token_embd.weight")->shape, (Shape{7168, 256}));
  EXPECT_EQ(poet.Find("token_embd.weight")->format, Format::kQ6_K);
}

TEST(Poet, DataFolderOfTheEnvironmentComesFirst) {
  const std::string folder = testing::TempDir() + "moonlit_poet_" + std::to_string(getpid());
  ASSERT_EQ(mkdir(folder.c_str(), 0700), 0);
  const std::string copy = folder + "/poet-Q4_0.gguf";
  setenv("MOONLIT_DATA_DIR", folder.c_str(), 1);
  // The folder lacks the file: the next place is taken.
  Result<std::string> fallback = FindPoet();
  ASSERT_TRUE(fallback.ok()) << fallback.status().ToString();
  EXPECT_NE(*fallback, copy);
  {
    Result<AtomicFile> file = AtomicFile::Create(copy);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE(file->Append("x", 1).ok());
    ASSERT_TRUE(file->Commit().ok());
  }
  Result<std::string> found = FindPoet();
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, copy);
  unsetenv("MOONLIT_DATA_DIR");
  unlink(copy.c_str());
  rmdir(folder.c_str());
}

}  // namespace
}  // namespace moonlit
