// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/adapter_flags.h"

#include <filesystem>

#include "tools/cli/model_flags.h"

namespace moonlit::cli {

ScaledFile ParseScaledFile(const std::string& text) {
  std::error_code ignored;
  const size_t colon = text.rfind(':');
  if (colon == std::string::npos || std::filesystem::exists(text, ignored)) return {text, 1};
  float scale = 1;
  if (!CLI::detail::lexical_cast(text.substr(colon + 1), scale)) return {text, 1};
  return {text.substr(0, colon), scale};
}

void AdapterFlags::Declare(CLI::App& app) {
  app.add_option("--lora,--lora-scaled", files_,
                 "LoRA adapter in GGUF, as FILE or FILE:SCALE (its addends times SCALE); may be repeated")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

int AdapterFlags::Load(const api::Model& model, ScaledAdapters* loaded) const {
  for (const std::string& text : files_) {
    const ScaledFile file = ParseScaledFile(text);
    auto adapter = model.LoadAdapter(file.path);
    if (!adapter) return Report(adapter.error());
    loaded->adapters.push_back(std::move(*adapter));
    loaded->handles.push_back(loaded->adapters.back().handle());
    loaded->scales.push_back(file.scale);
  }
  return kOk;
}

int AdapterFlags::Apply(const api::Model& model, api::Session& session) const {
  ScaledAdapters loaded;
  if (const int code = Load(model, &loaded); code != kOk || loaded.handles.empty()) return code;
  const api::Error error = session.SetAdapters(loaded.handles, loaded.scales);
  return error.code == MOONLIT_OK ? kOk : Report(error);
}

}  // namespace moonlit::cli
