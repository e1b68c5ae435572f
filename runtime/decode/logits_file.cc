// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/logits_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "runtime/decode/logsumexp.h"

namespace moonlit {
namespace {

constexpr char kMagic[] = "_logits_";
constexpr size_t kMagicBytes = sizeof kMagic - 1;
// Two floats, as words.
constexpr size_t kRowHeader = 4;
constexpr float kRange = 16.0f;
constexpr float kSteps = 65535.0f;

struct Header {
  uint32_t window;
  int32_t vocab;
  int32_t windows;
};

size_t RowWords(size_t vocab) { return (vocab + 1) / 2 * 2 + kRowHeader; }

Status Mismatch(const std::string& path, const char* what, size_t expected, size_t found) {
  return Errorf(
      Code::kInvalidArgument,
      "%s: expected %s of %zu, found %zu: compare models with the same vocabulary on the same text with the same -c",
      path.c_str(), what, expected, found);
}

}  // namespace

Result<LogitsWriter> LogitsWriter::Create(const std::string& path, std::span<const int32_t> tokens, size_t window,
                                          size_t vocab) {
  const size_t windows = tokens.size() / window;
  if (windows > INT32_MAX || vocab > INT32_MAX || window > UINT32_MAX)
    return Errorf(Code::kInvalidArgument, "%s: the format counts windows with 31 bits", path.c_str());
  LogitsWriter writer;
  MOONLIT_ASSIGN_OR_RETURN(writer.file_, AtomicFile::Create(path));
  const Header header = {static_cast<uint32_t>(window), static_cast<int32_t>(vocab), static_cast<int32_t>(windows)};
  MOONLIT_RETURN_IF_ERROR(writer.file_.Append(kMagic, kMagicBytes));
  MOONLIT_RETURN_IF_ERROR(writer.file_.Append(&header, sizeof header));
  MOONLIT_RETURN_IF_ERROR(writer.file_.Append(tokens.data(), windows * window * sizeof(int32_t)));
  writer.row_.resize(RowWords(vocab));
  writer.rows_left_ = windows * CountedPositions(window);
  return writer;
}

Status LogitsWriter::Append(std::span<const float> logits) {
  if (rows_left_ == 0) return Status(Code::kInvalidArgument, "more positions than the logits file has");
  --rows_left_;
  const auto [low, high] = std::minmax_element(logits.begin(), logits.end());
  const float least = std::max(*low, *high - kRange);
  const float range[2] = {(*high - least) / kSteps, static_cast<float>(double{least} - LogSumExp(logits))};
  std::memcpy(row_.data(), range, sizeof range);
  const float inverse = range[0] > 0 ? 1.0f / range[0] : 0.0f;
  for (size_t i = 0; i < logits.size(); ++i) {
    const float steps = std::min(kSteps, std::nearbyint((std::max(logits[i], least) - least) * inverse));
    row_[kRowHeader + i] = static_cast<uint16_t>(steps);
  }
  return file_.Append(row_.data(), row_.size() * sizeof(uint16_t));
}

Status LogitsWriter::Finish() {
  if (rows_left_ != 0) return Errorf(Code::kInvalidArgument, "the logits file lacks %zu positions", rows_left_);
  return file_.Commit();
}

Result<LogitsReader> LogitsReader::Open(const std::string& path, std::span<const int32_t> tokens, size_t window,
                                        size_t vocab) {
  LogitsReader reader;
  MOONLIT_ASSIGN_OR_RETURN(reader.file_, File::Open(path));
  char magic[kMagicBytes];
  Header header;
  if (reader.file_.size() < kMagicBytes + sizeof header) {
    return Errorf(Code::kCorrupt, "%s: expected a file that --logits-out wrote, found one of %llu bytes", path.c_str(),
                  static_cast<unsigned long long>(reader.file_.size()));
  }
  MOONLIT_RETURN_IF_ERROR(reader.file_.ReadAt(0, magic, sizeof magic));
  if (std::memcmp(magic, kMagic, kMagicBytes) != 0)
    return Errorf(Code::kCorrupt, "%s: expected a file that --logits-out wrote, found another", path.c_str());
  MOONLIT_RETURN_IF_ERROR(reader.file_.ReadAt(kMagicBytes, &header, sizeof header));
  const size_t windows = tokens.size() / window;
  if (header.window != window) return Mismatch(path, "windows", window, header.window);
  if (header.vocab < 0 || static_cast<size_t>(header.vocab) != vocab)
    return Mismatch(path, "a vocabulary", vocab, static_cast<size_t>(std::max(header.vocab, 0)));
  if (header.windows < 0 || static_cast<size_t>(header.windows) != windows)
    return Mismatch(path, "a text", windows, static_cast<size_t>(std::max(header.windows, 0)));
  const size_t words = RowWords(vocab);
  reader.position_ = kMagicBytes + sizeof header + uint64_t{windows} * window * sizeof(int32_t);
  const uint64_t rows = uint64_t{windows} * CountedPositions(window);
  const uint64_t expected = reader.position_ + rows * words * sizeof(uint16_t);
  if (reader.file_.size() < expected) {
    return Errorf(Code::kCorrupt, "%s: expected %llu bytes, found %llu: the file is cut short", path.c_str(),
                  static_cast<unsigned long long>(expected), static_cast<unsigned long long>(reader.file_.size()));
  }
  std::vector<int32_t> theirs(windows * window);
  MOONLIT_RETURN_IF_ERROR(
      reader.file_.ReadAt(kMagicBytes + sizeof header, theirs.data(), theirs.size() * sizeof(int32_t)));
  const auto differs = std::mismatch(theirs.begin(), theirs.end(), tokens.begin());
  if (differs.first != theirs.end()) {
    return Errorf(
        Code::kInvalidArgument,
        "%s: token %td of the text is %d there and %d here: compare models with the same vocabulary on the same text",
        path.c_str(), differs.first - theirs.begin(), *differs.first, *differs.second);
  }
  reader.row_.resize(words);
  reader.values_.resize(vocab);
  return reader;
}

Result<std::span<const float>> LogitsReader::Next() {
  MOONLIT_RETURN_IF_ERROR(file_.ReadAt(position_, row_.data(), row_.size() * sizeof(uint16_t)));
  position_ += row_.size() * sizeof(uint16_t);
  float range[2];
  std::memcpy(range, row_.data(), sizeof range);
  if (!(range[0] >= 0) || !std::isfinite(range[0]) || !std::isfinite(range[0] * kSteps + range[1]))
    return Errorf(Code::kCorrupt, "%s: a scale is not a number: the file is damaged", file_.path().c_str());
  for (size_t i = 0; i < values_.size(); ++i)
    values_[i] = range[0] * static_cast<float>(row_[kRowHeader + i]) + range[1];
  return std::span<const float>(values_);
}

}  // namespace moonlit
