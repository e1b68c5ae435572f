// SPDX-License-Identifier: Apache-2.0
// The fuzzer's corpus as an ordinary test, and a fixed set of mutations for machines that never run the fuzzer.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/read_safetensors.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

const std::string kCorpus = MOONLIT_SOURCE_DIR "/tests/data/fuzz/safetensors";

// A heap block of exactly this size, so that sanitizers see a read beyond it.
bool Replay(const std::string& bytes) {
  const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
  return ReadSafetensors(exact.data(), exact.size());
}

TEST(SafetensorsReplay, Corpus) {
  size_t replayed = 0, opened = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kCorpus)) {
    opened += Replay(ReadWholeFile(entry.path().string())) ? 1 : 0;
    ++replayed;
  }
  EXPECT_GE(replayed, 10u);
  EXPECT_EQ(opened, 3u);
}

TEST(SafetensorsReplay, EveryByteAtTellingValues) {
  const std::string good = ReadWholeFile(kCorpus + "/good.safetensors");
  ASSERT_TRUE(Replay(good));
  size_t refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (const int value : {0x00, 0x01, 0x22, 0x30, 0x39, 0x5b, 0x7b, 0x7d, 0x7f, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(value);
      refused += Replay(bytes) ? 0 : 1;
    }
  }
  EXPECT_GE(refused, 1000u);
}

TEST(SafetensorsReplay, RandomEditsWithAFixedSeed) {
  const std::string good = ReadWholeFile(kCorpus + "/good.safetensors");
  std::mt19937_64 random(20260131);
  size_t opened = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (uint64_t edits = 1 + random() % 3; edits != 0; --edits) {
      const size_t at = random() % bytes.size();
      const size_t kind = random() % 3;
      if (kind == 0) bytes[at] = static_cast<char>(random());
      if (kind == 1) bytes.erase(at, random() % std::min<size_t>(8, bytes.size() - 8));
      if (kind == 2) bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 16));
    }
    // Half of the time the length fits again, so that the edit meets the parser.
    const uint64_t length = bytes.rfind('}') == std::string::npos ? 0 : bytes.rfind('}') + 1 - 8;
    if (random() % 2 == 0 && bytes.size() > 8) std::memcpy(bytes.data(), &length, sizeof length);
    opened += Replay(bytes) ? 1 : 0;
  }
  EXPECT_GE(opened, 1u);
  EXPECT_LE(opened, 10000u);
}

}  // namespace
}  // namespace moonlit
