// SPDX-License-Identifier: Apache-2.0
// A sequence in a file: its tokens and the bytes of its pages, so that a text need not be read by the model again.
//
//   MOONLIT_RETURN_IF_ERROR(SaveSession(sequence, facts, path));            // complete or not at all
//
//   MOONLIT_ASSIGN_OR_RETURN(File file, File::Open(path));
//   MOONLIT_ASSIGN_OR_RETURN(SessionReader reader, SessionReader::Open(SourceOf(file), facts, {}, *pool));
//   MOONLIT_ASSIGN_OR_RETURN(Sequence sequence, Sequence::Make(pool, reader.shape()));
//   MOONLIT_RETURN_IF_ERROR(reader.ReadPages(sequence));                    // only now is it what was saved
//
// Layout, version 3 (2 knew nothing of positions, 1 had headers between the parts of a page); little-endian, no padding:
//   "MOONSESS", u32 version, u32 floats of the recurrent state (0: none), u64 head bytes, u64 file bytes
//   variant and model, each u32 length and bytes
//   u32 groups; for each u32 page_tokens, layers, kv_heads, key_dim, value_dim, key type, value type (CacheType's
//     numbers), u64 page_bytes
//   u64 tokens, i32[tokens]; i64 the first token that can't be read again by its id (-1: none); u32 runs, for each i64 begin, i64 shift
//   for each group: u64 pages, one byte a page: 1, or 0 for a hole, which come first
//   u64 checksum of the head up to here                           (head bytes end here)
//   for each group, its pages that are no holes; then, if there are tokens, the recurrent state
//   u64 checksum of the file up to here
//
// The bytes follow from the tokens, whatever way led to them (equal facts, layouts and pool options given): what a cut left in the
// last page, behind the text, is no part of them, and where the pool gives back what its lookback leaves behind
// (PagePoolOptions), neither are pages that the sequence still has to spare. A text that is no reading of its tokens alone
// (Sequence::Drop, positions of its own, rows that saw each other, chosen pages) has the bytes of what was done to it.
// Checksums are XXH64 with seed 0 (runtime/base/checksum.h). They find accidents; that nothing a file says can do harm
// is the checks' business.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/checksum.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"
#include "runtime/cache/cache.h"

namespace moonlit {

// What a saved sequence belongs to.
struct SessionFacts {
  std::string variant;              // equal tokens give equal bits only under one kernel variant
  std::string model;                // tells models apart; opaque
  size_t vocab = 0;                 // ids are below it
  size_t n_ctx = 0;                 // most tokens of a sequence
  int64_t placed_from = INT64_MAX;  // written: the first token that can't be read again by its id: Session
};

struct RestoreOptions {
  bool any_variant = false;  // take a file of another variant: what follows is then as good, but not the same bits
};

// Appends bytes, as AtomicFile does. At most a page at once, and never none.
using ByteSink = std::function<Status(const void* bytes, size_t size)>;
struct ByteSource {
  std::string name;              // for messages
  std::optional<uint64_t> size;  // none: of a stream, which goes as far as the head of what is read says
  // Gives `size` bytes, never none. Of a stream each byte is asked for once, in order.
  std::function<Status(uint64_t offset, void* out, size_t size)> read_at;
};
ByteSource SourceOf(const File& file);  // which must outlive it

// The sequence must not change meanwhile; other sequences of the pool may. Takes memory for one page: kOutOfMemory.
Status WriteSession(const Sequence& sequence, const SessionFacts& facts, const ByteSink& sink);
// How many bytes that writes.
uint64_t SessionBytes(const Sequence& sequence, const SessionFacts& facts);
Status SaveSession(const Sequence& sequence, const SessionFacts& facts, const std::string& path);

class SessionReader {
 public:
  // Reads and checks the head, whose claim to be long takes no more memory than its bytes do that have come. Errors: kCorrupt (no
  // session file, cut short, changed), kUnsupported (another version, variant, model, cache type, page layout or size of the state),
  // kExhausted (more than n_ctx tokens), kOutOfMemory, and what the source says.
  static Result<SessionReader> Open(ByteSource source, const SessionFacts& facts, const RestoreOptions& options,
                                    const PagePool& pool);
  // Of the pages that the file has, those that the pool's sequences would still have after reading the text.
  const SequenceShape& shape() const { return shape_; }
  int64_t placed_from() const { return placed_from_; }  // as it was written; INT64_MAX: no token of the text
  // Reads all of the source once, as ReadPages does, into nothing. What ReadPages says. REQUIRES: the source has a size.
  Status Check() const;
  // Once. Fills the pages and the recurrent state of a sequence of shape(). kCorrupt when the checksum is another; the sequence is then of no use.
  Status ReadPages(Sequence& sequence);

 private:
  SessionReader() = default;
  void PassUnseenPages(const PagePool& pool);
  Status CheckSum(uint64_t offset, const Checksum& sum) const;
  Status Pass(uint64_t bytes, uint64_t* offset, Checksum* sum) const;
  ByteSource source_;
  SequenceShape shape_;
  std::vector<size_t> passed_;  // [groups] pages of the file that the shape does not have
  int64_t placed_from_ = INT64_MAX;
  uint64_t head_bytes_ = 0;
  Checksum sum_;  // of the head
};

}  // namespace moonlit
