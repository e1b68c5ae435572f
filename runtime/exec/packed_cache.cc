// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/packed_cache.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

#include "kernels/base/round.h"
#include "runtime/base/checksum.h"
#include "runtime/base/file.h"
#include "runtime/exec/load_progress.h"

namespace moonlit {
namespace {

constexpr char kMagic[8] = {'M', 'o', 'o', 'n', 'P', 'a', 'c', 'k'};
constexpr uint32_t kVersion = 1;
constexpr uint32_t kByteOrder = 0x01020304;
constexpr size_t kChunkBytes = size_t{1} << 20;  // stays in a core's cache between pread and its checksum
constexpr size_t kPage = 4096;

struct Header {
  char magic[8];
  uint32_t version;
  uint32_t byte_order;
  uint64_t source, layout;
  uint64_t bytes;
  uint64_t chunk_bytes;
  uint64_t chunk_sums;  // checksum of the chunks' checksums
  uint64_t checksum;    // of everything before
};
static_assert(sizeof(Header) == 64, "no padding: the header is written as it lies in memory");

Header MakeHeader(const PackedCacheKey& key, uint64_t bytes, uint64_t chunk_sums) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.byte_order = kByteOrder;
  header.source = key.source;
  header.layout = key.layout;
  header.bytes = bytes;
  header.chunk_bytes = kChunkBytes;
  header.chunk_sums = chunk_sums;
  header.checksum = ChecksumOf(&header, offsetof(Header, checksum));
  return header;
}

size_t ChunkCount(size_t bytes) { return CeilDiv(bytes, kChunkBytes); }
uint64_t PayloadOffset(size_t chunks) { return RoundUp(sizeof(Header) + chunks * sizeof(uint64_t), kPage); }

// Shared by the tasks that read or sum chunks. Task i is chunk i.
struct ChunkJob {
  const File* file = nullptr;  // null: only sums
  uint8_t* memory = nullptr;
  size_t bytes = 0;
  uint64_t payload = 0;
  uint64_t* sums = nullptr;
  LoadProgress* progress = nullptr;

  Status ReadChunk(size_t chunk, size_t size) {
    uint8_t* out = memory + chunk * kChunkBytes;
    MOONLIT_RETURN_IF_ERROR(file->ReadAt(payload + uint64_t{chunk} * kChunkBytes, out, size));
    if (ChecksumOf(out, size) == sums[chunk]) return Status();
    return Errorf(Code::kCorrupt, "%s: the bytes of chunk %zu are damaged", file->path().c_str(), chunk);
  }

  static void RunTask(void* context, size_t chunk, size_t thread) {
    ChunkJob& job = *static_cast<ChunkJob*>(context);
    const size_t size = std::min(kChunkBytes, job.bytes - chunk * kChunkBytes);
    if (job.file == nullptr) {
      job.sums[chunk] = ChecksumOf(job.memory + chunk * kChunkBytes, size);
      return;
    }
    try {
      Status fault = job.ReadChunk(chunk, size);
      if (!fault.ok()) return job.progress->Fail(std::move(fault));
      job.progress->Add(size, thread);
    } catch (const std::bad_alloc&) {
      job.progress->FailForMemory();
    }
  }
};

std::string PathOf(const std::string& folder, const PackedCacheKey& key) {
  char name[64];
  std::snprintf(name, sizeof name, "%016" PRIx64 "-%016" PRIx64 ".packed", key.source, key.layout);
  return folder.empty() ? name : folder + "/" + name;
}

Status OtherContents(const std::string& path, const char* what) {
  return Errorf(Code::kCorrupt, "%s: %s", path.c_str(), what);
}

// Reads and checks all but the packed weights.
Result<std::vector<uint64_t>> ReadSums(const File& file, const PackedCacheKey& key, size_t bytes) {
  const size_t chunks = ChunkCount(bytes);
  Header header;
  if (file.size() < sizeof header) return OtherContents(file.path(), "it is cut short");
  MOONLIT_RETURN_IF_ERROR(file.ReadAt(0, &header, sizeof header));
  // Comparing with the header that it must have leaves no field unchecked; only the table's checksum is the file's own.
  const Header expected = MakeHeader(key, bytes, header.chunk_sums);
  if (std::memcmp(&header, &expected, sizeof header) != 0) {
    return OtherContents(file.path(),
                         "its header is not that of these weights, packed by this version for this variant");
  }
  if (file.size() != PayloadOffset(chunks) + bytes)
    return OtherContents(file.path(), "it has another size than it must");
  std::vector<uint64_t> sums(chunks);
  MOONLIT_RETURN_IF_ERROR(file.ReadAt(sizeof header, sums.data(), chunks * sizeof(uint64_t)));
  if (ChecksumOf(sums.data(), chunks * sizeof(uint64_t)) != header.chunk_sums) {
    return OtherContents(file.path(), "its table of checksums is damaged");
  }
  return sums;
}

}  // namespace

PackedCache::PackedCache(const std::string& folder, const PackedCacheKey& key)
    : key_(key), path_(PathOf(folder, key)) {}

Status PackedCache::Read(uint8_t* memory, size_t bytes, ThreadPool& pool, const Progress& progress) const {
  MOONLIT_ASSIGN_OR_RETURN(const File file, File::Open(path_));
  MOONLIT_ASSIGN_OR_RETURN(std::vector<uint64_t> sums, ReadSums(file, key_, bytes));
  ChunkJob job;
  job.file = &file;
  job.memory = memory;
  job.bytes = bytes;
  job.payload = PayloadOffset(sums.size());
  job.sums = sums.data();
  LoadProgress shared(&progress, bytes);
  job.progress = &shared;
  const Stage stage{sums.size(), &ChunkJob::RunTask, &job};
  return shared.Finish(pool.Run({&stage, 1}, shared.stop()));
}

Status PackedCache::Write(const uint8_t* memory, size_t bytes, ThreadPool& pool) const {
  std::vector<uint64_t> sums(ChunkCount(bytes));
  ChunkJob job;
  job.memory = const_cast<uint8_t*>(memory);  // summed, not written
  job.bytes = bytes;
  job.sums = sums.data();
  const Stage stage{sums.size(), &ChunkJob::RunTask, &job};
  MOONLIT_RETURN_IF_ERROR(pool.Run({&stage, 1}));

  const size_t table = sums.size() * sizeof(uint64_t);
  std::vector<uint8_t> head(PayloadOffset(sums.size()));
  const Header header = MakeHeader(key_, bytes, ChecksumOf(sums.data(), table));
  std::memcpy(head.data(), &header, sizeof header);
  std::memcpy(head.data() + sizeof header, sums.data(), table);
  MOONLIT_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path_));
  MOONLIT_RETURN_IF_ERROR(file.Append(head.data(), head.size()));
  MOONLIT_RETURN_IF_ERROR(file.Append(memory, bytes));
  return file.Commit();
}

}  // namespace moonlit
