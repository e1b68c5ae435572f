// SPDX-License-Identifier: Apache-2.0
// The kernel variants that a test goes through: those of this build that this CPU runs.
//
// MOONLIT_TEST_VARIANTS=name,name narrows them. Under an emulator every processor of a family runs the same objects, so each test
// preset (CMakePresets.json) takes the variant that no other takes. A list that leaves nothing ends the program: a test
// that tests nothing must not pass.
#pragma once

#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/cpu/features.h"
#include "kernels/cpu/variant.h"

namespace moonlit {

inline std::vector<Variant> RunnableVariants() {
  const char* names = std::getenv("MOONLIT_TEST_VARIANTS");
  const std::string wanted = names && *names ? "," + std::string(names) + "," : "";
  size_t count = 0;
  const Variant* built = BuiltVariants(&count);
  std::vector<Variant> runnable;
  for (size_t i = 0; i < count; ++i) {
    const bool is_wanted =
        wanted.empty() || wanted.find("," + std::string(VariantName(built[i])) + ",") != std::string::npos;
    if (is_wanted && CanRun(built[i], CpuFeatures())) runnable.push_back(built[i]);
  }
  if (runnable.empty()) throw std::runtime_error("MOONLIT_TEST_VARIANTS=" + wanted + ": none runs here");
  return runnable;
}

}  // namespace moonlit
