// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>

#include "kernels/cpu/variant.h"
#include "runtime/decode/engine.h"

namespace moonlit {
namespace {

std::string RunnableNames() {
  size_t count = 0;
  const Variant* built = BuiltVariants(&count);
  std::string names;
  for (size_t i = 0; i < count; ++i) {
    if (!CanRun(built[i], CpuFeatures())) continue;
    if (!names.empty()) names += ", ";
    names += VariantName(built[i]);
  }
  return names.empty() ? "none" : names;
}

}  // namespace

Result<Variant> ResolveVariant(const std::string& name) {
  std::string wanted = name;
  if (wanted.empty()) {
    const char* environment = std::getenv("MOONLIT_VARIANT");
    if (environment != nullptr) wanted = environment;
  }
  if (wanted.empty()) {
    const Variant best = SelectVariant(CpuFeatures());
    if (CanRun(best, CpuFeatures())) return best;
    return Errorf(
        Code::kUnsupported,
        "this CPU runs no kernel variant of this build, not even %s; build with more of them (MOONLIT_VARIANTS)",
        VariantName(best));
  }
  Variant variant;
  if (!FindVariant(wanted.c_str(), &variant)) {
    return Errorf(Code::kInvalidArgument, "there is no kernel variant \"%s\"; this machine runs %s", wanted.c_str(),
                  RunnableNames().c_str());
  }
  if (!IsBuilt(variant)) {
    return Errorf(Code::kUnsupported, "kernel variant %s is not in this build; this machine runs %s", wanted.c_str(),
                  RunnableNames().c_str());
  }
  if (!CanRun(variant, CpuFeatures())) {
    return Errorf(Code::kUnsupported, "kernel variant %s needs instructions that this CPU lacks; this machine runs %s",
                  wanted.c_str(), RunnableNames().c_str());
  }
  return variant;
}

}  // namespace moonlit
