// SPDX-License-Identifier: Apache-2.0
// Chats and grammars by the command.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/e2e/process.h"

namespace moonlit::test {
namespace {

using ::testing::HasSubstr;

std::string WriteFile(const std::string& name, const std::string& text) {
  const std::string path = ::testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// The verse model knows no turns: its template lets it go on with what was said.
std::string VerseTemplate() {
  return WriteFile("moonlit_verse.jinja",
                   "{% for m in messages %}{% if m.role == 'system' %}{{ m.content }}{% endif %}{% endfor %}"
                   "{{ messages[-1].content | trim }}{{ more | default('') }}");
}

TEST(ChatCommand, ATemplateMakesThePrompt) {
  const std::string file = VerseTemplate();
  const Outcome plain = RunMoonlit({"generate", "-p", "床前明月", "--temp", "0"});
  const Outcome chat =
      RunMoonlit({"generate", "--chat", "--chat-template-file", file, "-p", " 床前明月 ", "--temp", "0"});
  EXPECT_EQ(chat.exit_code, 0) << chat.err;
  EXPECT_EQ(chat.out, plain.out);
  const Outcome parts = RunMoonlit({"generate", "--chat", "--chat-template-file", file, "--system", "床", "-p", "前明",
                                    "--chat-template-kwargs", "{\"more\": \"月\"}", "--temp", "0"});
  EXPECT_EQ(parts.exit_code, 0) << parts.err;
  EXPECT_EQ(parts.out, plain.out);
}

TEST(ChatCommand, SaysWhatIsMissing) {
  const Outcome none = RunMoonlit({"generate", "--chat", "-p", "月"});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("--chat-template-file"));
  for (const char* command : {"chat", "generate"}) {
    std::vector<std::string> words = {command};
    if (words[0] == "generate") words.insert(words.end(), {"--chat", "-p", "月"});
    const Outcome poet = RunMoonlit(words);
    EXPECT_EQ(poet.exit_code, 1);
    for (const char* way : {"-m smollm2", "--chat-template-file"}) EXPECT_THAT(poet.err, HasSubstr(way));
    EXPECT_EQ(poet.err.find("moonlit_chat_options"), std::string::npos) << poet.err;
  }
  EXPECT_EQ(RunMoonlit({"generate", "--system", "x", "-p", "月"}).exit_code, 2);
  const Outcome bad =
      RunMoonlit({"generate", "--chat", "--chat-template-file", WriteFile("moonlit_bad.jinja", "{{ 1 +"), "-p", "月"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.err, HasSubstr("line 1"));
}

TEST(ChatCommand, AnEmptyTemplateFileIsNamed) {
  const Outcome file = RunMoonlit({"chat", "--chat-template-file", WriteFile("moonlit_empty.jinja", "")});
  EXPECT_EQ(file.exit_code, 1);
  EXPECT_THAT(file.err, HasSubstr("moonlit_empty.jinja is empty"));
  const Outcome name = RunMoonlit({"chat", "--chat-template-file", ""});
  EXPECT_EQ(name.exit_code, 2);
  EXPECT_THAT(name.err, HasSubstr("--chat-template-file"));
}

TEST(ChatCommand, EachLineIsAMessage) {
  const std::string file = VerseTemplate();
  RunOptions options;
  options.input = "床前明月\n\n/new\n床前明月\\\n \n/exit\nnever read\n";
  const Outcome chat = RunMoonlit({"chat", "--chat-template-file", file, "--temp", "0", "-n", "2"}, options);
  EXPECT_EQ(chat.exit_code, 0) << chat.err;
  EXPECT_EQ(chat.out, "光，\n光，\n");
  options.input = "床前明月";
  EXPECT_EQ(RunMoonlit({"chat", "--chat-template-file", file, "--temp", "0", "-n", "2"}, options).out, "光，\n");
}

// What the session holds of the conversation is not read again, and what does not fit is said.
TEST(ChatCommand, AConversationGoesOn) {
  const std::string file = WriteFile("moonlit_all.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  RunOptions options;
  options.input = "床前明月\n，\n";
  const Outcome chat = RunMoonlit({"chat", "--chat-template-file", file, "--temp", "0", "-n", "1"}, options);
  EXPECT_EQ(chat.exit_code, 0) << chat.err;
  EXPECT_EQ(chat.out, "光\n疑\n");
  options.input = std::string(100, 'x') + "\n床前明月\n";
  const Outcome full =
      RunMoonlit({"chat", "--chat-template-file", VerseTemplate(), "--temp", "0", "-n", "1", "-c", "64"}, options);
  EXPECT_EQ(full.exit_code, 1) << full.err;
  EXPECT_THAT(full.err, HasSubstr("/new"));
  EXPECT_EQ(full.out, "光\n");
}

// No answer ends by itself, nor has it a second line: the end token (2) and the newline (259) are never chosen, and the context holds
// more than comes before the signal.
std::vector<std::string> EndlessChat(const std::string& template_text) {
  return {"chat", "--chat-template-file", WriteFile("moonlit_endless.jinja", template_text), "-l", "2-inf", "-c",
          "4096"};
}

TEST(ChatCommand, ATerminalsInterruptStopsTheAnswerAlone) {
  RunOptions options;
  options.input_from_terminal = true;
  options.interrupts = 2;
  options.input = "床前明月\n，\n/exit\n";
  const Outcome twice = RunMoonlit(EndlessChat("{% for m in messages %}{{ m.content }}{% endfor %}"), options);
  EXPECT_EQ(twice.exit_code, 0) << twice.err;
  EXPECT_EQ(std::count(twice.out.begin(), twice.out.end(), '\n'), 2) << twice.out;
  EXPECT_THAT(twice.err, HasSubstr("moonlit: stopped;"));

  // The template of the second message tells what it knows of the first answer.
  options.interrupts = 1;
  const Outcome kept =
      RunMoonlit(EndlessChat("{% if messages|length == 3 %}{{ raise_exception('kept ' ~ messages[1].role ~ "
                             "' ' ~ messages[1].content[:1]) }}{% endif %}{{ messages[0].content }}"),
                 options);
  EXPECT_THAT(kept.err, HasSubstr("kept assistant 光"));
}

TEST(ChatCommand, AnInterruptEndsItAtThePromptAndWithoutATerminal) {
  RunOptions prompt;
  prompt.input_from_terminal = true;
  prompt.interrupt_at_error = "\n> ";
  EXPECT_EQ(RunMoonlit(EndlessChat("{{ messages[0].content }}"), prompt).exit_code, 130);
  RunOptions piped;
  piped.input = "床前明月\n，\n";
  piped.interrupts = 1;
  EXPECT_EQ(RunMoonlit(EndlessChat("{{ messages[0].content }}"), piped).exit_code, 130);
}

TEST(ChatCommand, ATerminalIsGreetedOnce) {
  RunOptions options;
  options.input = "\n\n";
  const std::vector<std::string> words = {"chat", "--chat-template-file", VerseTemplate()};
  EXPECT_EQ(RunMoonlit(words, options).err, "");
  options.input += "\x04";
  options.input_from_terminal = true;
  const Outcome run = RunMoonlit(words, options);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
  for (const char* word : {"/help", "/new", "/exit"}) EXPECT_THAT(run.err, HasSubstr(word));
}

TEST(ChatCommand, WordsBehindASlashAreCommands) {
  const std::string file = WriteFile("moonlit_all.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}");
  const std::vector<std::string> words = {"chat", "--chat-template-file", file, "--temp", "0", "-n", "1"};
  RunOptions options;
  options.input = "/regen\n床前明月\n/wat\n/regen\n，\n/clear\n床前明月\n/help\n";
  const Outcome run = RunMoonlit(words, options);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "光\n光\n疑\n光\n");
  EXPECT_THAT(run.err, HasSubstr("there is no answer yet"));
  EXPECT_THAT(run.err, HasSubstr("no command /wat"));
  EXPECT_THAT(run.err, HasSubstr("-n"));
  for (const char* word : {"/new", "/clear", "/regen", "/help", "/exit"}) {
    EXPECT_THAT(run.err, HasSubstr("\n  " + std::string(word) + " "));
    EXPECT_THAT(RunMoonlit({"chat", "--help"}).out, HasSubstr(word));
  }
  options.input = "/no/word\n /new\n";
  const Outcome messages = RunMoonlit(words, options);
  EXPECT_EQ(std::count(messages.out.begin(), messages.out.end(), '\n'), 2) << messages.err;
}

// What differs from the greedy answer comes from the seed, which moves on.
TEST(ChatCommand, AnAnswerMadeAgainIsAnother) {
  RunOptions options;
  options.input = "春\n/regen\n";
  const Outcome run = RunMoonlit({"chat", "--chat-template-file", VerseTemplate(), "--seed", "1", "-n", "16"}, options);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const size_t end = run.out.find('\n');
  EXPECT_NE(run.out.substr(0, end + 1), run.out.substr(end + 1));
}

TEST(GrammarFlags, TheTextIsOneOfTheGrammar) {
  const std::string grammar = "root ::= [山水]{2} \"。\"";
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--grammar", grammar},
                                                {"--grammar-file", WriteFile("moonlit.gbnf", grammar + "\n")}}) {
    std::vector<std::string> words = {"generate", "-p", "床前明月", "--seed", "1"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome run = RunMoonlit(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_EQ(run.out.size(), 3u * 3 + 1) << run.out;
    EXPECT_EQ(run.out.find_first_not_of("山水"), 6u) << run.out;
  }
}

TEST(GrammarFlags, ASchemaMakesJson) {
  const std::string schema =
      R"({"properties": {"a": {"enum": ["月", "山"]}, "b": {"type": "boolean"}}, "required": ["a", "b"]})";
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"-j", schema}, {"--json-schema-file", WriteFile("moonlit_schema.json", schema)}}) {
    std::vector<std::string> words = {"generate", "-p", "床前明月", "--seed", "1", "-n", "200"};
    words.insert(words.end(), flags.begin(), flags.end());
    const Outcome run = RunMoonlit(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const auto json = nlohmann::json::parse(run.out, nullptr, false);
    ASSERT_TRUE(json.is_object()) << run.out;
    EXPECT_TRUE(json["b"].is_boolean());
  }
}

TEST(GrammarFlags, FaultsAreTold) {
  const Outcome bad = RunMoonlit({"generate", "-p", "x", "--grammar", "root ::= \"a"});
  EXPECT_EQ(bad.exit_code, 2);
  EXPECT_THAT(bad.err, HasSubstr("line 1"));
  EXPECT_EQ(RunMoonlit({"generate", "-p", "x", "--grammar", "root ::= \"a\"", "-j", "{}"}).exit_code, 2);
  EXPECT_EQ(RunMoonlit({"generate", "-p", "x", "--grammar-file", "/no/such"}).exit_code, 1);
  const Outcome refused = RunMoonlit({"generate", "-p", "x", "-j", "{\"oneOf\": [{}]}"});
  EXPECT_EQ(refused.exit_code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("#/oneOf"));
}

}  // namespace
}  // namespace moonlit::test
