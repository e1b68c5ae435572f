// SPDX-License-Identifier: Apache-2.0
// Importance matrices of both formats, built here byte by byte, and what may not get past the reader.
#include "runtime/convert/imatrix.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/gguf_bytes.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

template <typename T>
void Put(std::string* bytes, T value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

void PutEntry(std::string* bytes, const std::string& name, int32_t calls, const std::vector<float>& values) {
  Put(bytes, static_cast<int32_t>(name.size()));
  *bytes += name;
  Put(bytes, calls);
  Put(bytes, static_cast<int32_t>(values.size()));
  for (float value : values) Put(bytes, value);
}

std::string OldFile() {
  std::string bytes;
  Put(&bytes, int32_t{2});
  PutEntry(&bytes, "blk.0.attn_q.weight", 4, {4, 8, 0, 2});
  PutEntry(&bytes, "blk.0.ffn_down.weight", 0, {1, 3});
  return bytes;
}

GgufBytes GgufFileBytes(const std::vector<float>& sums, const std::vector<float>& counts) {
  GgufBytes b;
  b.Begin(2, 2);
  b.Key("imatrix.chunk_count", 4);
  b.Put(uint32_t{7});
  b.Key("imatrix.datasets", 9);
  b.ArrayOf(8, 1);
  b.PutString("text.txt");
  b.Tensor("blk.1.ffn_up_exps.weight.in_sum2", {sums.size() / 2, 2}, 0, 0);
  b.Tensor("blk.1.ffn_up_exps.weight.counts", {1, counts.size()}, 0, 32);
  b.Data(0);
  std::string& bytes = b.bytes();
  for (float value : sums) Put(&bytes, value);
  bytes.append(32 - sums.size() * sizeof(float), '\0');
  for (float value : counts) Put(&bytes, value);
  bytes.append(32 - counts.size() * sizeof(float), '\0');
  return b;
}

Result<ImportanceMatrix> Read(const std::string& bytes) {
  const TempFolder folder;
  return ReadImportanceMatrix(folder.Write("imatrix", bytes));
}

TEST(Imatrix, ReadsTheOldFormat) {
  const auto matrix = Read(OldFile());
  ASSERT_TRUE(matrix.ok()) << matrix.status().ToString();
  EXPECT_EQ(matrix->rows.size(), 2u);
  EXPECT_EQ(matrix->rows.at("blk.0.attn_q.weight"), (std::vector<float>{1, 2, 0, 0.5f}));
  EXPECT_EQ(matrix->rows.at("blk.0.ffn_down.weight"), (std::vector<float>{1, 3}));
  EXPECT_EQ(matrix->chunks, 0u);
}

TEST(Imatrix, ReadsTheOldFormatWithItsLaterEnd) {
  std::string bytes = OldFile();
  Put(&bytes, int32_t{12});
  Put(&bytes, int32_t{4});
  bytes += "wiki";
  const auto matrix = Read(bytes);
  ASSERT_TRUE(matrix.ok()) << matrix.status().ToString();
  EXPECT_EQ(matrix->chunks, 12u);
  EXPECT_EQ(matrix->dataset, "wiki");
}

TEST(Imatrix, ReadsGgufAndGivesUnusedExpertsEqualColumns) {
  const auto matrix = Read(GgufFileBytes({2, 4, 6, 9, 9, 9}, {2, 0}).bytes());
  ASSERT_TRUE(matrix.ok()) << matrix.status().ToString();
  EXPECT_EQ(matrix->rows.at("blk.1.ffn_up_exps.weight"), (std::vector<float>{1, 2, 3, 1, 1, 1}));
  EXPECT_EQ(matrix->chunks, 7u);
  EXPECT_EQ(matrix->dataset, "text.txt");
}

TEST(Imatrix, RefusesEveryCutOfAnOldFile) {
  const std::string good = OldFile();
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_EQ(Read(good.substr(0, size)).status().code(), Code::kCorrupt) << size;
  }
}

TEST(Imatrix, RefusesCountsThatTheFileCannotHold) {
  for (const size_t offset : {size_t{0}, size_t{4}, size_t{4 + 4 + 19 + 4}}) {
    for (const int32_t value : {-1, INT32_MIN, INT32_MAX, 0x40000000}) {
      std::string bytes = OldFile();
      std::memcpy(bytes.data() + offset, &value, sizeof value);
      EXPECT_EQ(Read(bytes).status().code(), Code::kCorrupt) << offset << " " << value;
    }
  }
}

TEST(Imatrix, RefusesWhatIsNoWeight) {
  for (const float value : {-1.0f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    std::string bytes;
    Put(&bytes, int32_t{1});
    PutEntry(&bytes, "a", 1, {1, value});
    EXPECT_EQ(Read(bytes).status().code(), Code::kCorrupt) << value;
    EXPECT_EQ(Read(GgufFileBytes({1, value, 1, 1, 1, 1}, {1, 1}).bytes()).status().code(), Code::kCorrupt) << value;
  }
}

TEST(Imatrix, RefusesTwiceTheSameAndMissingCounts) {
  std::string twice;
  Put(&twice, int32_t{2});
  PutEntry(&twice, "a", 1, {1});
  PutEntry(&twice, "a", 1, {1});
  EXPECT_EQ(Read(twice).status().code(), Code::kCorrupt);
  std::string lone = GgufFileBytes({1, 1, 1, 1, 1, 1}, {1, 1}).bytes();
  lone.replace(lone.find("counts"), 6, "number");
  EXPECT_EQ(Read(lone).status().code(), Code::kCorrupt);
  // No tensor of sums at all.
  EXPECT_EQ(Read(SmallGguf().bytes()).status().code(), Code::kCorrupt);
  EXPECT_EQ(ReadImportanceMatrix("/nonexistent/imatrix").status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace moonlit
