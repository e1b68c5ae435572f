// SPDX-License-Identifier: Apache-2.0
// The text of the C headers, for tests that must not leave out what is new in them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/temp_folder.h"

namespace moonlit {

inline std::string ApiHeaders() {
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(MOONLIT_SOURCE_DIR "/runtime/api/moonlit")) {
    if (entry.path().extension() == ".h") text += ReadWholeFile(entry.path().string());
  }
  EXPECT_NE(text, "");
  return text;
}

}  // namespace moonlit
