// SPDX-License-Identifier: Apache-2.0
// Sessions that go to and come from a place of the application's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "runtime/api/moonlit.hpp"
#include "tests/support/temp_folder.h"

namespace moonlit::api {
namespace {

using ::testing::HasSubstr;

// Gives bytes until there are no more.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : left_(bytes) {}
  bool operator()(std::span<uint8_t> piece) {
    EXPECT_GT(piece.size(), 0u);
    if (piece.size() > left_.size()) return false;
    std::copy_n(left_.begin(), piece.size(), piece.begin());
    left_ = left_.subspan(piece.size());
    return true;
  }
  size_t left() const { return left_.size(); }

 private:
  std::span<const uint8_t> left_;
};

class SessionStream : public testing::Test {
 protected:
  void SetUp() override {
    moonlit_model_options options = Model::Options();
    options.n_ctx = 128;
    options.max_sessions = 3;
    auto model = Model::Load("poet", options);
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(std::move(*model));
    session_.emplace(New());
    for (int32_t i = 0; i < 100; ++i) ids_.push_back(20 + i * 7 % 300);
    ASSERT_EQ(session_->Eval(ids_, MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
  }

  Session New() {
    auto session = model_->NewSession();
    EXPECT_TRUE(session) << session.error().message;
    return std::move(*session);
  }
  static std::vector<uint8_t> BytesOf(Session& session) {
    std::vector<uint8_t> bytes;
    const Error error = session.Write([&](std::span<const uint8_t> piece) {
      EXPECT_GT(piece.size(), 0u);
      bytes.insert(bytes.end(), piece.begin(), piece.end());
      return true;
    });
    EXPECT_EQ(error.code, MOONLIT_OK) << error.message;
    return bytes;
  }
  static std::vector<float> LogitsAfter(Session& session, int32_t id) {
    std::vector<float> logits;
    EXPECT_EQ(session
                  .Eval({&id, 1}, MOONLIT_OUTPUT_LAST,
                        [&](size_t, std::span<const float> row) { logits.assign(row.begin(), row.end()); })
                  .code,
              MOONLIT_OK);
    return logits;
  }
  // A session that is as before, and pages that are all given back: another one can be as long as it may.
  void ExpectUntouched(Session& session, const std::vector<int32_t>& tokens) {
    EXPECT_EQ(session.Tokens(), tokens);
    Session other = New();
    EXPECT_EQ(other.Eval(std::vector<int32_t>(128, 21), MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
  }

  std::optional<Model> model_;
  std::optional<Session> session_;
  std::vector<int32_t> ids_;
};

TEST_F(SessionStream, TheBytesAreTheFiles) {
  const TempFolder folder;
  const std::string path = folder.path() + "/session";
  for (const size_t length : {size_t{100}, size_t{64}, size_t{1}, size_t{0}}) {
    ASSERT_EQ(session_->Truncate(length).code, MOONLIT_OK);
    ASSERT_EQ(session_->Save(path).code, MOONLIT_OK);
    const std::vector<uint8_t> bytes = BytesOf(*session_);
    EXPECT_EQ(std::string(bytes.begin(), bytes.end()), ReadWholeFile(path)) << length;
    const auto said = session_->SavedBytes();
    ASSERT_TRUE(said) << said.error().message;
    EXPECT_EQ(*session_->SavedBytes(), bytes.size()) << length;
  }
}

TEST_F(SessionStream, ComesBackWithEveryBit) {
  const std::vector<uint8_t> bytes = BytesOf(*session_);
  Session other = New();
  Reader reader(bytes);
  const Error error = other.Read(std::ref(reader));
  ASSERT_EQ(error.code, MOONLIT_OK) << error.message;
  EXPECT_EQ(reader.left(), 0u);
  EXPECT_EQ(other.Tokens(), ids_);
  const std::vector<float> expected = LogitsAfter(*session_, 5);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(LogitsAfter(other, 5), expected);
}

TEST_F(SessionStream, SeveralStandInOneStream) {
  std::vector<uint8_t> bytes = BytesOf(*session_);
  ASSERT_EQ(session_->Truncate(10).code, MOONLIT_OK);
  const std::vector<uint8_t> second = BytesOf(*session_);
  bytes.insert(bytes.end(), second.begin(), second.end());
  Reader reader(bytes);
  Session other = New();
  ASSERT_EQ(other.Read(std::ref(reader)).code, MOONLIT_OK);
  EXPECT_EQ(other.length(), 100u);
  EXPECT_EQ(reader.left(), second.size());
  ASSERT_EQ(other.Read(std::ref(reader)).code, MOONLIT_OK);
  EXPECT_EQ(other.length(), 10u);
  EXPECT_EQ(reader.left(), 0u);
}

// At every piece in turn, with false and with what is thrown.
TEST_F(SessionStream, AFunctionThatGivesUpLeavesTheSession) {
  const std::vector<uint8_t> bytes = BytesOf(*session_);
  Session other = New();
  ASSERT_EQ(other.Eval(std::span(ids_).first(3), MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
  const std::vector<int32_t> held = other.Tokens();
  size_t pieces = 0;
  ASSERT_EQ(session_->Write([&](auto) { return ++pieces != 0; }).code, MOONLIT_OK);
  ASSERT_GT(pieces, 3u) << "head, pages, checksum";
  for (const bool throws : {false, true}) {
    const auto give_up = [&]() -> bool { return throws ? throw std::runtime_error("no more room") : false; };
    const moonlit_code code = throws ? MOONLIT_INTERNAL : MOONLIT_IO;
    const char* text = throws ? "no more room" : "has given up behind";
    for (size_t at = 0; at < pieces; ++at) {
      size_t piece = 0;
      const Error error = session_->Write([&](auto) { return piece++ < at || give_up(); });
      EXPECT_EQ(error.code, code) << error.message;
      EXPECT_THAT(error.message, HasSubstr(text));
      EXPECT_EQ(piece, at + 1) << "it is not called again";
    }
    size_t reads = 0;
    for (size_t at = 0;; ++at) {
      Reader reader(bytes);
      reads = 0;
      const Error error =
          other.Read([&](std::span<uint8_t> piece) { return reads++ < at ? reader(piece) : give_up(); });
      if (error.code == MOONLIT_OK) break;
      EXPECT_EQ(error.code, code) << error.message;
      EXPECT_THAT(error.message, HasSubstr(text));
      EXPECT_EQ(reads, at + 1);
      ExpectUntouched(other, held);
    }
    EXPECT_GT(reads, 3u);
    ASSERT_EQ(other.Truncate(0).code, MOONLIT_OK);
    ASSERT_EQ(other.Eval(held, MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
  }
  EXPECT_EQ(session_->Tokens(), ids_);
}

TEST_F(SessionStream, DamagedBytesAreRefusedAsAFilesAre) {
  const std::vector<uint8_t> good = BytesOf(*session_);
  Session other = New();
  ASSERT_EQ(other.Eval(std::span(ids_).first(3), MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
  const std::vector<int32_t> held = other.Tokens();
  for (size_t i = 0; i < 40; ++i) {
    const size_t at = i < 8 ? i : i * 17 % good.size() + (good.size() - 17 * 40) / 40 * i;
    std::vector<uint8_t> bytes = good;
    bytes[at] ^= 1;
    Reader reader(bytes);
    const Error error = other.Read(std::ref(reader));
    EXPECT_EQ(error.code, MOONLIT_CORRUPT) << "byte " << at << ": " << error.message;
    EXPECT_EQ(other.Tokens(), held);
    Reader cut(std::span<const uint8_t>(good).first(at));
    EXPECT_EQ(other.Read(std::ref(cut)).code, MOONLIT_IO) << at;
  }
  ExpectUntouched(other, held);
  auto gemma = Model::Load(MOONLIT_SOURCE_DIR "/tests/data/golden/gemma3/model.gguf");
  ASSERT_TRUE(gemma) << gemma.error().message;
  auto of_another = gemma->NewSession();
  ASSERT_TRUE(of_another);
  Reader reader(good);
  EXPECT_EQ(of_another->Read(std::ref(reader)).code, MOONLIT_UNSUPPORTED);
}

// The session itself is in use; others are not.
TEST_F(SessionStream, FunctionsMayUseOtherSessions) {
  Session other = New();
  bool used = false;
  const auto use = [&] {
    used = true;
    EXPECT_EQ(session_->Truncate(0).code, MOONLIT_BUSY);
    EXPECT_EQ(other.Eval(std::span(ids_).first(2), MOONLIT_OUTPUT_NONE, {}).code, MOONLIT_OK);
  };
  std::vector<uint8_t> bytes;
  ASSERT_EQ(session_
                ->Write([&](std::span<const uint8_t> piece) {
                  bytes.insert(bytes.end(), piece.begin(), piece.end());
                  use();
                  return true;
                })
                .code,
            MOONLIT_OK);
  EXPECT_TRUE(used);
  Reader reader(bytes);
  ASSERT_EQ(session_
                ->Read([&](std::span<uint8_t> piece) {
                  use();
                  return reader(piece);
                })
                .code,
            MOONLIT_OK);
  EXPECT_EQ(session_->Tokens(), ids_);
}

}  // namespace
}  // namespace moonlit::api
