// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/lesson_page.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>

namespace moonlit::cli {
namespace {

struct Texts {
  const char *english, *chinese;
};
constexpr Texts kTexts[] = {
#define MOONLIT_LESSON_TEXT(name, english, chinese) {english, chinese},
#include "tools/cli/lesson_texts.inc"
#undef MOONLIT_LESSON_TEXT
};

double Score(const PlainAttention& a, size_t query, size_t key, size_t head) {
  const size_t dim = a.q.columns / a.heads, kv = head / (a.heads / a.kv_heads);
  double sum = 0;
  for (size_t c = 0; c < dim; ++c) {
    const double x = static_cast<double>(a.q.at(query, head * dim + c));
    const double y = static_cast<double>(a.k.at(key, kv * dim + c));
    sum += a.additive == nullptr ? x * y : static_cast<double>((*a.additive)[c]) * std::tanh(x + y);
  }
  return sum * a.scale;
}

}  // namespace

std::string Format(const char* format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return text;
}

const char* LessonPage::Words(LessonText text) const {
  const Texts& both = kTexts[static_cast<size_t>(text)];
  return language_ == Language::kEnglish ? both.english : both.chinese;
}

void LessonPage::Title(size_t number, LessonText text) { std::printf("\n== %zu. %s\n\n", number, Words(text)); }
void LessonPage::Say(LessonText text) { std::printf("%s\n", Words(text)); }
void LessonPage::Line(LessonText words, const std::string& numbers) {
  std::printf("  %s  %s\n", Words(words), numbers.c_str());
}

void LessonPage::Header(LessonText words) { std::printf("    %s\n", Words(words)); }
void LessonPage::Numbers(const std::string& numbers) { std::printf("    %s\n", numbers.c_str()); }

std::string RowText(const Matrix& matrix, size_t row, size_t first, size_t columns) {
  std::string text;
  for (size_t c = first; c < std::min(matrix.columns, first + std::min(columns, matrix.columns)); ++c) {
    text += Format("%s%5.2f", c == first ? "" : " ", static_cast<double>(matrix.at(row, c)));
  }
  return text;
}

void LessonPage::Show(LessonText caption, const Matrix& matrix, size_t first, size_t columns) {
  std::printf("  %s\n", Words(caption));
  for (size_t r = 0; r < matrix.rows; ++r) {
    const char* label = matrix.rows == kVerseTokens ? kVerse[r] : "  ";
    std::printf("    %s %s\n", label, RowText(matrix, r, first, columns).c_str());
  }
}

void LessonPage::ShowBeside(LessonText captions, std::span<const Matrix> matrices) {
  std::printf("  %s\n", Words(captions));
  for (size_t r = 0; r < matrices[0].rows; ++r) {
    std::printf("    %s", matrices[0].rows == kVerseTokens ? kVerse[r] : "  ");
    for (size_t m = 0; m < matrices.size(); ++m)
      std::printf("%s %s", m == 0 ? "" : "  ", RowText(matrices[m], r).c_str());
    std::printf("\n");
  }
}

void LessonPage::Claim(LessonText claim, bool holds, const std::string& figure) {
  ++claims_;
  broken_ += holds ? 0 : 1;
  std::printf("  %s %s%s%s\n", holds ? "[ok]   " : "[WRONG]", Words(claim), figure.empty() ? "" : ": ", figure.c_str());
}

double RowSumError(const Matrix& weights, size_t parts) {
  const size_t width = weights.columns / parts;
  double largest = 0;
  for (size_t i = 0; i < weights.rows * parts; ++i) {
    double sum = 0;
    for (size_t j = 0; j < width; ++j) sum += static_cast<double>(weights.values[i * width + j]);
    const double error = std::abs(sum - 1);
    if (!(error <= largest)) largest = std::isnan(error) ? INFINITY : error;
  }
  return largest;
}

double AboveDiagonal(const Matrix& weights, size_t parts) {
  const size_t width = weights.columns / parts;
  double largest = 0;
  for (size_t i = 0; i < weights.rows; ++i) {
    for (size_t j = 0; j < weights.columns; ++j) {
      if (j % width > i) largest = std::max(largest, std::abs(static_cast<double>(weights.at(i, j))));
    }
  }
  return largest;
}

Matrix PlainAttention::Weights() const {
  const size_t tokens = q.rows;
  Matrix weights = Filled(tokens, heads * tokens, 0);
  std::vector<double> row(tokens);
  for (size_t i = 0; i < tokens; ++i) {
    for (size_t h = 0; h < heads; ++h) {
      double sum = 0, largest = -INFINITY;
      for (size_t j = 0; j < tokens; ++j) {
        row[j] = sees == nullptr || sees(i, j) ? Score(*this, i, j, h) : -INFINITY;
        largest = std::max(largest, row[j]);
      }
      for (double& x : row) sum += x = std::exp(x - largest);
      for (size_t j = 0; j < tokens; ++j) weights.at(i, h * tokens + j) = static_cast<float>(row[j] / sum);
    }
  }
  return weights;
}

Matrix PlainAttention::Outputs() const {
  const Matrix weights = Weights();
  const size_t tokens = q.rows, dim = v.columns / kv_heads;
  Matrix out = Filled(tokens, heads * dim, 0);
  for (size_t i = 0; i < tokens; ++i) {
    for (size_t c = 0; c < out.columns; ++c) {
      const size_t head = c / dim, column = head / (heads / kv_heads) * dim + c % dim;
      double sum = 0;
      for (size_t j = 0; j < tokens; ++j)
        sum += static_cast<double>(weights.at(i, head * tokens + j)) * static_cast<double>(v.at(j, column));
      out.at(i, c) = static_cast<float>(sum);
    }
  }
  return out;
}

}  // namespace moonlit::cli
