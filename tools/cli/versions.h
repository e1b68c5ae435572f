// SPDX-License-Identifier: Apache-2.0
// Versions of the libraries in this build, as cmake/dependencies.cmake pins them; the definition is generated.
#pragma once

namespace moonlit::cli {

struct LibraryVersion {
  const char* name;
  const char* version;
};

inline constexpr LibraryVersion kLibraryVersions[] = {
#include "moonlit/library_versions.inc"
};

}  // namespace moonlit::cli
