// SPDX-License-Identifier: Apache-2.0
// Packed weights in a file: what comes back is what was written, or an error; and a plan made from the file has the same bits.
#include "runtime/exec/packed_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/base/log.h"
#include "tests/models/loaded_model.h"
#include "tests/support/temp_folder.h"

namespace moonlit::test {
namespace {

using testing::HasSubstr;

std::vector<uint8_t> Bytes(size_t count, uint32_t seed) {
  std::vector<uint8_t> bytes(count);
  for (uint8_t& b : bytes) b = static_cast<uint8_t>((seed = seed * 1664525u + 1013904223u) >> 24);
  return bytes;
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

class PackedCacheTest : public testing::Test {
 protected:
  PackedCacheTest() : pool_(ThreadPool::Create({.threads = 2}).value()), cache_(folder_.path(), {11, 22}) {
    EXPECT_TRUE(cache_.Write(bytes_.data(), bytes_.size(), *pool_).ok());
  }
  Status Read(const PackedCache& cache, size_t size = kSize) {
    read_.assign(size, 0);
    return cache.Read(read_.data(), size, *pool_, {});
  }
  static constexpr size_t kSize = (size_t{2} << 20) + 777;  // three chunks, the last one short
  TempFolder folder_;
  std::unique_ptr<ThreadPool> pool_;
  std::vector<uint8_t> bytes_ = Bytes(kSize, 3), read_;
  PackedCache cache_;
};

TEST_F(PackedCacheTest, GivesBackWhatWasWritten) {
  ASSERT_TRUE(Read(cache_).ok());
  EXPECT_EQ(read_, bytes_);
  EXPECT_TRUE(std::filesystem::exists(cache_.path()));
  EXPECT_EQ(folder_.FileCount(), 1u) << "no temporary file is left";
}

TEST_F(PackedCacheTest, AnotherKeyIsAnotherFileAndARenamedFileIsRefused) {
  for (const PackedCacheKey& key : {PackedCacheKey{12, 22}, PackedCacheKey{11, 23}}) {
    const PackedCache other(folder_.path(), key);
    EXPECT_EQ(Read(other).code(), Code::kNotFound);
    std::filesystem::copy_file(cache_.path(), other.path());
    EXPECT_EQ(Read(other).code(), Code::kCorrupt);
  }
  EXPECT_EQ(Read(cache_, kSize + 1).code(), Code::kCorrupt);
  EXPECT_EQ(Read(cache_, kSize - 1).code(), Code::kCorrupt);
}

TEST_F(PackedCacheTest, FilesCutShortOrGrownAreRefused) {
  const std::string whole = ReadWholeFile(cache_.path());
  for (size_t size : {size_t{0}, size_t{1}, size_t{63}, size_t{64}, size_t{80}, size_t{4095}, size_t{4096},
                      whole.size() / 2, whole.size() - 1}) {
    WriteFile(cache_.path(), whole.substr(0, size));
    EXPECT_EQ(Read(cache_).code(), Code::kCorrupt) << size;
  }
  WriteFile(cache_.path(), whole + "x");
  EXPECT_EQ(Read(cache_).code(), Code::kCorrupt);
}

TEST_F(PackedCacheTest, EveryFlippedBitBeforeTheWeightsAndAnyInThemIsFound) {
  const std::string whole = ReadWholeFile(cache_.path());
  std::vector<size_t> places;
  for (size_t byte = 0; byte < 64 + 3 * 8; ++byte) places.push_back(byte);
  for (size_t byte = 4096; byte < whole.size(); byte += 99991) places.push_back(byte);
  places.push_back(whole.size() - 1);
  for (size_t byte : places) {
    for (int bit : {0, 7}) {
      std::string damaged = whole;
      damaged[byte] = static_cast<char>(damaged[byte] ^ (1 << bit));
      WriteFile(cache_.path(), damaged);
      ASSERT_EQ(Read(cache_).code(), Code::kCorrupt) << "byte " << byte;
    }
  }
}

TEST_F(PackedCacheTest, ReadingReportsProgressAndCanBeCancelled) {
  uint64_t last = 0;
  const auto count = [&](uint64_t done, uint64_t total) {
    EXPECT_EQ(total, kSize);
    EXPECT_GT(done, last);
    last = done;
    return true;
  };
  auto alone = ThreadPool::Create({.threads = 1}).value();
  read_.resize(kSize);
  ASSERT_TRUE(cache_.Read(read_.data(), kSize, *alone, count).ok());
  EXPECT_EQ(last, kSize);
  EXPECT_EQ(cache_.Read(read_.data(), kSize, *alone, [](uint64_t, uint64_t) { return false; }).code(),
            Code::kCancelled);
}

TEST_F(PackedCacheTest, AFolderThatIsNotThereIsAnError) {
  EXPECT_EQ(PackedCache(folder_.path() + "/none", {1, 2}).Write(bytes_.data(), 10, *pool_).code(), Code::kNotFound);
}

// ---- plans

std::vector<std::string> Warnings(const std::function<void()>& body) {
  std::vector<std::string> lines;
  Log log([&](LogLevel level, const char* text) {
    if (level == LogLevel::kWarning) lines.push_back(text);
  });
  const LogScope scope(&log);
  body();
  return lines;
}

class CachedPlanTest : public testing::TestWithParam<const char*> {
 protected:
  CachedPlanTest() {
    for (int32_t i = 0; i < 20; ++i) tokens_.push_back(i * 13 % 320);
  }
  std::vector<float> Logits() {
    LoadedModel model(GetParam(), {.packed_cache = folder_.path()});
    return model.Logits(tokens_, 7);
  }
  std::string OnlyFile() {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      EXPECT_EQ(found, "");
      found = entry.path().string();
    }
    return found;
  }
  TempFolder folder_;
  std::vector<int32_t> tokens_;
};

TEST_P(CachedPlanTest, ASecondLoadReadsTheFileAndHasTheSameBits) {
  const std::vector<float> expected = LoadedModel(GetParam(), {}).Logits(tokens_, 7);
  EXPECT_EQ(Logits(), expected);
  const std::string path = OnlyFile();
  const auto written = std::filesystem::last_write_time(path);
  EXPECT_EQ(Logits(), expected);
  EXPECT_EQ(OnlyFile(), path);
  EXPECT_EQ(std::filesystem::last_write_time(path), written) << "it was read, not written again";
}

TEST_P(CachedPlanTest, DamagedFilesAreReportedAndReplaced) {
  const std::vector<float> expected = Logits();
  const std::string path = OnlyFile(), whole = ReadWholeFile(path);
  for (size_t byte : {size_t{9}, size_t{70}, size_t{5000}, whole.size() - 1}) {
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 16);
    WriteFile(path, damaged);
    std::vector<float> logits;
    const std::vector<std::string> warnings = Warnings([&] { logits = Logits(); });
    EXPECT_EQ(logits, expected);
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0], HasSubstr(path));
    EXPECT_EQ(ReadWholeFile(path), whole);
  }
}

TEST_P(CachedPlanTest, AFolderThatCannotBeWrittenToCostsAWarning) {
  std::vector<float> logits;
  const std::string none = folder_.path() + "/none/none";
  const std::vector<std::string> warnings = Warnings([&] {
    LoadedModel model(GetParam(), {.packed_cache = none});
    logits = model.Logits(tokens_, 7);
  });
  EXPECT_EQ(logits, LoadedModel(GetParam(), {}).Logits(tokens_, 7));
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr(none));
}

TEST_P(CachedPlanTest, AnotherVariantHasAFileOfItsOwn) {
  Logits();
  size_t count = 0;
  const Variant* built = BuiltVariants(&count);
  if (count < 2) GTEST_SKIP() << "one variant is built";
  const Variant other = built[count - 1];
  LoadedModel model(GetParam(), {.packed_cache = folder_.path(), .variant = VariantName(other)});
  EXPECT_EQ(folder_.FileCount(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, CachedPlanTest, testing::Values("llama", "llama-kquant", "qwen2"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(FingerprintTest, ChangesWithTheFileAndIsNotThereForMemory) {
  TempFolder folder;
  const std::string path = folder.path() + "/model.gguf";
  std::filesystem::copy_file(FixturePath("llama", "model.gguf"), path);
  const auto fingerprint = [&] { return GgufSource::Open(path).value()->Fingerprint().value(); };
  const uint64_t first = fingerprint();
  EXPECT_EQ(fingerprint(), first);
  const auto time = std::filesystem::last_write_time(path);
  // The same size, inode and time, other weights.
  {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(-1, std::ios::end);
    file.put(static_cast<char>(file.peek() ^ 1));
  }
  std::filesystem::last_write_time(path, time);
  EXPECT_NE(fingerprint(), first);
  const std::string bytes = ReadWholeFile(path);
  const auto memory = GgufSource::OpenMemory(bytes.data(), bytes.size(), "memory");
  EXPECT_EQ((*memory)->Fingerprint().status().code(), Code::kUnsupported);
  // A copy is another file.
  const uint64_t second = fingerprint();
  std::filesystem::rename(path, path + ".old");
  std::filesystem::copy_file(path + ".old", path);
  EXPECT_NE(fingerprint(), second);
}

}  // namespace
}  // namespace moonlit::test
