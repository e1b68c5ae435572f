// SPDX-License-Identifier: Apache-2.0
// The `moonlit` command: subcommands come from commands.inc.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/api/moonlit.h"
#include "tools/cli/command.h"

namespace moonlit::cli {
#define MOONLIT_COMMAND(name, maker, help) std::unique_ptr<Command> maker();
#include "tools/cli/commands.inc"
#undef MOONLIT_COMMAND

namespace {

// llama.cpp has flags of several letters behind one dash, which the parser would read as several flags.
std::vector<std::string> SpellOut(int argc, char** argv) {
  static constexpr std::string_view kFlags[] = {"-ctk", "-ctv", "-fa", "-ub"};
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool spell = std::find(std::begin(kFlags), std::end(kFlags), word) != std::end(kFlags);
    words.push_back(spell ? "-" + std::string(word) : std::string(word));
  }
  std::reverse(words.begin(), words.end());  // as the parser takes them
  return words;
}

void PrintLog(void*, moonlit_log_level level, const char* text) {
  if (level >= MOONLIT_LOG_WARNING) {
    std::fprintf(stderr, "moonlit: %s: %s\n", level == MOONLIT_LOG_ERROR ? "error" : "warning", text);
  }
}

int Main(int argc, char** argv) {
  moonlit_set_log(&PrintLog, nullptr);
  CLI::App app(
      "Moonlit: small language models on ordinary CPUs.\n"
      "  moonlit generate -m model.gguf -p \"Once upon a time\"\n"
      "  moonlit generate -p 床前明月 --temp 0          (the verse model that Moonlit carries)");
  app.name("moonlit");
  app.set_version_flag("--version", std::string("moonlit ") + moonlit_version());
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);

  struct Entry {
    CLI::App* app;
    std::unique_ptr<Command> command;
  };
  std::vector<Entry> entries;
  auto add = [&](const char* name, const char* help, std::unique_ptr<Command> command) {
    CLI::App* sub = app.add_subcommand(name, help);
    command->DeclareFlags(*sub);
    entries.push_back({sub, std::move(command)});
  };
#define MOONLIT_COMMAND(name, maker, help) add(#name, help, maker());
#include "tools/cli/commands.inc"
#undef MOONLIT_COMMAND

  try {
    app.parse(SpellOut(argc, argv));
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? kOk : kUsage;
  }
  for (const Entry& entry : entries) {
    if (entry.app->parsed()) return entry.command->Run();
  }
  return kUsage;
}

}  // namespace
}  // namespace moonlit::cli

int main(int argc, char** argv) {
  try {
    return moonlit::cli::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "moonlit: %s\n", error.what());
    return moonlit::cli::kFailed;
  }
}
