// SPDX-License-Identifier: Apache-2.0
// Files that come beside weights (config.json, tokenizer.json, importance matrices, logits), each edited in a fixed set of ways. What
// is asked: a Status or a value that keeps its promise, never a crash, whatever the edit. Sanitizers see the rest.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "runtime/convert/check_model.h"
#include "runtime/convert/hugging_face.h"
#include "runtime/convert/imatrix.h"
#include "runtime/decode/logits_file.h"
#include "runtime/text/tokenizer.h"
#include "runtime/text/tokenizer_json.h"
#include "tests/support/hugging_face_folder.h"
#include "tests/support/slowed.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using Json = nlohmann::json;
using Random = std::mt19937_64;

constexpr int kRounds = kSlowed ? 60 : 1500;

std::string EditBytes(std::string bytes, Random& random) {
  for (uint64_t edits = 1 + random() % 3; edits != 0 && bytes.size() > 8; --edits) {
    const auto at = static_cast<size_t>(random() % bytes.size());
    const uint64_t kind = random() % 4;
    if (kind == 0) bytes[at] = static_cast<char>(random());
    if (kind == 1) bytes.erase(at, static_cast<size_t>(random() % 8));
    if (kind == 2) bytes.insert(at, bytes.substr(static_cast<size_t>(random() % bytes.size()), 12));
    if (kind == 3) bytes.resize(at);
  }
  return bytes;
}

// Some value somewhere in the document.
Json* Pick(Json* json, Random& random) {
  while (json->is_structured() && !json->empty() && random() % 6 != 0) {
    auto it = json->begin();
    std::advance(it, static_cast<ptrdiff_t>(random() % json->size()));
    json = &*it;
  }
  return json;
}

// Another value of another kind, where fields have meaning.
std::string EditFields(const std::string& text, Random& random) {
  static const Json kValues[] = {nullptr,
                                 true,
                                 -1,
                                 0,
                                 1,
                                 3.5,
                                 1e30,
                                 uint64_t{1} << 40,
                                 INT64_MIN,
                                 "",
                                 "x\n",
                                 "▁",
                                 Json::array(),
                                 {1, "a", nullptr},
                                 Json::object(),
                                 {{"type", "BPE"}}};
  Json json = Json::parse(text);
  for (uint64_t edits = 1 + random() % 2; edits != 0; --edits) {
    Json* place = Pick(&json, random);
    if (place->is_structured() && !place->empty() && random() % 3 == 0) {
      auto it = place->begin();
      std::advance(it, static_cast<ptrdiff_t>(random() % place->size()));
      place->erase(it);
    } else {
      *place = kValues[random() % std::size(kValues)];
    }
  }
  return json.dump();
}

class EditedFolder : public testing::TestWithParam<const char*> {
 protected:
  EditedFolder() {
    WriteHuggingFaceFolder(MOONLIT_SOURCE_DIR "/tests/data/golden/" + std::string(GetParam()), folder_.path());
  }
  // Loading's own checks; what they take has consistent sizes.
  void Load() {
    const auto model = OpenHuggingFace(folder_.path(), "");
    if (!model.ok()) return;
    ++opened_;
    const auto checked = CheckModel(*model->metadata, *model->weights, "");
    if (!checked.ok()) return;
    ++loaded_;
    const auto ids = checked->tokenizer->Encode("the quick 12 \xe4\xbd\xa0", {.add_special = true});
    if (!ids.ok()) return;
    for (const int32_t id : *ids) EXPECT_LT(static_cast<size_t>(id), checked->loaded.config.vocab);
    EXPECT_TRUE(checked->tokenizer->Decode(*ids, {}).ok());
  }
  TempFolder folder_;
  int opened_ = 0, loaded_ = 0;
};

TEST_P(EditedFolder, IsAModelOrAStatus) {
  constexpr int kFiles = kSlowed ? 12 : 250;
  Random random(20261130);
  for (const char* name : {"config.json", "tokenizer.json", "tokenizer_config.json"}) {
    const std::string good = ReadWholeFile(folder_.path() + "/" + name);
    for (int round = 0; round < kFiles; ++round) {
      folder_.Write(name, round % 3 == 0 ? EditBytes(good, random) : EditFields(good, random));
      Load();
    }
    folder_.Write(name, good);
  }
  Load();
  EXPECT_GE(loaded_, 1) << "the folder itself";
  EXPECT_LT(loaded_, 3 * kFiles) << "some edits do harm";
}

INSTANTIATE_TEST_SUITE_P(Replay, EditedFolder, testing::Values("qwen2", "mistral", "gemma3"));

TEST(Replay, EditedImportanceMatricesAreFiniteOrAStatus) {
  std::string good;
  const auto put = [&](auto value) { good.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(int32_t{2});
  for (const std::string name : {"blk.0.attn_q.weight", "blk.0.ffn_down.weight"}) {
    put(static_cast<int32_t>(name.size()));
    good += name;
    put(int32_t{3});
    put(int32_t{5});
    for (int i = 0; i < 5; ++i) put(0.5f * static_cast<float>(i));
  }
  put(int32_t{7});
  put(int32_t{4});
  good += "text";
  const TempFolder folder;
  ASSERT_TRUE(ReadImportanceMatrix(folder.Write("imatrix", good)).ok());
  Random random(1);
  int refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto matrix = ReadImportanceMatrix(folder.Write("imatrix", EditBytes(good, random)));
    refused += matrix.ok() ? 0 : 1;
    if (!matrix.ok()) continue;
    for (const auto& [name, values] : matrix->rows) {
      for (const float value : values) EXPECT_TRUE(std::isfinite(value) && value >= 0) << name;
    }
  }
  EXPECT_GT(refused, kRounds / 4);
  EXPECT_LT(refused, kRounds);
}

TEST(Replay, EditedLogitsFilesAreFiniteOrAStatus) {
  constexpr size_t kWindow = 6, kVocab = 7, kRows = 4;
  const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 0, 1, 2, 3, 4, 5};
  const TempFolder folder;
  const std::string path = folder.path() + "/logits";
  auto writer = LogitsWriter::Create(path, tokens, kWindow, kVocab);
  ASSERT_TRUE(writer.ok());
  for (size_t r = 0; r < kRows; ++r) ASSERT_TRUE(writer->Append(std::vector<float>{0, 1, 2, 3, 4, -5, 6}).ok());
  ASSERT_TRUE(writer->Finish().ok());
  const std::string good = ReadWholeFile(path);
  Random random(2);
  int opened = 0;
  for (int round = 0; round < kRounds; ++round) {
    auto reader = LogitsReader::Open(folder.Write("edited", EditBytes(good, random)), tokens, kWindow, kVocab);
    if (!reader.ok()) continue;
    ++opened;
    for (size_t r = 0; r < kRows; ++r) {
      const auto row = reader->Next();
      if (!row.ok()) break;
      ASSERT_EQ(row->size(), kVocab);
      for (const float value : *row) EXPECT_TRUE(std::isfinite(value));
    }
  }
  EXPECT_GE(opened, 1);
  EXPECT_LT(opened, kRounds);
}

}  // namespace
}  // namespace moonlit
