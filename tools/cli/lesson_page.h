// SPDX-License-Identifier: Apache-2.0
// What the lesson prints: paragraphs of lesson_texts.inc in one language, tables of numbers, and claims, each with whether it holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tools/cli/lesson_graph.h"

namespace moonlit::cli {

enum class Language : uint8_t { kEnglish, kChinese };

enum class LessonText : uint8_t {
#define MOONLIT_LESSON_TEXT(name, english, chinese) name,
#include "tools/cli/lesson_texts.inc"
#undef MOONLIT_LESSON_TEXT
};

// The five characters that the lesson looks at.
inline constexpr const char* kVerse[] = {"床", "前", "明", "月", "光"};
inline constexpr size_t kVerseTokens = 5;

class LessonPage {
 public:
  explicit LessonPage(Language language) : language_(language) {}

  const char* Words(LessonText text) const;
  void Title(size_t number, LessonText text);
  void Say(LessonText text);
  // A caption, then rows of `columns` numbers of a matrix from `first` on, two decimals each.
  void Show(LessonText caption, const Matrix& matrix, size_t first = 0, size_t columns = SIZE_MAX);
  // The same side by side, under one line of captions; matrices of equally many rows.
  void ShowBeside(LessonText captions, std::span<const Matrix> matrices);
  // Words and one line of numbers.
  void Line(LessonText words, const std::string& numbers);
  // The same without words, and the line above them.
  void Header(LessonText words);
  void Numbers(const std::string& numbers);
  // A claim and its figure, which is printed behind it ("": none).
  void Claim(LessonText claim, bool holds, const std::string& figure = "");

  size_t claims() const { return claims_; }
  size_t broken() const { return broken_; }

 private:
  Language language_;
  size_t claims_ = 0, broken_ = 0;
};

std::string Format(const char* format, ...) __attribute__((format(printf, 1, 2)));
// "0.12 0.11 0.26 ", one row of a matrix from column `first` on.
std::string RowText(const Matrix& matrix, size_t row, size_t first = 0, size_t columns = SIZE_MAX);

// What claims are made of. The largest |row sum - 1| over the parts of every row, and the largest |weight| above the diagonal.
double RowSumError(const Matrix& weights, size_t parts = 1);
double AboveDiagonal(const Matrix& weights, size_t parts = 1);

// Attention in double precision, one weight after the other: what the runtime's results are held against. Weights [tokens,
// heads * tokens] and outputs [tokens, heads * dim], as floats.
struct PlainAttention {
  const Matrix &q, &k, &v;
  size_t heads = 1, kv_heads = 1;
  double scale = 1;
  bool (*sees)(size_t query, size_t key) = &Causal;  // null: everything
  const std::vector<float>* additive = nullptr;      // w of w . tanh(q + k)
  Matrix Weights() const;
  Matrix Outputs() const;
};

}  // namespace moonlit::cli
