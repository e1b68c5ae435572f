// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "kernels/base/round.h"
#include "runtime/text/utf8.h"
#include "tools/cli/attention_pictures.h"

namespace moonlit::cli {
namespace {

constexpr size_t kLevels = 64;
constexpr size_t kMostDrawn = 400000;  // cells of all maps of a drawing
constexpr char kUnseenColour[] = "#e4e0da";
constexpr char kFont[] = "system-ui, 'PingFang SC', 'Microsoft YaHei', 'Noto Sans CJK SC', 'Noto Sans SC', sans-serif";

struct Colour {
  double red, green, blue;
};
// The light ones of attention_page_script.inc.
constexpr std::array<Colour, 5> kStops = {
    {{252, 253, 255}, {198, 219, 239}, {107, 174, 214}, {33, 113, 181}, {8, 40, 95}}};

// x from 0 to 1, along the stops.
std::string ColourText(double x) {
  const double at = std::clamp(x, 0.0, 1.0) * (kStops.size() - 1);
  const size_t k = std::min(kStops.size() - 2, static_cast<size_t>(at));
  const double part = at - static_cast<double>(k);
  const auto mix = [&](double a, double b) { return static_cast<unsigned>(std::lround(a + (b - a) * part)); };
  char text[8];
  std::snprintf(text, sizeof text, "#%02x%02x%02x", mix(kStops[k].red, kStops[k + 1].red) & 255,
                mix(kStops[k].green, kStops[k + 1].green) & 255, mix(kStops[k].blue, kStops[k + 1].blue) & 255);
  return text;
}

// The square root lets small weights show.
size_t LevelOf(float weight) {
  const double root = std::sqrt(std::clamp(static_cast<double>(weight), 0.0, 1.0));
  return static_cast<size_t>(std::lround(root * (kLevels - 1)));
}

std::string Number(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", x);
  std::string number = text;
  while (number.back() == '0') number.pop_back();
  if (number.back() == '.') number.pop_back();
  return number;
}

std::string Text(double x, double y, double size, const char* anchor, const std::string& words, const char* more = "") {
  return "<text x=\"" + Number(x) + "\" y=\"" + Number(y) + "\" font-size=\"" + Number(size) + "\" text-anchor=\"" +
         anchor + "\"" + more + ">" + EscapeMarkup(words) + "</text>\n";
}

// Letters of most fonts are a little over half as wide as high, those of Chinese as wide.
double WidthOf(std::string_view text) {
  double width = 0;
  while (!text.empty()) {
    const size_t length = std::max<size_t>(1, Utf8CharLength(text));
    width += length >= 3 ? 1.0 : 0.6;
    text.remove_prefix(std::min(length, text.size()));
  }
  return width;
}

std::string Shortened(const std::string& text, size_t most) {
  size_t at = 0, count = 0;
  while (at < text.size() && count < most)
    at += std::max<size_t>(1, Utf8CharLength(std::string_view(text).substr(at))), ++count;
  return at < text.size() ? text.substr(0, at) + "\xE2\x80\xA6" : text;
}

// Every colour one path of runs of cells, in units of cells.
std::string Cells(const std::vector<float>& cells, size_t rows) {
  std::array<std::string, kLevels> paths;
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0, end; j < rows; j = end) {
      end = j + 1;
      if (cells[i * rows + j] == kUnseen) continue;
      const size_t level = LevelOf(cells[i * rows + j]);
      while (end < rows && cells[i * rows + end] != kUnseen && LevelOf(cells[i * rows + end]) == level) ++end;
      const std::string length = std::to_string(end - j);
      paths[level] += "M" + std::to_string(j) + " " + std::to_string(i) + "h" + length + "v1h-" + length + "z";
    }
  }
  std::string out;
  for (size_t level = 0; level < kLevels; ++level) {
    if (paths[level].empty()) continue;
    out +=
        "<path fill=\"" + ColourText(static_cast<double>(level) / (kLevels - 1)) + "\" d=\"" + paths[level] + "\"/>\n";
  }
  return out;
}

// One map in a square at (x, y).
std::string Square(const std::vector<float>& cells, size_t rows, double x, double y, double size) {
  const std::string side = Number(size);
  const std::string box =
      "x=\"" + Number(x) + "\" y=\"" + Number(y) + "\" width=\"" + side + "\" height=\"" + side + "\"";
  char scale[32];
  std::snprintf(scale, sizeof scale, "%.6f", size / static_cast<double>(rows));
  return "<rect " + box + " fill=\"" + kUnseenColour +
         "\"/>\n<g shape-rendering=\"crispEdges\" transform=\"translate(" + Number(x) + " " + Number(y) + ") scale(" +
         scale + ")\">\n" + Cells(cells, rows) + "</g>\n<rect " + box +
         " fill=\"none\" stroke=\"#5a6470\" stroke-width=\"0.75\"/>\n";
}

std::string Scale(double x, double y, double width) {
  std::string out = "<defs><linearGradient id=\"scale\">";
  for (size_t i = 0; i < kStops.size(); ++i) {
    const double at = static_cast<double>(i) / (kStops.size() - 1);
    out += "<stop offset=\"" + Number(at) + "\" stop-color=\"" + ColourText(at) + "\"/>";
  }
  out += "</linearGradient></defs>\n<rect x=\"" + Number(x) + "\" y=\"" + Number(y) + "\" width=\"" + Number(width) +
         "\" height=\"12\" fill=\"url(#scale)\" stroke=\"#5a6470\" stroke-width=\"0.5\"/>\n";
  for (double weight : {0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0}) {
    out += Text(x + width * std::sqrt(weight), y + 25, 10, "middle", Number(weight));
  }
  out += "<rect x=\"" + Number(x + width + 24) + "\" y=\"" + Number(y) + "\" width=\"18\" height=\"12\" fill=\"" +
         kUnseenColour + "\" stroke=\"#5a6470\" stroke-width=\"0.5\"/>\n";
  return out + Text(x + width + 48, y + 10, 10, "start", "not seen (masked)");
}

std::string Document(double width, double height, const std::string& title, const std::string& body) {
  const std::string size = Number(std::ceil(width)) + "\" height=\"" + Number(std::ceil(height));
  return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" "
         "width=\"" +
         size + "\" viewBox=\"0 0 " + Number(std::ceil(width)) + " " + Number(std::ceil(height)) +
         "\" role=\"img\" fill=\"#1b1f24\" font-family=\"" + kFont + "\">\n<title>" + EscapeMarkup(title) +
         "</title>\n<desc>Colours in 64 steps of the weight's square root. Rows are queries, columns are keys.</desc>\n"
         "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n" +
         body + "</svg>\n";
}

std::string Subtitle(const AttentionMaps& maps, size_t bin) {
  std::string text = maps.model + ", " + std::to_string(maps.tokens.size()) + " tokens";
  if (bin > 1) text += "; binned: " + std::to_string(bin) + " tokens a row and column, mean over queries";
  return text;
}

// Weights in the cells, where they have room.
std::string CellNumbers(const HeadMap& map, size_t rows, double left, double top, double cell) {
  std::string out;
  for (size_t i = 0; i < rows; ++i) {
    for (size_t j = 0; j < rows; ++j) {
      const float weight = map.cells[i * rows + j];
      if (weight == kUnseen) continue;
      char text[16];
      std::snprintf(text, sizeof text, "%.2f", static_cast<double>(weight));
      out += Text(left + (static_cast<double>(j) + 0.5) * cell, top + (static_cast<double>(i) + 0.63) * cell,
                  cell * 0.34, "middle", text, weight > 0.3f ? " fill=\"#ffffff\"" : "");
    }
  }
  return out;
}

std::string SingleMap(const AttentionMaps& maps) {
  const HeadMap& map = maps.maps[0];
  const size_t rows = maps.rows, most = 16;
  const double cell = std::clamp(640.0 / static_cast<double>(rows), 1.25, 36.0),
               size = cell * static_cast<double>(rows);
  const double font = std::clamp(cell * 0.6, 9.0, 14.0);
  const auto every = static_cast<size_t>(std::ceil(font * 1.1 / cell));
  const auto label = [&](size_t row) {
    return maps.bin == 1 ? Shortened(maps.tokens[row], most) : std::to_string(maps.FirstToken(row));
  };
  const auto width = [&](size_t row) { return WidthOf(label(row)) * font; };
  // Labels of columns stand upright where they have room.
  double widest = font, highest = font;
  for (size_t i = 0; i < rows; ++i) {
    widest = std::max(widest, width(i));
    if (width(i) > cell) highest = std::max(highest, width(i));
  }
  const double left = widest + 34, top = highest + 76;
  std::string body = Text(14, 24, 16, "start",
                          "Attention of layer " + std::to_string(map.layer) + ", head " + std::to_string(map.head)) +
                     Text(14, 42, 11, "start", Subtitle(maps, maps.bin)) + Square(map.cells, rows, left, top, size);
  for (size_t i = 0; i < rows; i += every) {
    const double middle = (static_cast<double>(i) + 0.5) * cell;
    body += Text(left - 5, top + middle + font * 0.36, font, "end", label(i));
    if (width(i) <= cell) {
      body += Text(left + middle, top - 5, font, "middle", label(i));
      continue;
    }
    const std::string at = Number(left + middle + font * 0.36), y = Number(top - 5);
    body += Text(left + middle + font * 0.36, top - 5, font, "start", label(i),
                 (" transform=\"rotate(-90 " + at + " " + y + ")\"").c_str());
  }
  body += Text(left + size, 58, 10, "end", "key \xE2\x86\x92");
  body += Text(14, top - 8, 10, "start", "query \xE2\x86\x93");
  if (cell >= 26) body += CellNumbers(map, rows, left, top, cell);
  const double bar = std::clamp(size - 120, 240.0, 320.0);  // narrower, its numbers would meet
  body += Scale(left, top + size + 18, bar);
  return Document(std::max(left + size, left + bar + 160) + 16, top + size + 58,
                  "Attention weights of " + maps.model + ", layer " + std::to_string(map.layer) + ", head " +
                      std::to_string(map.head),
                  body);
}

std::string MapGrid(const AttentionMaps& maps) {
  std::vector<int> layers;
  size_t columns = 0;
  std::vector<size_t> heads;
  for (const HeadMap& map : maps.maps) {
    if (layers.empty() || layers.back() != map.layer) layers.push_back(map.layer);
    if (std::find(heads.begin(), heads.end(), map.head) == heads.end()) heads.push_back(map.head);
  }
  std::sort(heads.begin(), heads.end());
  columns = heads.size();
  size_t times = 1;
  while (maps.maps.size() * CeilDiv(maps.rows, times) * CeilDiv(maps.rows, times) > kMostDrawn) ++times;
  const size_t rows = CeilDiv(maps.rows, times);
  const double side = std::clamp(1100.0 / static_cast<double>(columns), 40.0, 180.0), step = side + 8;
  const double left = 60, top = 92;
  std::string body = Text(14, 24, 16, "start", "Attention by layer (rows) and head (columns)") +
                     Text(14, 42, 11, "start", Subtitle(maps, maps.bin * times));
  for (size_t c = 0; c < columns; ++c) {
    body += Text(left + static_cast<double>(c) * step + side / 2, top - 8, 11, "middle",
                 "head " + std::to_string(heads[c]));
  }
  size_t line = 0;
  for (size_t m = 0; m < maps.maps.size(); ++m) {
    const HeadMap& map = maps.maps[m];
    if (m > 0 && map.layer != maps.maps[m - 1].layer) ++line;
    const double x = left + static_cast<double>(std::find(heads.begin(), heads.end(), map.head) - heads.begin()) * step;
    const double y = top + static_cast<double>(line) * step;
    if (m == 0 || map.layer != maps.maps[m - 1].layer) {
      body += Text(left - 8, y + side / 2 + 4, 11, "end", "layer " + std::to_string(map.layer));
    }
    body += "<g><title>layer " + std::to_string(map.layer) + ", head " + std::to_string(map.head) + "</title>\n";
    body += Square(times == 1 ? map.cells : Coarser(map.cells, maps.rows, times, maps.bin, maps.tokens.size()), rows, x,
                   y, side);
    body += "</g>\n";
  }
  const double bottom = top + static_cast<double>(line + 1) * step;
  body += Scale(left, bottom + 10, 300);
  return Document(std::max(left + static_cast<double>(columns) * step, 540.0) + 10, bottom + 54,
                  "Attention weights of " + maps.model + " by layer and head", body);
}

}  // namespace

std::string EscapeMarkup(std::string_view text) {
  std::string out;
  for (char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string SvgDrawing(const AttentionMaps& maps) { return maps.maps.size() == 1 ? SingleMap(maps) : MapGrid(maps); }

}  // namespace moonlit::cli
