// SPDX-License-Identifier: Apache-2.0
// The fuzzer's corpus as an ordinary test, and a fixed set of mutations for machines that never run the fuzzer.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "tests/fuzz/read_everything.h"
#include "tests/support/gguf_bytes.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

// A heap block of exactly this size, so that sanitizers see a read beyond it.
bool Replay(const std::string& bytes) {
  const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
  return ReadEverything(exact.data(), exact.size());
}

TEST(FuzzReplay, Corpus) {
  size_t replayed = 0, opened = 0;
  for (const auto& entry : std::filesystem::directory_iterator(MOONLIT_SOURCE_DIR "/tests/data/fuzz/gguf")) {
    opened += Replay(ReadWholeFile(entry.path().string())) ? 1 : 0;
    ++replayed;
  }
  EXPECT_GE(replayed, 10u);
  EXPECT_GE(opened, 2u);
}

TEST(FuzzReplay, EveryByteOfASmallFileAtTellingValues) {
  const std::string good = SmallGguf().bytes();
  ASSERT_TRUE(Replay(good));
  size_t refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (int value : {0, 1, 2, 9, 0x20, 0x7f, 0x80, 0xff}) {
      std::string bytes = good;
      bytes[i] = static_cast<char>(value);
      refused += Replay(bytes) ? 0 : 1;
    }
  }
  EXPECT_GE(refused, 1000u);
}

TEST(FuzzReplay, RandomEditsWithAFixedSeed) {
  const std::string good = SmallGguf().bytes();
  std::mt19937_64 random(20240229);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = good;
    for (uint64_t edits = 1 + random() % 4; edits != 0 && !bytes.empty(); --edits) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0:
          bytes[at] = static_cast<char>(random());
          break;
        case 1:
          bytes.erase(at, 1 + random() % 16);
          break;
        case 2:
          bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 64));
          break;
        default:
          bytes.resize(at + 1);
          break;
      }
    }
    Replay(bytes);
  }
  // Nothing to compare: ReadEverything aborts on a broken promise, and a sanitizer on a bad access. The seed file still opens.
  EXPECT_TRUE(Replay(good));
}

}  // namespace
}  // namespace moonlit
