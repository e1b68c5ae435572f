// SPDX-License-Identifier: Apache-2.0
// Packed weights in a file, so that a later load reads them instead of packing the model's file again.
//
//   const PackedCache cache(folder, key);
//   if (!cache.Read(memory, bytes, pool, progress).ok()) { ...pack...; cache.Write(memory, bytes, pool); }
//
// The file's name and header have the key: what was packed, how, for which kernels. Every MiB has a checksum that is compared when
// it is read, so a damaged file is found out before a wrong weight is used. A file appears whole or not at all (AtomicFile).
//
// Layout, in the machine's byte order (which the header shows): the header below, a checksum for every chunk, zeros up to a
// multiple of 4096 bytes, the packed weights as they lie in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/status.h"
#include "runtime/threads/pool.h"

namespace moonlit {

struct PackedCacheKey {
  uint64_t source;  // what was packed: WeightSource::Fingerprint
  uint64_t layout;  // how: variant, every weight's kernel and place, and the bytes that packing gives for a sample
};

class PackedCache {
 public:
  using Progress = std::function<bool(uint64_t done, uint64_t total)>;

  PackedCache(const std::string& folder, const PackedCacheKey& key);

  const std::string& path() const { return path_; }

  // Fills memory [bytes]. kNotFound when there is no file; kCorrupt for one that is damaged, cut short or holds something else;
  // kCancelled when `progress` (may be empty) returns false. After an error the memory's contents are undefined.
  Status Read(uint8_t* memory, size_t bytes, ThreadPool& pool, const Progress& progress) const;

  // kNotFound (no such folder), kIo (for example a full disk): then there is no new file.
  Status Write(const uint8_t* memory, size_t bytes, ThreadPool& pool) const;

 private:
  PackedCacheKey key_;
  std::string path_;
};

}  // namespace moonlit
