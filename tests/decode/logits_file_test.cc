// SPDX-License-Identifier: Apache-2.0
// Files of log-probabilities: what goes in comes out within half a step, and what does not belong together is refused. And the
// divergence of distributions small enough to compute by hand.
#include "runtime/decode/logits_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "runtime/decode/divergence.h"
#include "runtime/decode/logsumexp.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

constexpr size_t kWindow = 6, kVocab = 7;  // two counted positions a window, an odd vocabulary
const std::vector<int32_t> kTokens = {1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5};

std::vector<std::vector<float>> MadeUpLogits() {
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0f, 4.0f);
  std::vector<std::vector<float>> rows(4, std::vector<float>(kVocab));
  for (auto& row : rows) {
    for (float& value : row) value = normal(random);
  }
  rows[1][3] = -100;                           // further below than the file tells apart
  rows[2] = std::vector<float>(kVocab, 0.5f);  // no range at all
  return rows;
}

std::string WriteFile(const TempFolder& folder, const std::vector<std::vector<float>>& rows) {
  const std::string path = folder.path() + "/logits";
  auto writer = LogitsWriter::Create(path, kTokens, kWindow, kVocab);
  EXPECT_TRUE(writer.ok());
  for (const auto& row : rows) EXPECT_TRUE(writer->Append(row).ok());
  EXPECT_TRUE(writer->Finish().ok());
  return path;
}

TEST(LogitsFile, GivesBackWhatWentInWithinHalfAStep) {
  const TempFolder folder;
  const auto rows = MadeUpLogits();
  auto reader = LogitsReader::Open(WriteFile(folder, rows), kTokens, kWindow, kVocab);
  ASSERT_TRUE(reader.ok()) << reader.status().ToString();
  for (const auto& row : rows) {
    const auto found = reader->Next();
    ASSERT_TRUE(found.ok());
    const double total = LogSumExp(row);
    const double largest = *std::max_element(row.begin(), row.end()) - total;
    for (size_t i = 0; i < kVocab; ++i) {
      // Half a step of 16 / 65535, and the rounding of floats around 20.
      const double expected = std::max(double{row[i]} - total, largest - 16);
      EXPECT_NEAR((*found)[i], expected, 16.0 / 65535 / 2 + 5e-6) << i;
    }
  }
  EXPECT_FALSE(reader->Next().ok());
}

TEST(LogitsFile, HasLlamaCppsLayout) {
  const TempFolder folder;
  const std::string bytes = ReadWholeFile(WriteFile(folder, MadeUpLogits()));
  EXPECT_EQ(bytes.substr(0, 8), "_logits_");
  uint32_t header[3];
  std::memcpy(header, bytes.data() + 8, sizeof header);
  EXPECT_EQ(header[0], kWindow);
  EXPECT_EQ(header[1], kVocab);
  EXPECT_EQ(header[2], 2u);
  EXPECT_EQ(bytes.size(), 20 + 12 * 4 + 4 * (2 * 4 + (kVocab + 1) * 2));
}

TEST(LogitsFile, RefusesWhatDoesNotBelong) {
  const TempFolder folder;
  const std::string path = WriteFile(folder, MadeUpLogits());
  std::vector<int32_t> other = kTokens;
  other[11] = 6;
  EXPECT_EQ(LogitsReader::Open(path, other, kWindow, kVocab).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(LogitsReader::Open(path, kTokens, 4, kVocab).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(LogitsReader::Open(path, kTokens, kWindow, 8).status().code(), Code::kInvalidArgument);
  const std::string bytes = ReadWholeFile(path);
  for (size_t size : {size_t{0}, size_t{7}, size_t{19}, size_t{60}, bytes.size() - 1}) {
    const std::string cut = folder.Write("cut", bytes.substr(0, size));
    EXPECT_EQ(LogitsReader::Open(cut, kTokens, kWindow, kVocab).status().code(), Code::kCorrupt) << size;
  }
  EXPECT_EQ(LogitsReader::Open(folder.Write("x", std::string(400, 'x')), kTokens, kWindow, kVocab).status().code(),
            Code::kCorrupt);
}

TEST(LogitsFile, AnUnfinishedFileNeverStandsThere) {
  const TempFolder folder;
  {
    auto writer = LogitsWriter::Create(folder.path() + "/logits", kTokens, kWindow, kVocab);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE(writer->Append(MadeUpLogits()[0]).ok());
    EXPECT_EQ(writer->Finish().code(), Code::kInvalidArgument);
  }
  EXPECT_EQ(folder.FileCount(), 0u);
}

TEST(Divergence, OfDistributionsByHand) {
  // Base (1/2, 1/4, 1/4) against (1/4, 1/2, 1/4): KL = ln 2 / 2 - ln 2 / 4 = ln 2 / 4.
  const std::vector<float> base = {std::log(0.5f), std::log(0.25f), std::log(0.25f)};
  const std::vector<float> other = {1 + std::log(0.25f), 1 + std::log(0.5f), 1 + std::log(0.25f)};
  const std::vector<float> same = {3 + std::log(0.5f), 3 + std::log(0.25f), 3 + std::log(0.25f)};
  Divergence divergence;
  divergence.Add(other, base, 0);
  divergence.Add(same, base, 1);
  const DivergenceResult result = divergence.Result();
  EXPECT_EQ(result.positions, 2u);
  EXPECT_NEAR(result.mean, std::log(2.0) / 8, 1e-6);
  EXPECT_NEAR(result.median, std::log(2.0) / 8, 1e-6);
  EXPECT_NEAR(result.maximum, std::log(2.0) / 4, 1e-6);
  EXPECT_NEAR(result.standard_error, std::log(2.0) / 8, 1e-6);
  EXPECT_EQ(result.same_top, 0.5);
  EXPECT_NEAR(result.base_perplexity, std::sqrt(8.0), 1e-5);
  EXPECT_NEAR(result.probability_rms, 0.25 / std::sqrt(2.0), 1e-6);
}

}  // namespace
}  // namespace moonlit
