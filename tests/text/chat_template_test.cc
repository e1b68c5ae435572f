// SPDX-License-Identifier: Apache-2.0
// What templates print is Jinja's (tests/data/recipes/make_chat_golden.py); what becomes of it as ids; and templates that mean ill.
#include "runtime/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <pthread.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "runtime/text/byte_alphabet.h"
#include "runtime/text/jinja_machine.h"
#include "runtime/text/jinja_parser.h"
#include "tests/support/slowed.h"
#include "tests/support/temp_folder.h"

namespace moonlit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

const std::vector<std::string> kControl = {"<s>",      "</s>",    "<|im_start|>", "<|im_end|>",
                                           "<|user|>", "<|end|>", "[INST]"};

constexpr int32_t kFirstControl = 257;

// Every byte a token and "ab", then the control tokens; <s> begins a text, </s> ends it.
TokenizerData Bytes() {
  TokenizerData data;
  data.model = "gpt2";
  data.pre = "gpt-2";
  for (int byte = 0; byte < 256; ++byte)
    data.tokens.push_back(BytesToAlphabet(std::string(1, static_cast<char>(byte))));
  data.tokens.push_back("ab");
  data.merges = {"a b"};
  data.token_types.assign(data.tokens.size(), 1);
  for (const std::string& name : kControl) data.tokens.push_back(name);
  data.token_types.resize(data.tokens.size(), 3);
  data.bos_id = kFirstControl;
  data.eos_id = kFirstControl + 1;
  return data;
}

std::unique_ptr<const Tokenizer> Make(TokenizerData data) {
  auto made = Tokenizer::Create(std::move(data));
  EXPECT_TRUE(made.ok()) << made.status().ToString();
  return std::move(made).value();
}

Result<RenderedChat> Render(const std::string& source, const ChatInput& input) {
  static const std::unique_ptr<const Tokenizer> tokenizer = Make(Bytes());
  MOONLIT_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::Create(source));
  return chat.Render(input, *tokenizer);
}

Result<std::string> Text(const std::string& source, const std::string& variables = "{}") {
  ChatInput input;
  input.variables_json = variables;
  MOONLIT_ASSIGN_OR_RETURN(const RenderedChat chat, Render(source, input));
  return chat.text;
}

// Equal to the golden's text, or refused where Jinja raised.
void ExpectAsGolden(const Result<std::string>& found, const Json& golden, const std::string& what) {
  if (golden.contains("fault")) {
    EXPECT_FALSE(found.ok()) << what << "\nJinja: " << golden["fault"] << "\nfound: " << (found.ok() ? *found : "");
  } else if (!found.ok()) {
    ADD_FAILURE() << what << "\n" << found.status().ToString();
  } else {
    EXPECT_EQ(*found, golden["text"].get<std::string>()) << what;
  }
}

class ChatGolden : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TZ", "UTC", 1);
    tzset();
    golden_ = Json::parse(ReadWholeFile(std::string(MOONLIT_SOURCE_DIR) + "/tests/data/chat_golden.json"));
  }
  Json golden_;
};

TEST_F(ChatGolden, ChatsAreAsJinjaPrintsThem) {
  size_t cases = 0;
  for (const Json& chat : golden_["chats"]) {
    for (size_t i = 0; i < golden_["conversations"].size(); ++i) {
      const Json& conversation = golden_["conversations"][i];
      const std::string messages = conversation["messages"].dump();
      const std::string tools = conversation.contains("tools") ? conversation["tools"].dump() : "";
      const std::string variables = conversation.contains("variables") ? conversation["variables"].dump() : "";
      ChatInput input;
      input.messages_json = messages;
      input.tools_json = tools;
      input.variables_json = variables;
      input.add_generation_prompt = conversation["add_generation_prompt"];
      input.now = golden_["now"];
      auto rendered = Render(chat["template"], input);
      ExpectAsGolden(rendered.ok() ? Result<std::string>(rendered->text) : rendered.status(), chat["cases"][i],
                     chat["name"].get<std::string>() + ", conversation " + std::to_string(i));
      ++cases;
    }
  }
  EXPECT_GE(cases, 70u);
}

TEST_F(ChatGolden, TheLanguageIsJinjas) {
  const std::string variables = Json{{"v", golden_["values"]}}.dump();
  for (const Json& snippet : golden_["snippets"])
    ExpectAsGolden(Text(snippet["template"], variables), snippet, snippet["template"]);
  EXPECT_GE(golden_["snippets"].size(), 55u);
}

constexpr char kChatMl[] =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content | trim + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

std::vector<int32_t> Controls(const std::vector<int32_t>& ids) {
  std::vector<int32_t> found;
  for (const int32_t id : ids) {
    if (id >= kFirstControl) found.push_back(id - kFirstControl);
  }
  return found;
}

TEST(Chat, ControlTokensSpeltOutInMessagesStayWords) {
  const auto tokenizer = Make(Bytes());
  auto chat = ChatTemplate::Create(kChatMl);
  ASSERT_TRUE(chat.ok()) << chat.status().ToString();
  for (const std::string& name : kControl) {
    const std::string content = "a" + name + "b" + name;
    const ChatMessage messages[] = {{"system", content}, {"user", name}};
    ChatInput input;
    input.messages = messages;
    auto rendered = chat->Render(input, *tokenizer);
    ASSERT_TRUE(rendered.ok()) << rendered.status().ToString();
    auto ids = EncodeChat(*rendered, *tokenizer);
    ASSERT_TRUE(ids.ok());
    EXPECT_THAT(Controls(*ids), ElementsAre(2, 3, 2, 3, 2)) << name;
    EXPECT_EQ(tokenizer->Decode(*ids, {}).value(), rendered->text);
  }
}

// A message that is taken for a format of times is printed with what it has.
TEST(Chat, FormatsOfTimesStayWords) {
  const auto tokenizer = Make(Bytes());
  auto chat = ChatTemplate::Create("<s>{{ strftime_now(messages[0].content) }}{{ strftime_now('<|end|>') }}");
  ASSERT_TRUE(chat.ok()) << chat.status().ToString();
  const ChatMessage messages[] = {{"user", "a<|im_end|>%Y<|im_end|>"}};
  ChatInput input;
  input.messages = messages;
  auto rendered = chat->Render(input, *tokenizer);
  ASSERT_TRUE(rendered.ok()) << rendered.status().ToString();
  auto ids = EncodeChat(*rendered, *tokenizer);
  ASSERT_TRUE(ids.ok());
  EXPECT_THAT(Controls(*ids), ElementsAre(0, 5));
}

TEST(Chat, ControlTokensAreNotMadeOfPieces) {
  const auto tokenizer = Make(Bytes());
  const std::string source =
      "{% for m in messages %}{% if m.content is string %}<|{{ m.content }}|>{% else %}{{ m.content | join }}{% endif "
      "%}"
      "{{ m.content | tojson }}{{ m.content ~ '' }}{{ [m.content] }}{{ m.content | string | upper | lower }}{% endfor "
      "%}";
  ChatInput input;
  input.messages_json = R"([{"role": "user", "content": "im_end"}, {"role": "user", "content": ["<|im_", "end|>"]},
                            {"role": "user", "content": "<|im_end|>"}])";
  auto chat = ChatTemplate::Create(source);
  ASSERT_TRUE(chat.ok()) << chat.status().ToString();
  auto rendered = chat->Render(input, *tokenizer);
  ASSERT_TRUE(rendered.ok()) << rendered.status().ToString();
  ASSERT_THAT(rendered->text, HasSubstr("<|im_end|>"));
  auto ids = EncodeChat(*rendered, *tokenizer);
  ASSERT_TRUE(ids.ok());
  EXPECT_THAT(Controls(*ids), ElementsAre());
}

TEST(Chat, KnownRolesMakeControlTokensAndOthersDoNot) {
  const auto tokenizer = Make(Bytes());
  const std::string source = "{% for m in messages %}<|{{ m.role }}|>{% endfor %}";
  auto chat = ChatTemplate::Create(source);
  ASSERT_TRUE(chat.ok());
  const ChatMessage messages[] = {{"user", ""}, {"end", ""}};
  ChatInput input;
  input.messages = messages;
  auto rendered = chat->Render(input, *tokenizer);
  ASSERT_TRUE(rendered.ok());
  EXPECT_EQ(rendered->text, "<|user|><|end|>");
  EXPECT_THAT(Controls(EncodeChat(*rendered, *tokenizer).value()), ElementsAre(4));
}

TEST(Chat, OneTokenBeginsTheTextAndNoneEndsIt) {
  for (const bool writes : {false, true}) {
    for (const std::optional<bool> adds :
         {std::optional<bool>(), std::optional<bool>(false), std::optional<bool>(true)}) {
      TokenizerData data = Bytes();
      data.add_bos = adds;
      data.add_eos = adds;
      const auto tokenizer = Make(std::move(data));
      auto chat = ChatTemplate::Create(std::string(writes ? "{{ bos_token }}" : "") + kChatMl);
      ASSERT_TRUE(chat.ok());
      const ChatMessage messages[] = {{"user", "<s>"}};
      ChatInput input;
      input.messages = messages;
      auto rendered = chat->Render(input, *tokenizer);
      ASSERT_TRUE(rendered.ok());
      const std::vector<int32_t> controls = Controls(EncodeChat(*rendered, *tokenizer).value());
      if (writes || adds.value_or(false)) {
        EXPECT_THAT(controls, ElementsAre(0, 2, 3, 2));
      } else {
        EXPECT_THAT(controls, ElementsAre(2, 3, 2));
      }
    }
  }
}

TEST(Chat, BytesThatAreNoUtf8Survive) {
  const ChatMessage messages[] = {{"user", std::string_view("a\xFF\0b", 4)}};
  ChatInput input;
  input.messages = messages;
  auto rendered = Render(kChatMl, input);
  ASSERT_TRUE(rendered.ok());
  EXPECT_THAT(rendered->text, HasSubstr(std::string("a\xFF\0b", 4)));
}

void ExpectFault(const std::string& source, Code code, const std::string& message) {
  auto found = Text(source);
  EXPECT_EQ(found.status().code(), code) << found.status().ToString();
  EXPECT_THAT(std::string(found.status().message()), HasSubstr(message)) << source.substr(0, 100);
}

TEST(Chat, FaultsNameTheLine) {
  ExpectFault("a\n{{ 1 +\n }}", Code::kCorrupt, "line 3: expected a value, found }}");
  ExpectFault("\n\n{% if x %}", Code::kCorrupt, "line 3: expected endif");
  ExpectFault("{{ 'a", Code::kCorrupt, "line 1: a string does not end");
  ExpectFault("{% extends 'x' %}", Code::kUnsupported, "line 1: the statement \"extends\"");
  ExpectFault("x\n{{ 1 | nosuch }}", Code::kUnsupported, "line 2: the filter \"nosuch\"");
  ExpectFault("\n{{ raise_exception('Roles must alternate') }}", Code::kInvalidArgument,
              "line 2: the template says: Roles must alternate");
  ExpectFault("{% break %}", Code::kCorrupt, "break outside a loop");
  ExpectFault("{{ 1) }}", Code::kCorrupt, "a bracket is closed");
  ExpectFault("{# x", Code::kCorrupt, "a comment does not end");
}

TEST(Chat, BadJsonIsRefused) {
  ChatInput input;
  input.messages_json = "{}";
  EXPECT_EQ(Render("x", input).status().code(), Code::kInvalidArgument);
  input.messages_json = "[1";
  EXPECT_EQ(Render("x", input).status().code(), Code::kInvalidArgument);
  const std::string deep = std::string(1000, '[') + std::string(1000, ']');
  input.messages_json = deep;
  EXPECT_EQ(Render("x", input).status().code(), Code::kInvalidArgument);
}

std::string Repeated(const std::string& text, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

TEST(HostileTemplates, DoNotNestWithoutEnd) {
  ExpectFault("{{ " + Repeated("(", 100000) + "1" + Repeated(")", 100000) + " }}", Code::kExhausted, "nested");
  ExpectFault("{{ " + Repeated("[", 100000) + Repeated("]", 100000) + " }}", Code::kExhausted, "nested");
  ExpectFault("{{ " + Repeated("not ", 100000) + "1 }}", Code::kExhausted, "nested");
  ExpectFault("{{ " + Repeated("-", 100000) + "1 }}", Code::kExhausted, "nested");
  ExpectFault("{{ 1" + Repeated("+1", 100000) + " }}", Code::kExhausted, "nested");
  ExpectFault("{{ x" + Repeated(".a", 100000) + " }}", Code::kExhausted, "nested");
  ExpectFault("{{ x" + Repeated("|e", 100000) + " }}", Code::kExhausted, "nested");
  ExpectFault(Repeated("{% if 1 %}", 50000), Code::kExhausted, "nested");
  ExpectFault("{{ 1" + Repeated(" if 1 else 1", 50000) + " }}", Code::kExhausted, "nested");
  ExpectFault(std::string(2 << 20, 'a'), Code::kExhausted, "at most");
}

TEST(HostileTemplates, StopWhenTheyTakeTooMuch) {
  const std::string big = "{% set x = 'abcdefgh' * 100000 %}";
  for (const char* source : {
           "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
           "{% for a in range(1000000000000) %}{% endfor %}",
           "{{ 'x' * 9000000000000000000 }}",
           "{{ [1] * 9000000000000000000 }}",
           "{% set ns = namespace(x='xxxxxxxx') %}{% for a in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
           "{% set ns = namespace(x=[1]) %}{% for a in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
           "{% set ns = namespace(x=[1]) %}{% for a in range(5000) %}{% set ns.x = [ns.x] %}{% endfor %}",
           "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
           "{% macro f(n) %}{{ g(n) }}{% endmacro %}{% macro g(n) %}{{ [f(n)] | map('upper') | join }}{% endmacro %}{{ "
           "f(1) }}",
           "{% for a in range(1000) %}{{ ('a' * 100000) in ('a' * 1000000) }}{% endfor %}",
           "{% for a in range(100000) %}{{ ('a' * 100000) | replace('a', 'aaaaaaaa') }}{% endfor %}",
       }) {
    auto found = Text(source);
    ASSERT_FALSE(found.ok()) << source;
    EXPECT_EQ(found.status().code(), Code::kExhausted) << source << "\n" << found.status().ToString();
  }
}

// Texts a, b and c of a megabyte, a dict d of 5000 keys, a list l of twenty of it, a namespace ns and, if wanted, variables v0 to v4999.
Code RunWithFewSteps(const std::string& source, bool many_variables, uint64_t steps = 5000) {
  const std::string megabyte(1 << 20, 'x');
  const auto text = [](const std::string& bytes) { return jinja::Value::OfText(jinja::Text(bytes, true)); };
  jinja::Machine machine({.steps = steps}, 0);
  jinja::Namespace* space = machine.NewNamespace();
  std::vector<std::pair<jinja::Value, jinja::Value>> entries;
  jinja::Variables variables;
  for (int i = 0; i < 5000; ++i) {
    const std::string name = "v" + std::to_string(i);
    space->variables.emplace_back(name, int64_t{1});
    entries.emplace_back(text(name), int64_t{1});
    if (many_variables) variables.emplace_back(name, int64_t{1});
  }
  const jinja::Value dict = jinja::Value::OfDict(std::move(entries));
  variables.emplace_back("ns", space);
  variables.emplace_back("d", dict);
  variables.emplace_back(
      "e", jinja::Value::OfDict({{text(megabyte + "1"), int64_t{1}}, {text(megabyte + "2"), int64_t{1}}}));
  variables.emplace_back("l", jinja::Value::OfList(std::vector<jinja::Value>(20, dict)));
  variables.emplace_back("a", text(megabyte));
  variables.emplace_back("b", text(megabyte));
  variables.emplace_back("c", text(megabyte + "y"));
  try {
    machine.Run(*jinja::Parse(source), std::move(variables));
  } catch (const jinja::Fault& fault) {
    return fault.code;
  }
  return Code::kOk;
}

// Each has few nodes and walks through much.
TEST(HostileTemplates, PayForWhatTheyWalkThrough) {
  std::string keys, parameters;
  for (int i = 0; i < 1000; ++i) keys += "'" + std::to_string(i) + "': 1,";
  for (int i = 0; i < 500; ++i) parameters += (i > 0 ? ", v" : "v") + std::to_string(i) + "=1";
  std::vector<std::string> sources = {
      Repeated("{% if ns.v4999 %}{% endif %}", 30),
      Repeated("{% set ns.v4999 = 1 %}", 30),
      Repeated("{{ d.k }}", 30),
      Repeated("{{ d['k'] }}", 30),
      Repeated("{{ 'k' in d }}", 30),
      Repeated("{{ d.get('k') }}", 30),
      "{% set x = {" + keys + "} %}",
      "{% set x = namespace(" + parameters + ") %}",
      "{% macro m(" + parameters + ") %}{% endmacro %}{{ m(" + parameters + ") }}",
      "{{ l | map(attribute='k') | first }}",
      "{{ l | selectattr('k') | first }}",
      "{{ l | sort(attribute='k') | first }}",
      "{{ d == d }}",
      "{{ [d] == [d] }}",
      "{{ d in [d] }}",
      "{{ a in [b] }}",
      "{{ 'x'.strip(a) }}",
      "{{ 'x' | trim(a) }}",
      "{{ a | int }}",
      "{{ a | float }}",
      "{{ a.count('') }}",
      "{{ a.removeprefix(c) }}",
      "{{ a.removesuffix(b ~ 'y') }}",
      "{{ a[0:1] }}",
      "{{ [a, b] | sort | first | first }}",
      "{{ [a, b] | sort(case_sensitive=true) | first | first }}",
      "{{ [a, b] | max | first }}",
      "{{ [a, b] | unique | first | first }}",
      "{{ e | dictsort | length }}",
      "{{ a is lower }}",
      "{{ a is upper }}",
  };
  for (const char* test : {"eq", "ne", "lt", "gt", "le", "ge", "equalto", "sameas", "lessthan", "greaterthan"}) {
    sources.push_back("{{ a is " + std::string(test) + "(b) }}");
    sources.push_back("{{ [a] | select('" + std::string(test) + "', b) | length }}");
  }
  for (const std::string& source : sources)
    EXPECT_EQ(RunWithFewSteps(source, false), Code::kExhausted) << source.substr(0, 100);
  // By characters, each of which is decoded: so many steps are enough for going through the megabyte's bytes several times.
  for (const char* source : {
           "{{ a is upper }}",
           "{{ a | length }}",
           "{{ a[0] }}",
           "{{ a[-1] }}",
           "{{ a.upper() is none }}",
           "{{ a | title is none }}",
           "{{ a | escape is none }}",
           "{{ a.strip() is none }}",
           "{{ a | trim is none }}",
           "{{ a.find('y') }}",
       })
    EXPECT_EQ(RunWithFewSteps(source, false, 100'000), Code::kExhausted) << source;
  for (const char* source : {"{{ v4999 }}", "{{ undefined }}", "{% set v4999 = 1 %}"})
    EXPECT_EQ(RunWithFewSteps(Repeated(source, 30), true), Code::kExhausted) << source;
  EXPECT_EQ(RunWithFewSteps("{{ d.v1 }}{{ d == l }}{{ a == 'x' }}{{ 'x' in ['y', b] }}{{ l | length }}{{ [c] < [1] }}",
                            false),
            Code::kInvalidArgument);
}

TEST(HostileTemplates, CompareNestedListsInOneWalk) {
  const std::string nested =
      "{% set n = namespace(x=[1], y=[1]) %}{% for i in range(90) %}{% set n.x = [n.x] %}{% set n.y = [n.y] %}"
      "{% endfor %}";
  EXPECT_EQ(Text(nested + "{{ n.x < n.y }}{{ n.x <= n.y }}{{ [n.x, 1] < [n.y, 2] }}{{ [n.x] < [n.y, 2] }}").value(),
            "FalseTrueTrueTrue");
  EXPECT_EQ(Text("{{ [none, 1] < [none, 2] }}{{ [[1, 2]] < [[1]] }}{{ [1, 2.5] > [1, 2] }}").value(), "TrueFalseTrue");
  ExpectFault("{{ [none] < [1] }}", Code::kInvalidArgument, "can't be compared");
}

TEST(HostileTemplates, GetNothingOutOfBounds) {
  for (const char* source : {
           "{{ 'abc'[-100:100:2] }}{{ 'abc'[100:-100:-2] }}{{ 'abc'[-9223372036854775807:] }}",
           "{{ [1,2][::9223372036854775807] }}{{ [1,2][::-9223372036854775807] }}{{ 'é'[0:1] }}{{ 'é'[5] }}",
           "{{ range(5, 5) | first }}{{ [] | last }}{{ '' | first }}{{ ''[0] }}{{ [][0] }}{{ [][-1] }}",
           "{{ ''.split('x') }}{{ ''.splitlines() }}{{ ''.title() }}{{ '' | indent }}{{ ''.rsplit('x') }}",
           "{% set ns = namespace() %}{% for a in [1] %}{% macro m() %}{{ a }}{% endmacro %}{% set ns.m = m %}{% "
           "endfor %}{{ ns.m() }}",
           "{% set ns = namespace(c=0) %}{% for a in [1,2] %}{% set ns.c = loop.cycle %}{% endfor %}{{ ns.c }}",
           "{% set ns = namespace() %}{% set ns.n = ns %}{{ ns }}{{ [ns] }}{{ ns == ns.n }}",
       }) {
    EXPECT_TRUE(Text(source).ok()) << source << Text(source).status().ToString();
  }
  ExpectFault("{{ range(1, 2, 3, 4) }}", Code::kInvalidArgument, "at most 3 arguments");
  ExpectFault("{{ 1 % 0 }}", Code::kInvalidArgument, "division by 0");
  ExpectFault("{{ (-9223372036854775807 - 1) // -1 }}", Code::kInvalidArgument, "too large");
  ExpectFault("{{ 9223372036854775807 + 1 }}", Code::kInvalidArgument, "too large");
  ExpectFault("{{ 10 ** 30 }}", Code::kInvalidArgument, "too large");
  ExpectFault("{{ 99999999999999999999 }}", Code::kCorrupt, "out of range");
  ExpectFault("{% for a in [1] %}{% set x = [loop] %}{% endfor %}", Code::kUnsupported, "loop is used");
  ExpectFault("{{ strftime_now('%Y' * 1000) }}", Code::kInvalidArgument, "too long");
}

// A thread of an application may have little room.
// Parsing and running take what docs/embedding.md says of a thread's stack, however a template nests; sanitizers make frames larger.
TEST(HostileTemplates, NestAsFarAsAllowedInASmallStack) {
  const std::string calls = "{% macro f(n) %}{% if n > 0 %}{{ " + Repeated("(1 + ", 20) + "f(n - 1) | length" +
                            Repeated(")", 20) + " }}{% endif %}{% endmacro %}{{ f(1000) }}";
  const std::string sources[] = {
      calls,
      "{{ " + Repeated("(", 115) + "1" + Repeated(")", 115) + " }}{{ x.y }}",
      "{{ " + Repeated("[", 115) + "1" + Repeated("]", 115) + " }}{{ x.y }}",
      "{{ " + Repeated("{'a':", 115) + "1" + Repeated("}", 115) + " }}{{ x.y }}",
      "{{ " + Repeated("range(", 50) + "1" + Repeated(")", 50) + " }}",
      "{{ " + Repeated("1 | default(", 50) + "1" + Repeated(")", 50) + " }}{{ x.y }}",
      "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
      Repeated("{% if 1 %}", 55) + "{{ x.y }}" + Repeated("{% endif %}", 55),
  };
  for (const std::string& source : sources) {
    SCOPED_TRACE(source.substr(0, 60));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (kSlowed ? 512 : 192) << 10);
    pthread_t thread;
    Code code = Code::kOk;
    std::pair<const std::string*, Code*> work{&source, &code};
    const auto run = [](void* argument) -> void* {
      const auto& [text, found] = *static_cast<std::pair<const std::string*, Code*>*>(argument);
      *found = Text(*text).status().code();
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
    pthread_join(thread, nullptr);
    pthread_attr_destroy(&attributes);
    EXPECT_NE(code, Code::kOk) << "each ends in a fault";
  }
}

// Cut and changed at every place, a template gives a text or a fault, and nothing else (with sanitizers this is a fuzz test).
TEST(HostileTemplates, EveryCutAndChangeIsATextOrAFault) {
  const Json golden = Json::parse(ReadWholeFile(std::string(MOONLIT_SOURCE_DIR) + "/tests/data/chat_golden.json"));
  const std::string source = golden["chats"][3]["template"];
  const std::string messages = golden["conversations"][3]["messages"].dump(),
                    tools = golden["conversations"][3]["tools"].dump();
  ChatInput input;
  input.messages_json = messages;
  input.tools_json = tools;
  size_t texts = 0, faults = 0;
  for (size_t i = 0; i < source.size(); i += kSlowed ? 17 : 3) {
    for (const std::string& changed :
         {source.substr(0, i), source.substr(0, i) + "}" + source.substr(i + 1),
          source.substr(0, i) + source.substr(i + 1), source.substr(0, i) + "[" + source.substr(i)}) {
      ++(Render(changed, input).ok() ? texts : faults);
    }
  }
  EXPECT_GT(texts, 50u);
  EXPECT_GT(faults, 50u);
}

}  // namespace
}  // namespace moonlit
