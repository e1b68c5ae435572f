// SPDX-License-Identifier: Apache-2.0
// The `moonlit` command: subcommands come from commands.inc.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/api/moonlit.h"
#include "tools/cli/command.h"
#include "tools/cli/interrupt.h"
#include "tools/cli/model_flags.h"
#include "tools/cli/near_name.h"

namespace moonlit::cli {
#define MOONLIT_COMMAND(name, maker, help) std::unique_ptr<Command> maker();
#include "tools/cli/commands.inc"
#undef MOONLIT_COMMAND

namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// llama.cpp has flags of several letters behind one dash (-ctk), which the parser would read as several flags or as -c with
// the value tk. They get a second dash, so that those we lack are refused by their name.
std::vector<std::string> SpellOut(int argc, char** argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    const bool letters = word.size() > 2 && word[0] == '-' && IsLetter(word[1]) && IsLetter(word[2]);
    words.push_back(letters ? "-" + std::string(word) : std::string(word));
  }
  std::reverse(words.begin(), words.end());  // as the parser takes them
  return words;
}

// The parser would only say that a command is missing.
int UnknownCommand(std::string_view typed, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(typed, names);
  std::fprintf(stderr, "moonlit: there is no command \"%s\"%s\nmoonlit --help lists the commands\n",
               Printable(typed).c_str(), nearest.empty() ? "" : ("; did you mean " + nearest + "?").c_str());
  return kUsage;
}

// As they were typed and in their order: the parser has its own spelling, and names them backwards.
int UnknownArguments(const CLI::App& app, const std::vector<std::string>& typed) {
  std::string list, hint;
  for (std::string word : app.remaining(true)) {
    const auto is_typed = [&](const std::string& text) {
      return std::find(typed.begin(), typed.end(), text) != typed.end();
    };
    if (!is_typed(word) && is_typed(word.substr(1))) word.erase(0, 1);
    for (const char* name : {"-i", "-if", "-cnv", "--interactive", "--interactive-first", "--conversation"}) {
      if (word == name) hint = "moonlit chat talks with a model line by line\n";
    }
    if (word == "-s") hint = "--seed is the seed of the sampling\n";
    list += " " + Printable(word);
  }
  std::string command;
  for (const CLI::App* chosen : app.get_subcommands()) command = " " + chosen->get_name();
  std::fprintf(stderr, "moonlit%s: not expected:%s\n%smoonlit%s --help lists its flags\n", command.c_str(),
               list.c_str(), hint.c_str(), command.c_str());
  return kUsage;
}

// A result that did not reach its reader is no success.
int Flushed(int code) {
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good()) return code;
  if (code == kOk) std::fprintf(stderr, "moonlit: standard output can't be written\n");
  return code == kOk ? kFailed : code;
}

int Main(int argc, char** argv) {
  EndCleanlyBySignals();
  CLI::App app(
      "Moonlit: small language models on ordinary CPUs.\n"
      "  moonlit generate -m model.gguf -p \"Once upon a time\"\n"
      "  moonlit generate -p 床前明月 --temp 0          (the verse model that Moonlit carries)");
  app.name("moonlit");
  app.set_version_flag("--version", std::string("moonlit ") + moonlit_version());
  app.require_subcommand(1);
  // The reason, not forty lines of help behind which it would scroll away.
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return "moonlit: " + std::string(error.what()) +
           "\nmoonlit --help lists the commands, moonlit COMMAND --help its flags\n";
  });
  app.footer(
      "Environment:\n"
      "  MOONLIT_VARIANT=NAME    force a kernel variant (moonlit doctor lists them)\n"
      "  MOONLIT_FLOAT_PROVIDER=own|xnnpack  force who multiplies with F32 weights\n"
      "  MOONLIT_DATA_DIR=DIR    where poet-Q4_0.gguf lies, if not in ../share/moonlit beside the binary\n"
      "  MOONLIT_MODELS=DIR      where -m NAME means DIR/NAME.gguf (default ~/.local/share/moonlit/models);\n"
      "                          tools/models/fetch_smollm2.py brings smollm2 there\n"
      "Exit codes: 0 done, 1 failed, 2 wrong usage or a model that is not supported, 130 Ctrl-C");

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

  const std::string_view chosen = argc > 1 ? argv[1] : "";
  std::vector<std::string> names;
  for (const Entry& entry : entries) names.push_back(entry.app->get_name());
  const bool known = std::find(names.begin(), names.end(), chosen) != names.end();
  if (!chosen.empty() && chosen[0] != '-' && !known) return UnknownCommand(chosen, names);

  try {
    app.parse(SpellOut(argc, argv));
  } catch (const CLI::ExtrasError&) {
    return UnknownArguments(app, std::vector<std::string>(argv + 1, argv + argc));
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    return code == 0 ? Flushed(kOk) : kUsage;
  }
  for (const Entry& entry : entries) {
    if (entry.app->parsed()) return Flushed(entry.command->Run());
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
