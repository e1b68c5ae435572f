// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/adapter_file.h"

#include <cmath>
#include <utility>

namespace moonlit {
namespace {

constexpr double kMostAlpha = 1e6;

// "" where the key is absent.
Result<std::string> TextOf(const Metadata& metadata, const char* key) {
  if (!metadata.Has(key)) return std::string();
  return metadata.GetString(key);
}

Status CheckKind(const Metadata& metadata, const std::string& architecture) {
  MOONLIT_ASSIGN_OR_RETURN(const std::string type, TextOf(metadata, "general.type"));
  if (type != "adapter") {
    return Errorf(Code::kInvalidArgument, "general.type is \"%s\": expected \"adapter\"; give a LoRA adapter in GGUF",
                  type.c_str());
  }
  MOONLIT_ASSIGN_OR_RETURN(const std::string kind, TextOf(metadata, "adapter.type"));
  if (kind != "lora") {
    return Errorf(Code::kUnsupported, "adapter.type is \"%s\": expected \"lora\", the one kind that this build has",
                  kind.c_str());
  }
  MOONLIT_ASSIGN_OR_RETURN(const std::string of, TextOf(metadata, "general.architecture"));
  if (of != architecture) {
    return Errorf(Code::kInvalidArgument, "the adapter is for architecture \"%s\", the model's is \"%s\"", of.c_str(),
                  architecture.c_str());
  }
  if (metadata.Has("adapter.alora.invocation_tokens")) {
    return Status(Code::kUnsupported,
                  "the adapter has adapter.alora.invocation_tokens: it is to be used from those tokens on, which this "
                  "build can't do");
  }
  return Status();
}

Result<float> ReadAlpha(const Metadata& metadata) {
  constexpr char kAlpha[] = "adapter.lora.alpha";
  if (!metadata.Has(kAlpha)) return 0.0f;
  MOONLIT_ASSIGN_OR_RETURN(const double alpha, metadata.GetFloat(kAlpha));
  if (std::isfinite(alpha) && std::fabs(alpha) <= kMostAlpha) return static_cast<float>(alpha);
  return Errorf(Code::kCorrupt, "%s is %g: expected a number from %g to %g", kAlpha, alpha, -kMostAlpha, kMostAlpha);
}

}  // namespace

Result<AdapterFile> OpenAdapterFile(const std::string& path, const std::string& architecture) {
  MOONLIT_ASSIGN_OR_RETURN(std::unique_ptr<GgufSource> source, GgufSource::Open(path));
  if (const Status kind = CheckKind(source->metadata(), architecture); !kind.ok()) return kind.WithContext(path);
  const Result<float> alpha = ReadAlpha(source->metadata());
  if (!alpha.ok()) return alpha.status().WithContext(path);
  return AdapterFile{std::move(source), alpha.value()};
}

}  // namespace moonlit
