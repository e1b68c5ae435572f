// SPDX-License-Identifier: Apache-2.0
// Curves on logarithmic axes as an SVG picture (SVG 1.1, https://www.w3.org/TR/SVG11/), without a library.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/base/status.h"

namespace moonlit::cli {

struct PlotCurve {
  std::string name;
  std::vector<std::pair<double, double>> points;  // (x, y), ascending x; both above 0
};

// The whole picture. Axes run from the smallest to the largest value, widened to whole powers of ten for y; every x that a
// curve has gets a label. Text is escaped.
std::string LogLogSvg(const std::string& title, const std::string& x_label, const std::string& y_label,
                      const std::vector<PlotCurve>& curves);

// Writes it to a file, whole or not at all. kIo names the path; kInvalidArgument: no curve has a point.
Status WritePlot(const std::string& path, const std::string& title, const std::string& x_label,
                 const std::string& y_label, const std::vector<PlotCurve>& curves);

}  // namespace moonlit::cli
