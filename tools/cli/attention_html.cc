// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "nlohmann/json.hpp"
#include "tools/cli/attention_pictures.h"

namespace moonlit::cli {
namespace {

constexpr char kStyle[] =
#include "tools/cli/attention_page_style.inc"
    ;
constexpr char kBody[] =
#include "tools/cli/attention_page_body.inc"
    ;
constexpr char kScript[] =
#include "tools/cli/attention_page_script.inc"
    ;

// The page says itself that it loads nothing.
constexpr char kHead[] =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; img-src data:\">\n";

constexpr uint16_t kUnseenCode = 65535;
constexpr float kOneCode = 65534;

uint16_t CodeOf(float cell) {
  if (cell == kUnseen) return kUnseenCode;
  return static_cast<uint16_t>(std::lround(std::clamp(cell, 0.0f, 1.0f) * kOneCode));
}

class Base64 {
 public:
  explicit Base64(std::string& out) : out_(out) {}
  void Add(uint8_t byte) {
    held_ = held_ << 8 | byte;
    if (++count_ == 3) Flush();
  }
  void Finish() {
    const size_t missing = count_ == 0 ? 0 : 3 - count_;
    if (missing == 0) return;
    held_ <<= 8 * missing;
    Flush();
    for (size_t i = 0; i < missing; ++i) out_[out_.size() - 1 - i] = '=';
  }

 private:
  void Flush() {
    static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int shift = 18; shift >= 0; shift -= 6) out_ += kDigits[held_ >> shift & 63];
    held_ = 0, count_ = 0;
  }
  std::string& out_;
  uint32_t held_ = 0;
  size_t count_ = 0;
};

// Little-endian, map by map, row by row; rows of causal maps end at the diagonal.
void AppendWeights(const AttentionMaps& maps, std::string& out) {
  Base64 base64(out);
  for (const HeadMap& map : maps.maps) {
    for (size_t i = 0; i < maps.rows; ++i) {
      for (size_t j = 0; j < (maps.causal ? i + 1 : maps.rows); ++j) {
        const uint16_t code = CodeOf(map.cells[i * maps.rows + j]);
        base64.Add(static_cast<uint8_t>(code & 255));
        base64.Add(static_cast<uint8_t>(code >> 8));
      }
    }
  }
  base64.Finish();
}

double Rounded(double x) { return std::round(x * 1e4) / 1e4; }

// ASCII alone, and no "<", so that nothing in it ends the element it stands in.
std::string FactsText(const AttentionMaps& maps) {
  nlohmann::json facts = {{"model", maps.model},   {"variant", maps.variant}, {"cache", maps.cache},
                          {"tokens", maps.tokens}, {"bin", maps.bin},         {"rows", maps.rows},
                          {"causal", maps.causal}};
  facts["maps"] = nlohmann::json::array();
  for (const HeadMap& map : maps.maps) {
    facts["maps"].push_back({{"layer", map.layer}, {"head", map.head}, {"entropy", Rounded(map.entropy)}});
    if (map.has_sink) facts["maps"].back()["sink"] = Rounded(1 - map.least_sum);
  }
  std::string text;
  for (char c : facts.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string HtmlPage(const AttentionMaps& maps) {
  std::string page = kHead;
  page += "<title>Attention weights: " + EscapeMarkup(maps.model) + "</title>\n<style>" + kStyle;
  page += "</style>\n</head>\n<body>";
  page += kBody;
  page += "<script type=\"application/json\" id=\"facts\">" + FactsText(maps) + "</script>\n";
  page += "<script type=\"text/plain\" id=\"weights\">";
  AppendWeights(maps, page);
  page += "</script>\n<script>";
  page += kScript;
  page += "</script>\n</body>\n</html>\n";
  return page;
}

}  // namespace moonlit::cli
