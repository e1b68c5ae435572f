// SPDX-License-Identifier: Apache-2.0
// The page and the drawing: well-formed, needing no other file, with the weights that they were given, whatever tokens are called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "nlohmann/json.hpp"
#include "runtime/text/utf8.h"
#include "tools/cli/attention_pictures.h"

namespace moonlit::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string> kHostile = {"</script><script>alert(1)</script>",
                                           "\"quoted\" & 'single'",
                                           "<!--",
                                           "]]>",
                                           "\xE5\xBA\x8A",
                                           std::string("a\0b", 3),
                                           "\xE5\xBA",
                                           "\xFF\xFE",
                                           "\xE2\x80\xAE"
                                           "drow",
                                           "\x1b[31m",
                                           " ",
                                           "",
                                           "\n\t\r",
                                           "&lt;",
                                           "<svg onload=x>",
                                           "\xF0\x9F\x8C\x99"};

AttentionMaps Example(size_t heads, size_t tokens, bool causal = true) {
  AttentionMaps maps;
  maps.model = NameLabel("a <b>model</b> & \"name\"");
  maps.variant = "scalar", maps.cache = "f32/f32";
  for (size_t t = 0; t < tokens; ++t) maps.tokens.push_back(TokenLabel(kHostile[t % kHostile.size()]));
  maps.rows = tokens;
  maps.causal = causal;
  for (size_t h = 0; h < heads; ++h) {
    HeadMap map;
    map.layer = static_cast<int>(h / 3), map.head = h % 3;
    map.cells.assign(tokens * tokens, kUnseen);
    for (size_t i = 0; i < tokens; ++i) {
      for (size_t j = 0; j < (causal ? i + 1 : tokens); ++j)
        map.cells[i * tokens + j] = static_cast<float>((i * 7 + j * 3 + h) % 17) / 16;
    }
    maps.maps.push_back(std::move(map));
  }
  return maps;
}

// Elements open and close in order, attributes are quoted, and no text has a bare "<". Of HTML the void elements, the doctype, and
// scripts and styles as raw text. Returns what is wrong, or nothing.
class Markup {
 public:
  Markup(std::string text, bool html) : text_(std::move(text)), html_(html) {}
  std::string Fault() {
    while (at_ < text_.size()) {
      if (text_[at_] != '<') {
        ++at_;
      } else if (!Tag()) {
        return "at byte " + std::to_string(at_) + ": " + text_.substr(at_, 60);
      }
    }
    return open_.empty() ? "" : "left open: " + open_.back();
  }
  std::map<std::string, size_t> elements;  // how many of each

 private:
  bool Tag() {
    const size_t end = End();
    if (end == std::string::npos) return false;
    const std::string tag = text_.substr(at_ + 1, end - at_ - 1);
    if (tag.empty()) return false;
    if (tag[0] == '!' || tag[0] == '?') return at_ = end + 1, tag == "!DOCTYPE html" || tag.back() == '?';
    if (tag[0] == '/') {
      if (open_.empty() || open_.back() != tag.substr(1)) return false;
      open_.pop_back();
      return at_ = end + 1, true;
    }
    const std::string name = tag.substr(0, tag.find_first_of(" /"));
    if (name.find_first_not_of("abcdefghijklmnopqrstuvwxyzG0123456789") != std::string::npos) return false;
    ++elements[name];
    at_ = end + 1;
    if (tag.back() == '/' || (html_ && name == "meta")) return true;
    open_.push_back(name);
    if (html_ && (name == "script" || name == "style")) at_ = text_.find("</" + name, at_);
    return at_ != std::string::npos;
  }
  // Of the tag at at_: the ">" outside of quotes.
  size_t End() const {
    char quote = 0;
    for (size_t i = at_ + 1; i < text_.size(); ++i) {
      const char c = text_[i];
      if (quote != 0) {
        if (c == quote) quote = 0;
      } else if (c == '"') {
        quote = c;
      } else if (c == '<') {
        return std::string::npos;
      } else if (c == '>') {
        return i;
      }
    }
    return std::string::npos;
  }
  std::string text_;
  bool html_;
  size_t at_ = 0;
  std::vector<std::string> open_;
};

std::string Between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t begin = text.find(before);
  EXPECT_NE(begin, std::string::npos) << before;
  if (begin == std::string::npos) return "";
  const size_t from = begin + before.size();
  return text.substr(from, text.find(after, from) - from);
}

std::vector<uint8_t> Decode(const std::string& base64) {
  static const std::string kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<uint8_t> bytes;
  uint32_t held = 0, bits = 0;
  for (char c : base64) {
    if (c == '=') break;
    held = held << 6 | static_cast<uint32_t>(kDigits.find(c));
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes.push_back(static_cast<uint8_t>(held >> bits & 255));
  }
  return bytes;
}

TEST(AttentionPage, IsWellFormedAndNeedsNothingElse) {
  for (const auto& [heads, tokens, causal] :
       {std::tuple{1, 1, true}, std::tuple{7, 20, true}, std::tuple{2, 5, false}}) {
    const std::string page = HtmlPage(Example(static_cast<size_t>(heads), static_cast<size_t>(tokens), causal));
    Markup markup(page, true);
    EXPECT_EQ(markup.Fault(), "");
    EXPECT_EQ(markup.elements["script"], 3u) << "the facts, the weights and the program";
    EXPECT_EQ(markup.elements["b"], 0u);
    EXPECT_EQ(markup.elements["svg"], 0u);
    EXPECT_THAT(page, HasSubstr("default-src 'none'"));
    for (const char* outside :
         {"src=", "<link", "@import", "url(h", "https://", "fetch(", "XMLHttp", "innerHTML", "eval("})
      EXPECT_THAT(page, Not(HasSubstr(outside)));
    // One address, that of a name space, which nothing is loaded from.
    EXPECT_EQ(page.find("http://"), page.rfind("http://"));
    EXPECT_TRUE(Utf8IsValid(page));
  }
}

TEST(AttentionPage, HasTheTokensAndWeights) {
  for (bool causal : {true, false}) {
    const AttentionMaps maps = Example(4, 18, causal);
    const std::string page = HtmlPage(maps);
    const auto facts = nlohmann::json::parse(Between(page, "id=\"facts\">", "</script>"));
    EXPECT_EQ(facts["tokens"].get<std::vector<std::string>>(), maps.tokens);
    EXPECT_EQ(facts["model"], maps.model);
    ASSERT_EQ(facts["maps"].size(), 4u);
    EXPECT_EQ(facts["maps"][3]["layer"], 1);
    const std::vector<uint8_t> bytes = Decode(Between(page, "id=\"weights\">", "</script>"));
    size_t at = 0;
    for (const HeadMap& map : maps.maps) {
      for (size_t i = 0; i < 18; ++i) {
        for (size_t j = 0; j < (causal ? i + 1 : 18); ++j, at += 2) {
          ASSERT_LT(at + 1, bytes.size());
          const unsigned code = bytes[at] | bytes[at + 1] << 8;
          ASSERT_NEAR(code / 65534.0, map.cells[i * 18 + j], 0.5 / 65534 + 1e-7);
        }
      }
    }
    EXPECT_EQ(at, bytes.size());
  }
}

TEST(AttentionPage, CellsThatNobodySeesAreNotZeros) {
  AttentionMaps maps = Example(1, 3);
  maps.maps[0].cells[3] = kUnseen;  // row 1, column 0: outside a window
  const std::vector<uint8_t> bytes = Decode(Between(HtmlPage(maps), "id=\"weights\">", "</script>"));
  ASSERT_EQ(bytes.size(), 12u);
  EXPECT_EQ(bytes[2] | bytes[3] << 8, 65535);
}

// The largest page there is: kMostCells cells, half of them above the diagonal.
TEST(AttentionPage, SizeIsBounded) {
  AttentionMaps maps = Example(0, kMostMapRows);
  HeadMap map;
  map.cells.assign(kMostMapRows * kMostMapRows, 0.5f);
  maps.maps.assign(4, map);
  const double cells = 4.0 * kMostMapRows * kMostMapRows;
  EXPECT_LT(static_cast<double>(HtmlPage(maps).size()), cells / 2 * 2 * 4 / 3 + 100e3);
}

TEST(AttentionDrawing, IsWellFormed) {
  for (const auto& [heads, tokens, causal] :
       {std::tuple{1, 1, true}, std::tuple{1, 20, true}, std::tuple{1, 100, false}, std::tuple{7, 20, true}}) {
    const AttentionMaps maps = Example(static_cast<size_t>(heads), static_cast<size_t>(tokens), causal);
    const std::string drawing = SvgDrawing(maps);
    Markup markup(drawing, false);
    EXPECT_EQ(markup.Fault(), "") << heads << " heads, " << tokens << " tokens";
    EXPECT_EQ(markup.elements["svg"], 1u);
    EXPECT_EQ(markup.elements["script"] + markup.elements["style"] + markup.elements["image"], 0u);
    EXPECT_TRUE(Utf8IsValid(drawing));
    EXPECT_THAT(drawing, HasSubstr("<title>"));
    EXPECT_THAT(drawing, HasSubstr("not seen (masked)"));
    for (char c : drawing) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20);
  }
}

TEST(AttentionDrawing, NumbersAndLabelsOfASmallMap) {
  const std::string drawing = SvgDrawing(Example(1, 5));
  EXPECT_THAT(drawing, HasSubstr(">0.44</text>"));  // (0 * 7 + ...) of row 1, column 0: 7 / 16
  EXPECT_THAT(drawing, HasSubstr("\xE5\xBA\x8A"));
  EXPECT_THAT(drawing, HasSubstr("&lt;/script&gt;"));
}

TEST(AttentionDrawing, ManyMapsAreDrawnCoarser) {
  AttentionMaps maps = Example(0, 256);
  HeadMap map;
  map.cells.assign(256 * 256, 0);
  for (size_t c = 0; c < map.cells.size(); ++c) map.cells[c] = static_cast<float>(c % 97) / 97;
  for (size_t m = 0; m < 40; ++m) {
    map.layer = static_cast<int>(m / 8), map.head = m % 8;
    maps.maps.push_back(map);
  }
  const std::string drawing = SvgDrawing(maps);
  EXPECT_LT(drawing.size(), size_t{12} << 20);
  EXPECT_THAT(drawing, HasSubstr("binned: "));
}

TEST(TokenLabels, ShowWhatCannotBeShown) {
  const std::pair<std::string, const char*> cases[] = {{" the", "\xE2\x90\xA3the"},
                                                       {"\xE2\x96\x81the", "\xE2\x90\xA3the"},
                                                       {"\xE5\xBA\x8A", "\xE5\xBA\x8A"},
                                                       {"\xE5\xBA", "\\xe5\\xba"},
                                                       {"\xFF", "\\xff"},
                                                       {"a\nb",
                                                        "a\xE2\x86\xB5"
                                                        "b"},
                                                       {"\x1b[2J", "U+001B[2J"},
                                                       {"\xE2\x80\xAE", "U+202E"},
                                                       {std::string(1, '\0'), "U+0000"},
                                                       {"\xEF\xBB\xBF", "U+FEFF"},
                                                       {"\xC2\x85", "U+0085"},
                                                       {"", "\xE2\x88\x85"},
                                                       {"<b>", "<b>"}};
  for (const auto& [bytes, label] : cases) EXPECT_EQ(TokenLabel(bytes), label);
  for (const std::string& bytes : kHostile) EXPECT_TRUE(Utf8IsValid(TokenLabel(bytes)));
  EXPECT_EQ(NameLabel("two  words\x7f"), "two  wordsU+007F");
  EXPECT_EQ(EscapeMarkup("<a href=\"x\">'&'</a>"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
}

}  // namespace
}  // namespace moonlit::cli
