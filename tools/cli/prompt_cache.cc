// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/prompt_cache.h"

#include <algorithm>
#include <vector>

#include "tools/cli/model_flags.h"

namespace moonlit::cli {

void PromptCache::Declare(CLI::App& app) {
  CLI::Option* file =
      app.add_option("--prompt-cache", path_,
                     "File that keeps the read prompt: a later run whose prompt begins alike reads only "
                     "the rest. Made if there is none, else replaced when the run ends")
          ->check(IsNotEmpty());
  app.add_flag("--prompt-cache-all", all_, "Keep the generated text there too")->needs(file);
  app.add_flag("--prompt-cache-ro", read_only_, "Only read the file")->needs(file);
}

int PromptCache::Load(api::Session& session, std::span<const int32_t> prompt, size_t* known) const {
  *known = 0;
  const api::Error loaded = session.Load(path_);
  if (loaded.code == MOONLIT_NOT_FOUND) return kOk;
  if (loaded.code != MOONLIT_OK) return Report(loaded);
  const std::vector<int32_t> held = session.Tokens();
  const auto differs = std::mismatch(held.begin(), held.end(), prompt.begin(), prompt.end()).first;
  const auto equal = static_cast<size_t>(differs - held.begin());
  *known = std::min(equal, prompt.size() - 1);  // the last one is read for what comes after it
  const api::Error cut = session.Truncate(*known);
  return cut.code == MOONLIT_OK ? kOk : Report(cut);
}

int PromptCache::Save(api::Session& session, size_t prompt_tokens) const {
  if (read_only_) return kOk;
  if (!all_ && session.length() > prompt_tokens) {
    const api::Error cut = session.Truncate(prompt_tokens);
    if (cut.code != MOONLIT_OK) return Report(cut);
  }
  const api::Error saved = session.Save(path_);
  return saved.code == MOONLIT_OK ? kOk : Report(saved);
}

}  // namespace moonlit::cli
