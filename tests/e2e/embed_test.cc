// SPDX-License-Identifier: Apache-2.0
// `moonlit embed`; the numbers are tests/api/embed_test.cc's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/e2e/process.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;

const std::string kBert = MOONLIT_SOURCE_DIR "/tests/data/golden/bert/model.gguf";

std::vector<double> Vector(const std::vector<std::string>& more) {
  std::vector<std::string> flags = {"embed", "-m", kBert, "-p", "The quick brown fox"};
  flags.insert(flags.end(), more.begin(), more.end());
  const Outcome run = RunMoonlit(flags);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const auto json = nlohmann::json::parse(run.out);
  EXPECT_GT(json["tokens"], 5);
  return json["embedding"];
}

TEST(Embed, PrintsOneVectorAsJson) {
  const std::vector<double> unit = Vector({}), raw = Vector({"--raw"});
  ASSERT_EQ(unit.size(), 72u);
  ASSERT_EQ(raw.size(), 72u);
  double squares = 0, along = 0, length = 0;
  for (size_t i = 0; i < unit.size(); ++i) {
    squares += unit[i] * unit[i];
    along += unit[i] * raw[i];
    length += raw[i] * raw[i];
  }
  EXPECT_NEAR(squares, 1, 1e-5);
  EXPECT_GT(length, 2);
  EXPECT_NEAR(along * along, length, 1e-4 * length) << "one direction";
  EXPECT_EQ(Vector({"--pooling", "mean"}), unit) << "as the model says";
  EXPECT_EQ(Vector({"--pooling", "cls"}), Vector({"--pooling", "first"}));
  EXPECT_NE(Vector({"--pooling", "last"}), unit);
}

TEST(Embed, ModelsOfTextAndModelsOfVectorsAreToldApart) {
  const Outcome poet = RunMoonlit({"embed", "-p", "春"});
  EXPECT_EQ(poet.exit_code, 2);
  EXPECT_THAT(poet.err, HasSubstr("choose mean, first or last"));
  const Outcome last = RunMoonlit({"embed", "-p", "春", "--pooling", "last"});
  EXPECT_EQ(last.exit_code, 0) << last.err;
  const Outcome text = RunMoonlit({"generate", "-m", kBert, "-p", "a", "-n", "1"});
  EXPECT_EQ(text.exit_code, 2);
  EXPECT_THAT(text.err, HasSubstr("gives embeddings of texts"));
  EXPECT_EQ(RunMoonlit({"embed", "-m", kBert, "-p", "a", "--pooling", "median"}).exit_code, 2);
}

}  // namespace
}  // namespace moonlit::test
