// SPDX-License-Identifier: Apache-2.0
#include "runtime/cache/session_file.h"

#include <algorithm>
#include <cinttypes>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/cache/session_layout.h"

namespace moonlit {
namespace {

constexpr size_t kFirstHeadBytes = size_t{64} << 10;  // more is asked for once so much has come
constexpr int64_t kLargestShift = int64_t{1} << 40;   // positions stay far from overflow, and exact in double

// Takes values from the front; what is not there any more is a Status.
class HeadParser {
 public:
  HeadParser(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}
  template <typename Number>
  Status Take(Number* value) {
    return TakeBytes(value, sizeof(*value));
  }
  Status TakeBytes(void* out, size_t size) {
    if (size > bytes_.size()) return Broken("its head ends too early");
    if (size > 0) std::memcpy(out, bytes_.data(), size);
    bytes_.remove_prefix(size);
    return Status();
  }
  Status TakeText(std::string* text) {
    uint32_t size = 0;
    MOONLIT_RETURN_IF_ERROR(Take(&size));
    if (size > bytes_.size()) return Broken("its head ends too early");
    text->assign(bytes_.data(), size);
    bytes_.remove_prefix(size);
    return Status();
  }
  // A number of things of `each` bytes that follow.
  Status TakeCount(uint64_t count, size_t each) const {
    return count <= bytes_.size() / each ? Status() : Broken("its head ends too early");
  }
  bool empty() const { return bytes_.empty(); }
  Status Broken(const char* what) const {
    return Errorf(Code::kCorrupt, "session file %s: %s; delete it and save the session again", name_.c_str(), what);
  }
  Status Differs(const std::string& what, const std::string& expected, const std::string& found,
                 const char* advice) const {
    return Errorf(Code::kUnsupported, "session file %s: expected %s %s, found %s; %s", name_.c_str(), what.c_str(),
                  expected.c_str(), found.c_str(), advice);
  }

 private:
  std::string_view bytes_;
  const std::string& name_;
};

std::string Text(const StoredLayout& l) {
  const auto type = [](uint32_t number) {
    return number < std::size(kAllCacheTypes) ? CacheTypeName(static_cast<CacheType>(number)) : "an unknown type";
  };
  return std::string(type(l.key_type)) + "/" + type(l.value_type) + ", pages of " + std::to_string(l.page_tokens) +
         " tokens, " + std::to_string(l.layers) + " layers of " + std::to_string(l.kv_heads) + " heads of " +
         std::to_string(l.key_dim) + "/" + std::to_string(l.value_dim);
}

// The parts of the head after the fixed bytes, each against what is expected.
class HeadReader {
 public:
  HeadReader(std::string_view bytes, const std::string& name, const SessionFacts& facts, const RestoreOptions& options,
             const PagePool& pool)
      : parser_(bytes, name), facts_(facts), options_(options), pool_(pool) {}

  Result<SequenceShape> Read() {
    MOONLIT_RETURN_IF_ERROR(ReadFacts());
    MOONLIT_RETURN_IF_ERROR(ReadLayouts());
    MOONLIT_RETURN_IF_ERROR(ReadTokens());
    MOONLIT_RETURN_IF_ERROR(ReadRuns());
    for (size_t g = 0; g < pool_.groups(); ++g) MOONLIT_RETURN_IF_ERROR(ReadPresence(g));
    if (!parser_.empty()) return parser_.Broken("its head has bytes that belong to nothing");
    return std::move(shape_);
  }
  int64_t placed_from() const { return placed_from_; }

 private:
  Status ReadFacts() {
    std::string variant, model;
    MOONLIT_RETURN_IF_ERROR(parser_.TakeText(&variant));
    MOONLIT_RETURN_IF_ERROR(parser_.TakeText(&model));
    if (model != facts_.model) {
      return parser_.Differs("the model", facts_.model, model, "load the model that the session was saved with");
    }
    if (variant == facts_.variant || options_.any_variant) return Status();
    return parser_.Differs(
        "the kernel variant", facts_.variant, variant,
        "its text would go on with other bits: set MOONLIT_VARIANT to that variant, or allow another "
        "one");
  }

  Status ReadLayouts() {
    uint32_t groups = 0;
    MOONLIT_RETURN_IF_ERROR(parser_.Take(&groups));
    if (groups != pool_.groups()) {
      return parser_.Differs("cache groups", std::to_string(pool_.groups()), std::to_string(groups),
                             "load the model that the session was saved with");
    }
    for (size_t g = 0; g < groups; ++g) {
      StoredLayout found{};
      uint64_t page_bytes = 0;
      MOONLIT_RETURN_IF_ERROR(parser_.Take(&found));
      MOONLIT_RETURN_IF_ERROR(parser_.Take(&page_bytes));
      const StoredLayout expected = Stored(pool_.layout(g));
      if (std::memcmp(&found, &expected, sizeof(found)) != 0 || page_bytes != pool_.layout(g).page_bytes) {
        return parser_.Differs("a cache of", Text(expected), Text(found),
                               "load the model with the cache types and page size that the session was saved with");
      }
    }
    return Status();
  }

  Status ReadTokens() {
    uint64_t count = 0;
    MOONLIT_RETURN_IF_ERROR(parser_.Take(&count));
    MOONLIT_RETURN_IF_ERROR(parser_.TakeCount(count, sizeof(int32_t)));
    if (count > facts_.n_ctx) {
      return Errorf(Code::kExhausted,
                    "the session file holds %" PRIu64 " tokens, %zu are allowed; load the model with a larger n_ctx",
                    count, facts_.n_ctx);
    }
    shape_.tokens.resize(static_cast<size_t>(count));
    MOONLIT_RETURN_IF_ERROR(parser_.TakeBytes(shape_.tokens.data(), shape_.tokens.size() * sizeof(int32_t)));
    for (int32_t id : shape_.tokens) {
      if (id == Sequence::kNoToken || (id >= 0 && static_cast<size_t>(id) < facts_.vocab)) continue;
      return parser_.Broken("a token is outside the model's vocabulary");
    }
    int64_t placed = 0;
    MOONLIT_RETURN_IF_ERROR(parser_.Take(&placed));
    if (placed < -1 || placed >= static_cast<int64_t>(shape_.tokens.size())) {
      return parser_.Broken("its first token with a position is none of its tokens");
    }
    if (placed >= 0) placed_from_ = placed;
    return Status();
  }

  Status ReadRuns() {
    uint32_t count = 0;
    MOONLIT_RETURN_IF_ERROR(parser_.Take(&count));
    MOONLIT_RETURN_IF_ERROR(parser_.TakeCount(count, sizeof(SlotRun)));
    const auto block = static_cast<int64_t>(pool_.block_tokens());
    const auto length = static_cast<int64_t>(shape_.tokens.size());
    for (uint32_t i = 0; i < count; ++i) {
      SlotRun run{};
      MOONLIT_RETURN_IF_ERROR(parser_.Take(&run.begin));
      MOONLIT_RETURN_IF_ERROR(parser_.Take(&run.shift));
      const bool follows =
          i == 0 ? run.begin == 0 && run.shift >= 0 && (length > 0 || run.shift == 0)
                 : run.begin > shape_.runs.back().begin && run.begin < length && run.shift > shape_.runs.back().shift;
      if (!follows || run.begin % block != 0 || run.shift % block != 0 || run.shift > kLargestShift) {
        return parser_.Broken("its runs of blocks are no runs");
      }
      shape_.runs.push_back(run);
    }
    return count > 0 ? Status() : parser_.Broken("it has no run of blocks");
  }

  Status ReadPresence(size_t g) {
    uint64_t count = 0;
    MOONLIT_RETURN_IF_ERROR(parser_.Take(&count));
    MOONLIT_RETURN_IF_ERROR(parser_.TakeCount(count, 1));
    const uint64_t tokens = pool_.layout(g).page_tokens;
    if (count != (shape_.tokens.size() + tokens - 1) / tokens) {
      return parser_.Broken("its pages are not as many as its tokens need");
    }
    std::vector<bool> present(static_cast<size_t>(count));
    for (size_t i = 0; i < present.size(); ++i) {
      uint8_t value = 0;
      MOONLIT_RETURN_IF_ERROR(parser_.Take(&value));
      if (value > 1 || (i > 0 && value < present[i - 1])) return parser_.Broken("its holes are no holes");
      present[i] = value == 1;
    }
    if (!present.empty() && !present.back()) return parser_.Broken("it has no last page");
    if (!present.empty() && !present.front() && pool_.lookback(g) == 0) {
      return parser_.Broken("pages are missing that the model looks back to");
    }
    shape_.present.push_back(std::move(present));
    return Status();
  }

  HeadParser parser_;
  const SessionFacts& facts_;
  const RestoreOptions& options_;
  const PagePool& pool_;
  SequenceShape shape_;
  int64_t placed_from_ = INT64_MAX;
};

// The sizes that the fixed bytes tell.
struct Sizes {
  uint64_t head = 0, file = 0;
};

Status CheckFixed(const ByteSource& source, const char* fixed, const PagePool& pool, Sizes* sizes) {
  const char* name = source.name.c_str();
  if (std::memcmp(fixed, kSessionMagic, sizeof(kSessionMagic)) != 0) {
    return Errorf(Code::kCorrupt, "%s: expected a session file, found something else", name);
  }
  uint32_t version = 0;
  std::memcpy(&version, fixed + 8, sizeof(version));
  if (version != kSessionVersion) {
    return Errorf(Code::kUnsupported, "session file %s: expected version %u, found %u; save the session again", name,
                  kSessionVersion, version);
  }
  uint32_t state_floats = 0;
  std::memcpy(&state_floats, fixed + 12, sizeof(state_floats));
  if (state_floats != StateFloats(pool)) {
    return Errorf(Code::kUnsupported,
                  "session file %s: expected a recurrent state of %u numbers, found one of %u; load the model that the "
                  "session was saved with",
                  name, StateFloats(pool), state_floats);
  }
  std::memcpy(&sizes->head, fixed + kHeadBytesAt, sizeof(sizes->head));
  std::memcpy(&sizes->file, fixed + kFileBytesAt, sizeof(sizes->file));
  if (source.size && *source.size != sizes->file) {
    return Errorf(Code::kCorrupt,
                  "session file %s: expected %" PRIu64 " bytes, found %" PRIu64
                  "; it is cut short or damaged: delete it and save the session again",
                  name, sizes->file, *source.size);
  }
  if (sizes->head < kFixedBytes + kSumBytes || sizes->file < kSumBytes || sizes->head > sizes->file - kSumBytes) {
    return Errorf(Code::kCorrupt, "session file %s: its head can't have %" PRIu64 " bytes; it is damaged", name,
                  sizes->head);
  }
  return Status();
}

// The head, of which the fixed bytes have come. A stream can't be asked whether it is as long as it says, so the room grows with what
// comes.
Result<Buffer> ReadHead(const ByteSource& source, const char* fixed, uint64_t head_bytes) {
  if (head_bytes > SIZE_MAX / 2)
    return Status(Code::kOutOfMemory, "session file " + source.name + ": its head is too long");
  const auto bytes = static_cast<size_t>(head_bytes);
  constexpr const char* kWhat = "the head of a session file";
  MOONLIT_ASSIGN_OR_RETURN(Buffer head, Buffer::Allocate(std::min(bytes, kFirstHeadBytes), kWhat));
  std::memcpy(head.data(), fixed, kFixedBytes);
  size_t have = kFixedBytes;
  for (;;) {
    MOONLIT_RETURN_IF_ERROR(source.read_at(have, head.data() + have, head.size() - have));
    if (head.size() == bytes) return head;
    have = head.size();
    MOONLIT_ASSIGN_OR_RETURN(Buffer larger, Buffer::Allocate(have + std::min(have, bytes - have), kWhat));
    std::memcpy(larger.data(), head.data(), have);
    head = std::move(larger);
  }
}

}  // namespace

ByteSource SourceOf(const File& file) {
  return {file.path(), file.size(),
          [&file](uint64_t offset, void* out, size_t size) { return file.ReadAt(offset, out, size); }};
}

Result<SessionReader> SessionReader::Open(ByteSource source, const SessionFacts& facts, const RestoreOptions& options,
                                          const PagePool& pool) {
  SessionReader reader;
  reader.source_ = std::move(source);
  const std::string& name = reader.source_.name;
  if (reader.source_.size && *reader.source_.size < kFixedBytes + 2 * kSumBytes) {
    return Errorf(Code::kCorrupt, "%s: expected a session file, found only %" PRIu64 " bytes", name.c_str(),
                  *reader.source_.size);
  }
  char fixed[kFixedBytes];
  Sizes sizes;
  MOONLIT_RETURN_IF_ERROR(reader.source_.read_at(0, fixed, sizeof(fixed)));
  MOONLIT_RETURN_IF_ERROR(CheckFixed(reader.source_, fixed, pool, &sizes));
  MOONLIT_ASSIGN_OR_RETURN(const Buffer head, ReadHead(reader.source_, fixed, sizes.head));
  reader.head_bytes_ = sizes.head;
  reader.sum_.Add(head.data(), head.size());
  uint64_t expected = 0;
  std::memcpy(&expected, head.data() + head.size() - kSumBytes, kSumBytes);
  if (ChecksumOf(head.data(), head.size() - kSumBytes) != expected) {
    return Errorf(Code::kCorrupt,
                  "session file %s: the checksum of its head is wrong: it is damaged; delete it and save "
                  "the session again",
                  name.c_str());
  }
  const std::string_view parts(reinterpret_cast<const char*>(head.data()) + kFixedBytes,
                               head.size() - kFixedBytes - kSumBytes);
  HeadReader head_reader(parts, name, facts, options, pool);
  MOONLIT_ASSIGN_OR_RETURN(reader.shape_, head_reader.Read());
  reader.placed_from_ = head_reader.placed_from();
  uint64_t bytes = reader.head_bytes_ + kSumBytes;
  for (size_t g = 0; g < pool.groups(); ++g) {
    const std::vector<bool>& present = reader.shape_.present[g];
    bytes += static_cast<uint64_t>(std::count(present.begin(), present.end(), true)) * pool.layout(g).page_bytes;
  }
  if (!reader.shape_.tokens.empty()) bytes += uint64_t{StateFloats(pool)} * sizeof(float);
  if (bytes != sizes.file) {
    return Errorf(Code::kCorrupt,
                  "session file %s: its pages need %" PRIu64 " bytes, it has %" PRIu64 "; it is damaged", name.c_str(),
                  bytes, sizes.file);
  }
  reader.PassUnseenPages(pool);
  return reader;
}

// A sequence that has read the text has a block to spare. The file may come from a pool that keeps all.
void SessionReader::PassUnseenPages(const PagePool& pool) {
  passed_.resize(pool.groups());
  for (size_t g = 0; g < pool.groups(); ++g) {
    if (!pool.gives_back(g)) continue;
    const int64_t seen = pool.FirstSeen(g, static_cast<int64_t>(shape_.tokens.size()));
    const int64_t slot = std::max<int64_t>(0, seen - static_cast<int64_t>(pool.block_tokens()));
    const auto end = shape_.present[g].begin() + slot / static_cast<int64_t>(pool.layout(g).page_tokens);
    passed_[g] = static_cast<size_t>(std::count(shape_.present[g].begin(), end, true));
    std::fill(shape_.present[g].begin(), end, false);
  }
}

// Adds the next bytes to the sum, which nobody wants to have.
Status SessionReader::Pass(uint64_t bytes, uint64_t* offset, Checksum* sum) const {
  if (bytes == 0) return Status();
  constexpr uint64_t kPiece = 256 << 10;
  MOONLIT_ASSIGN_OR_RETURN(Buffer piece, Buffer::Allocate(std::min(bytes, kPiece), "a piece of a session file"));
  for (uint64_t left = bytes; left > 0;) {
    const auto size = static_cast<size_t>(std::min<uint64_t>(left, piece.size()));
    MOONLIT_RETURN_IF_ERROR(source_.read_at(*offset, piece.data(), size));
    sum->Add(piece.data(), size);
    *offset += size;
    left -= size;
  }
  return Status();
}

Status SessionReader::ReadPages(Sequence& sequence) {
  const PagePool& pool = *sequence.pool();
  Checksum sum = sum_;
  uint64_t offset = head_bytes_;
  for (size_t g = 0; g < pool.groups(); ++g) {
    const size_t bytes = pool.layout(g).page_bytes;
    MOONLIT_RETURN_IF_ERROR(Pass(uint64_t{passed_[g]} * bytes, &offset, &sum));
    for (size_t i = 0; i < sequence.page_count(g); ++i) {
      uint8_t* page = sequence.pages()[g][i];
      if (page == nullptr) continue;
      MOONLIT_RETURN_IF_ERROR(source_.read_at(offset, page, bytes));
      sum.Add(page, bytes);
      offset += bytes;
    }
  }
  if (float* state = sequence.restored_state()) {
    MOONLIT_RETURN_IF_ERROR(source_.read_at(offset, state, pool.states()->bytes()));
    sum.Add(state, pool.states()->bytes());
    offset += pool.states()->bytes();
  }
  return CheckSum(offset, sum);
}

Status SessionReader::Check() const {
  Checksum sum = sum_;
  uint64_t offset = head_bytes_;
  MOONLIT_RETURN_IF_ERROR(Pass(*source_.size - kSumBytes - offset, &offset, &sum));
  return CheckSum(offset, sum);
}

// The sum of all bytes before `offset`, where the file has it.
Status SessionReader::CheckSum(uint64_t offset, const Checksum& sum) const {
  uint64_t expected = 0;
  MOONLIT_RETURN_IF_ERROR(source_.read_at(offset, &expected, sizeof(expected)));
  if (sum.Value() == expected) return Status();
  return Errorf(Code::kCorrupt,
                "session file %s: its checksum is wrong: it is damaged; delete it and save the session again",
                source_.name.c_str());
}

}  // namespace moonlit
