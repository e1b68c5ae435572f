// SPDX-License-Identifier: Apache-2.0
// What a session's file says depends on its text alone: the same bytes, whatever way led there, and nothing of a text that was cut
// off, or of another one that had the page before.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "runtime/cache/session_file.h"
#include "tests/models/loaded_model.h"

namespace moonlit::test {
namespace {

std::vector<int32_t> Text(size_t count, size_t seed) {
  std::vector<int32_t> tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>((seed * 131 + i * 71) % 300));
  return tokens;
}

struct BytesCase {
  const char* fixture;
  CacheType cache;
  bool bounds;  // of keys, for the choice of pages
};

class SessionBytes : public testing::TestWithParam<BytesCase> {
 protected:
  SessionBytes()
      : model_(GetParam().fixture, {.page_tokens = kPage,
                                    .cache = GetParam().cache,
                                    .max_rows = 256,
                                    .share_prefixes = true,
                                    .gives_back = true,
                                    .sparse = {.pages = GetParam().bounds ? size_t{2} : 0,
                                               .most_pages = GetParam().bounds ? size_t{16} : 0,
                                               .most_tokens = GetParam().bounds ? size_t{1} : 0}}),
        facts_{"variant", "model", model_.vocab(), 100000} {}

  void Read(Sequence& sequence, std::span<const int32_t> tokens, size_t chunk = 256) {
    for (size_t i = 0; i < tokens.size(); i += chunk) {
      model_.Step(sequence, tokens.subspan(i, std::min(chunk, tokens.size() - i)), Outputs::kNone);
    }
  }

  std::string Bytes(const Sequence& sequence) const {
    std::string bytes;
    const Status written = WriteSession(sequence, facts_, [&](const void* data, size_t size) {
      bytes.append(static_cast<const char*>(data), size);
      return Status();
    });
    EXPECT_TRUE(written.ok()) << written.ToString();
    return bytes;
  }

  Sequence Restored(const std::string& bytes) {
    const ByteSource source = {"memory", bytes.size(), [&](uint64_t offset, void* out, size_t size) {
                                 std::memcpy(out, bytes.data() + offset, size);
                                 return Status();
                               }};
    auto reader = SessionReader::Open(source, facts_, {}, model_.pages());
    EXPECT_TRUE(reader.ok()) << reader.status().ToString();
    auto restored = Sequence::Make(&model_.pages(), reader->shape());
    EXPECT_TRUE(restored.ok()) << restored.status().ToString();
    EXPECT_TRUE(reader->ReadPages(*restored).ok());
    return std::move(*restored);
  }

  static constexpr size_t kPage = 2 * kAttentionTile;
  LoadedModel model_;
  SessionFacts facts_;
};

// The page that is not full holds one token, some of a lane of values, all but one of a lane; or there is none.
TEST_P(SessionBytes, AreThoseOfTheTextWhateverLedToIt) {
  for (const size_t length : {2 * kPage + 1, kPage + 21, 2 * kPage - 1, 2 * kPage}) {
    const std::vector<int32_t> text = Text(length, 1), other = Text(4 * kPage, 2);
    Sequence at_once(&model_.pages());
    Read(at_once, text);
    const std::string expected = Bytes(at_once);
    at_once.Truncate(0);

    {
      Sequence ended(&model_.pages());
      Read(ended, other);
    }
    Sequence by_and_by(&model_.pages());
    Read(by_and_by, text, 7);
    EXPECT_TRUE(Bytes(by_and_by) == expected) << length << " in pieces, where another text was";

    for (const size_t more : {size_t{1}, kPage / 2, 3 * kPage}) {
      Sequence cut = by_and_by.Fork();
      Read(cut, std::span(other).first(more));
      ASSERT_TRUE(cut.CanTruncate(static_cast<int64_t>(length)));
      cut.Truncate(static_cast<int64_t>(length));
      EXPECT_TRUE(Bytes(cut) == expected) << length << " after " << more << " more";
    }
    EXPECT_TRUE(Bytes(by_and_by) == expected) << length << " of which others went on";

    const size_t half = length - kPage / 2 + 3;
    Sequence fork = by_and_by.Fork();
    ASSERT_TRUE(fork.CanTruncate(static_cast<int64_t>(half)));
    fork.Truncate(static_cast<int64_t>(half));
    Read(fork, std::span(other).first(9));
    fork.Truncate(static_cast<int64_t>(half));
    Sequence restored = Restored(Bytes(fork));
    Read(fork, std::span(text).subspan(half));
    EXPECT_TRUE(Bytes(fork) == expected) << length << " that went another way before";
    Read(restored, std::span(text).subspan(half), 5);
    EXPECT_TRUE(Bytes(restored) == expected) << length << " of which " << half << " were restored";
    EXPECT_TRUE(Bytes(Restored(expected)) == expected) << length;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Caches, SessionBytes,
    testing::Values(BytesCase{"gemma3", CacheType::kF32, false}, BytesCase{"gemma3", CacheType::kF32, true},
                    BytesCase{"gemma3", CacheType::kF16, false}, BytesCase{"gemma3", CacheType::kF16, true},
                    BytesCase{"gemma3", CacheType::kBF16, false}, BytesCase{"gemma3", CacheType::kBF16, true},
                    BytesCase{"gemma3", CacheType::kQ8_0, false}, BytesCase{"gemma3", CacheType::kQ8_0, true},
                    BytesCase{"gemma3", CacheType::kQ4_0, false}, BytesCase{"gemma3", CacheType::kQ4_0, true},
                    BytesCase{"llama", CacheType::kF16, false}),
    [](const auto& info) {
      return std::string(info.param.fixture) + "_" + CacheTypeName(info.param.cache) +
             (info.param.bounds ? "_bounds" : "");
    });

}  // namespace
}  // namespace moonlit::test
