// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/bench_plot.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <limits>
#include <set>

#include "runtime/base/file.h"

namespace moonlit::cli {
namespace {

constexpr double kWidth = 800, kHeight = 520, kLeft = 90, kRight = 30, kTop = 50, kBottom = 70;
// Told apart by the colour-blind too (Okabe & Ito 2008).
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};

std::string Escaped(const std::string& text) {
  std::string result;
  for (char c : text) {
    switch (c) {
      case '&':
        result += "&amp;";
        break;
      case '<':
        result += "&lt;";
        break;
      case '>':
        result += "&gt;";
        break;
      case '"':
        result += "&quot;";
        break;
      default:
        result += c;
    }
  }
  return result;
}

__attribute__((format(printf, 1, 2))) std::string Format(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

struct Axis {
  double low, high;   // logarithms
  double begin, end;  // pixels
  double At(double value) const { return begin + (std::log10(value) - low) / (high - low) * (end - begin); }
};

struct Frame {
  Axis x, y;
};

Frame MakeFrame(const std::vector<PlotCurve>& curves) {
  double low[2] = {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  double high[2] = {-low[0], -low[0]};
  for (const PlotCurve& curve : curves) {
    for (const auto& [x, y] : curve.points) {
      low[0] = std::min(low[0], std::log10(x));
      high[0] = std::max(high[0], std::log10(x));
      low[1] = std::min(low[1], std::floor(std::log10(y)));
      high[1] = std::max(high[1], std::ceil(std::log10(y)));
    }
  }
  for (int i = 0; i < 2; ++i) {
    if (high[i] > low[i]) continue;
    low[i] -= 0.5;  // one value only: in the middle
    high[i] += 0.5;
  }
  return {{low[0], high[0], kLeft + 20, kWidth - kRight - 20}, {low[1], high[1], kHeight - kBottom, kTop}};
}

std::string Text(double x, double y, const char* anchor, const std::string& text, const char* more = "") {
  return Format("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, more) + Escaped(text) + "</text>\n";
}

std::string Grid(const Frame& frame, const std::vector<PlotCurve>& curves) {
  std::string svg;
  std::set<double> xs;
  for (const PlotCurve& curve : curves) {
    for (const auto& point : curve.points) xs.insert(point.first);
  }
  for (double x : xs) {
    const double at = frame.x.At(x);
    svg += Format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", at, kTop, at,
                  kHeight - kBottom);
    svg += Text(at, kHeight - kBottom + 20, "middle", Format("%.6g", x));
  }
  for (double decade = std::ceil(frame.y.low); decade <= frame.y.high; ++decade) {
    const double at = frame.y.At(std::pow(10.0, decade));
    svg += Format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#ddd\"/>\n", kLeft, at,
                  kWidth - kRight, at);
    svg += Text(kLeft - 8, at + 5, "end", Format("%.6g", std::pow(10.0, decade)));
  }
  return svg;
}

std::string Curve(const Frame& frame, const PlotCurve& curve, size_t index) {
  const char* colour = kColours[index % std::size(kColours)];
  std::string line = Format("<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" points=\"", colour), dots;
  for (const auto& [x, y] : curve.points) {
    line += Format("%.1f,%.1f ", frame.x.At(x), frame.y.At(y));
    dots += Format("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\" fill=\"%s\"><title>%.6g: %.4g</title></circle>\n",
                   frame.x.At(x), frame.y.At(y), colour, x, y);
  }
  const double y = kTop + 22 + 20 * static_cast<double>(index);
  const std::string key =
      Format("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"2\"/>\n", kLeft + 30,
             y - 5, kLeft + 55, y - 5, colour);
  return line + "\"/>\n" + dots + key + Text(kLeft + 62, y, "start", curve.name);
}

}  // namespace

std::string LogLogSvg(const std::string& title, const std::string& x_label, const std::string& y_label,
                      const std::vector<PlotCurve>& curves) {
  const Frame frame = MakeFrame(curves);
  std::string svg = Format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
      "font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      kWidth, kHeight, kWidth, kHeight);
  svg += Text(kWidth / 2, 28, "middle", title, " font-size=\"16\"");
  svg += Grid(frame, curves);
  svg += Format("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"none\" stroke=\"black\"/>\n", kLeft,
                kTop, kWidth - kRight - kLeft, kHeight - kBottom - kTop);
  for (size_t i = 0; i < curves.size(); ++i) svg += Curve(frame, curves[i], i);
  svg += Text(kWidth / 2, kHeight - 20, "middle", x_label);
  const double middle = (kTop + kHeight - kBottom) / 2;
  svg += Text(25, middle, "middle", y_label, Format(" transform=\"rotate(-90 25 %.1f)\"", middle).c_str());
  return svg + "</svg>\n";
}

Status WritePlot(const std::string& path, const std::string& title, const std::string& x_label,
                 const std::string& y_label, const std::vector<PlotCurve>& curves) {
  const bool empty = std::all_of(curves.begin(), curves.end(), [](const PlotCurve& c) { return c.points.empty(); });
  if (empty) return Errorf(Code::kInvalidArgument, "plot %s: nothing was measured that could be drawn", path.c_str());
  const std::string svg = LogLogSvg(title, x_label, y_label, curves);
  MOONLIT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  MOONLIT_RETURN_IF_ERROR(file.Append(svg.data(), svg.size()));
  return file.Commit();
}

}  // namespace moonlit::cli
