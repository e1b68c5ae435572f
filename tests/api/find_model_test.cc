// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/find_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <map>

#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using ::testing::HasSubstr;

// The three variables as a test wants them, and the working folder empty; as they were when it ends.
class FindModelTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"MOONLIT_MODELS", "XDG_DATA_HOME", "HOME"}) {
      const char* value = std::getenv(name);
      if (value != nullptr) before_[name] = value;
      unsetenv(name);
    }
    char here[4096];
    ASSERT_NE(getcwd(here, sizeof here), nullptr);
    working_folder_ = here;
    ASSERT_EQ(chdir(empty_.path().c_str()), 0);
  }
  void TearDown() override {
    EXPECT_EQ(chdir(working_folder_.c_str()), 0);
    for (const char* name : {"MOONLIT_MODELS", "XDG_DATA_HOME", "HOME"}) unsetenv(name);
    for (const auto& [name, value] : before_) setenv(name.c_str(), value.c_str(), 1);
  }

  void Touch(const std::string& path) { std::ofstream(path) << "x"; }

  TempFolder empty_, models_;
  std::map<std::string, std::string> before_;
  std::string working_folder_;
};

TEST_F(FindModelTest, FoldersComeInTheirOrder) {
  EXPECT_EQ(ModelsFolder(), "");
  setenv("HOME", "/home/li", 1);
  EXPECT_EQ(ModelsFolder(), "/home/li/.local/share/moonlit/models");
  setenv("XDG_DATA_HOME", "relative", 1);
  EXPECT_EQ(ModelsFolder(), "/home/li/.local/share/moonlit/models");
  setenv("XDG_DATA_HOME", "/data", 1);
  EXPECT_EQ(ModelsFolder(), "/data/moonlit/models");
  setenv("MOONLIT_MODELS", "/models", 1);
  EXPECT_EQ(ModelsFolder(), "/models");
  setenv("MOONLIT_MODELS", "", 1);
  EXPECT_EQ(ModelsFolder(), "/data/moonlit/models");
}

TEST_F(FindModelTest, BareNamesAreLookedUp) {
  setenv("MOONLIT_MODELS", models_.path().c_str(), 1);
  Touch(models_.path() + "/small.gguf");
  EXPECT_EQ(FindModel("small").value(), models_.path() + "/small.gguf");
  EXPECT_EQ(FindModel("small.gguf").value(), models_.path() + "/small.gguf");
}

TEST_F(FindModelTest, FilesHereComeFirst) {
  setenv("MOONLIT_MODELS", models_.path().c_str(), 1);
  Touch(models_.path() + "/small.gguf");
  Touch("small");
  EXPECT_EQ(FindModel("small").value(), "small");
  ASSERT_EQ(mkdir("folder", 0700), 0);
  EXPECT_EQ(FindModel("folder").value(), "folder");
}

TEST_F(FindModelTest, PathsStayAsTheyAre) {
  setenv("MOONLIT_MODELS", models_.path().c_str(), 1);
  Touch(models_.path() + "/small.gguf");
  for (const char* path : {"./small", "/no/small", "../small.gguf", ""}) EXPECT_EQ(FindModel(path).value(), path);
}

TEST_F(FindModelTest, FaultsSayWhereItWasLookedAndWhatToDo) {
  const auto message = [](const char* name) {
    const Result<std::string> found = FindModel(name);
    EXPECT_EQ(found.status().code(), Code::kNotFound);
    return std::string(found.status().message());
  };
  EXPECT_THAT(message("other"), HasSubstr("set MOONLIT_MODELS"));
  setenv("MOONLIT_MODELS", models_.path().c_str(), 1);
  EXPECT_THAT(message("other"), HasSubstr("no " + models_.path() + "/other.gguf"));
  EXPECT_THAT(message("smollm2"), HasSubstr("tools/models/fetch_smollm2.py"));
  EXPECT_EQ(message("other").find("fetch_smollm2"), std::string::npos);
}

}  // namespace
}  // namespace moonlit
