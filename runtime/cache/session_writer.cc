// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "runtime/cache/session_file.h"
#include "runtime/cache/session_layout.h"

namespace moonlit {
namespace {

class HeadWriter {
 public:
  template <typename Number>
  void Put(Number value) {
    PutBytes(&value, sizeof(value));
  }
  void PutBytes(const void* bytes, size_t size) { head_.append(static_cast<const char*>(bytes), size); }
  void PutText(const std::string& text) {
    Put(static_cast<uint32_t>(text.size()));
    head_ += text;
  }
  std::string& bytes() { return head_; }

 private:
  std::string head_;
};

// The first page of the group that the file has. What a sequence has to spare depends on how its text was read.
size_t FirstSavedPage(const Sequence& sequence, size_t g) {
  const PagePool& pool = *sequence.pool();
  const size_t pages = sequence.page_count(g);
  if (pages == 0) return 0;
  size_t first = 0;
  while (sequence.page(g, first) == Sequence::kHole) ++first;
  if (!pool.gives_back(g)) return first;
  const auto seen = static_cast<size_t>(pool.FirstSeen(g, sequence.length())) / pool.layout(g).page_tokens;
  return std::max(first, std::min(seen, pages - 1));
}

// With room for the two sizes, which are known at the end.
std::string MakeHead(const Sequence& sequence, const SessionFacts& facts) {
  const PagePool& pool = *sequence.pool();
  HeadWriter head;
  head.PutBytes(kSessionMagic, sizeof(kSessionMagic));
  head.Put(kSessionVersion);
  head.Put(StateFloats(pool));
  head.Put(uint64_t{0});
  head.Put(uint64_t{0});
  head.PutText(facts.variant);
  head.PutText(facts.model);
  head.Put(static_cast<uint32_t>(pool.groups()));
  for (size_t g = 0; g < pool.groups(); ++g) {
    head.Put(Stored(pool.layout(g)));
    head.Put(uint64_t{pool.layout(g).page_bytes});
  }
  head.Put(uint64_t{sequence.tokens().size()});
  head.PutBytes(sequence.tokens().data(), sequence.tokens().size_bytes());
  head.Put(facts.placed_from < sequence.length() ? facts.placed_from : int64_t{-1});
  head.Put(static_cast<uint32_t>(sequence.runs().size()));
  for (const SlotRun& run : sequence.runs()) {
    head.Put(run.begin);
    head.Put(run.shift);
  }
  uint64_t data_bytes = 0;
  for (size_t g = 0; g < pool.groups(); ++g) {
    head.Put(uint64_t{sequence.page_count(g)});
    const size_t first = FirstSavedPage(sequence, g);
    for (size_t i = 0; i < sequence.page_count(g); ++i) {
      const bool present = i >= first;
      head.Put(static_cast<uint8_t>(present ? 1 : 0));
      data_bytes += present ? pool.layout(g).page_bytes : 0;
    }
  }
  if (sequence.state() != nullptr) data_bytes += pool.states()->bytes();
  const uint64_t head_bytes = head.bytes().size() + kSumBytes;
  const uint64_t file_bytes = head_bytes + data_bytes + kSumBytes;
  std::memcpy(head.bytes().data() + kHeadBytesAt, &head_bytes, sizeof(head_bytes));
  std::memcpy(head.bytes().data() + kFileBytesAt, &file_bytes, sizeof(file_bytes));
  head.Put(ChecksumOf(head.bytes().data(), head.bytes().size()));
  return std::move(head.bytes());
}

}  // namespace

Status WriteSession(const Sequence& sequence, const SessionFacts& facts, const ByteSink& sink) {
  const PagePool& pool = *sequence.pool();
  Checksum sum;
  const auto put = [&](const void* bytes, size_t size) {
    sum.Add(bytes, size);
    return sink(bytes, size);
  };
  const std::string head = MakeHead(sequence, facts);
  MOONLIT_RETURN_IF_ERROR(put(head.data(), head.size()));
  for (size_t g = 0; g < pool.groups(); ++g) {
    const PageLayout& layout = pool.layout(g);
    const auto whole = static_cast<size_t>(sequence.length()) / layout.page_tokens;
    for (size_t i = FirstSavedPage(sequence, g); i < whole; ++i) {
      MOONLIT_RETURN_IF_ERROR(put(sequence.pages()[g][i], layout.page_bytes));
    }
    if (whole == sequence.page_count(g)) continue;
    // Behind the text the last page has what a cut left there. It is cleared in a copy: others may read the page too.
    MOONLIT_ASSIGN_OR_RETURN(Buffer last,
                             Buffer::Allocate(layout.page_bytes, "a page of the session", pool.allocator()));
    std::memcpy(last.data(), sequence.pages()[g][whole], layout.page_bytes);
    ClearSlots(layout, last.data(), static_cast<size_t>(sequence.length()) % layout.page_tokens);
    MOONLIT_RETURN_IF_ERROR(put(last.data(), layout.page_bytes));
  }
  if (sequence.state() != nullptr) MOONLIT_RETURN_IF_ERROR(put(sequence.state(), pool.states()->bytes()));
  const uint64_t value = sum.Value();
  return sink(&value, sizeof(value));
}

Status SaveSession(const Sequence& sequence, const SessionFacts& facts, const std::string& path) {
  MOONLIT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  MOONLIT_RETURN_IF_ERROR(
      WriteSession(sequence, facts, [&](const void* bytes, size_t size) { return file.Append(bytes, size); }));
  return file.Commit();
}

uint64_t SessionBytes(const Sequence& sequence, const SessionFacts& facts) {
  const std::string head = MakeHead(sequence, facts);
  uint64_t bytes = 0;
  std::memcpy(&bytes, head.data() + kFileBytesAt, sizeof(bytes));
  return bytes;
}

}  // namespace moonlit
