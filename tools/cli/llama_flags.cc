// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/llama_flags.h"

namespace moonlit::cli {

CLI::Option* AddFlashAttention(CLI::App& app, std::string* value) {
  return app
      .add_option("--fa,--flash-attn", *value,
                  "Accepted for compatibility: attention is always fused (-fa [on|off|auto])")
      ->expected(0, 1)
      ->delimiter(',')
      ->take_last()
      ->check(CLI::IsMember({"on", "off", "auto", "1", "0"}).description(""));
}

void LlamaFlags::AddValues(CLI::App& app, const std::string& names) {
  app.add_option(names, value_)->group("")->take_last();
}

std::string LlamaFlags::DeclareCli(CLI::App& app) {
  AddValues(app, "-b,--batch-size");
  AddValues(app, "--ngl,--gpu-layers,--n-gpu-layers");
  AddFlashAttention(app, &value_)->group("");
  app.add_flag("--no-mmap,--mlock,--no-warmup,--no-display-prompt,--no-cnv,--no-conversation,--color", flag_)
      ->group("");
  return "Flags of llama.cpp that have no meaning here are accepted and ignored:\n"
         "-b, -fa, -ngl, --no-mmap, --mlock, --no-warmup, --no-display-prompt, -no-cnv, --color.";
}

std::string LlamaFlags::DeclareBench(CLI::App& app) {
  AddValues(app, "--ngl,--gpu-layers,--n-gpu-layers");
  AddValues(app, "--sm,--split-mode");
  AddValues(app, "--mg,--main-gpu");
  AddValues(app, "--nkvo,--no-kv-offload");
  AddValues(app, "--mmp,--mmap");
  AddValues(app, "--numa");
  AddValues(app, "--prio");
  AddValues(app, "--poll");
  return "Flags of llama-bench that have no meaning here are accepted and ignored:\n"
         "-fa, -ngl, -sm, -mg, -nkvo, -mmp, --numa, --prio, --poll.";
}

}  // namespace moonlit::cli
