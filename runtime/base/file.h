// SPDX-License-Identifier: Apache-2.0
// Files as the rest of the runtime sees them: read by position with pread (a file that shrinks while we read it is a Status, not
// a SIGBUS), written whole or not at all.
//
//   MOONLIT_ASSIGN_OR_RETURN(File file, File::Open(path));
//   MOONLIT_RETURN_IF_ERROR(file.ReadAt(0, header, sizeof(header)));
//
//   MOONLIT_ASSIGN_OR_RETURN(AtomicFile out, AtomicFile::Create(path));   // writes beside `path`
//   MOONLIT_RETURN_IF_ERROR(out.Append(bytes, size));
//   MOONLIT_RETURN_IF_ERROR(out.Commit());                                // only now does `path` exist
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "runtime/base/status.h"

namespace moonlit {

// What tells two states of a file apart without reading it (the key of caches made from it).
struct FileIdentity {
  uint64_t size = 0;
  int64_t modified_ns = 0;  // nanoseconds since 1970
  uint64_t inode = 0;
  uint64_t device = 0;
  bool operator==(const FileIdentity&) const = default;
};

// An open regular file, read only. Move only; const functions may be called from several threads at once.
class File {
 public:
  File() = default;
  // kNotFound, kInvalidArgument (a directory, pipe or device: positions need a regular file) or kIo, naming the path.
  static Result<File> Open(const std::string& path);
  File(File&& other) noexcept { Swap(other); }
  File& operator=(File&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~File();

  // Reads exactly `size` bytes at `offset`. kCorrupt when the file ends before (naming path, offset and both sizes), kIo when the
  // system fails. Bytes of `out` are undefined after an error.
  Status ReadAt(uint64_t offset, void* out, size_t size) const;

  uint64_t size() const { return identity_.size; }  // when it was opened
  const std::string& path() const { return path_; }
  const FileIdentity& identity() const { return identity_; }

 private:
  void Swap(File& other) noexcept;
  int descriptor_ = -1;
  FileIdentity identity_;
  std::string path_;
};

// All of a file of at most `most` bytes. kCorrupt for a larger one; errors of File.
Result<std::string> ReadText(const std::string& path, uint64_t most);

// kInvalidArgument when `out` is, by whatever name (links are followed), one of `inputs`: whoever writes asks before, with every file
// that is read for it. What does not exist is neither. One rule for all: device and inode.
Status RefuseInputs(const std::string& out, std::span<const std::string> inputs);

// A file that appears complete or not at all: written under a temporary name in the same folder, then synchronised, renamed, and
// the folder synchronised. Destroying it without Commit() removes the temporary file and leaves an older `path` as it was.
// Move only; one thread at a time.
class AtomicFile {
 public:
  AtomicFile() = default;
  // kNotFound (no such folder), kInvalidArgument (a folder, pipe or device is there, or a link to one: renaming would put a file in
  // the place of /dev/null) or kIo. A symbolic link at `path` is replaced, not followed.
  static Result<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept { Swap(other); }
  AtomicFile& operator=(AtomicFile&& other) noexcept {
    Swap(other);
    return *this;
  }
  ~AtomicFile();

  // Adds bytes at the end. After an error (kIo, for example a full disk) every later call fails too.
  Status Append(const void* bytes, size_t size);
  Status Commit();
  uint64_t size() const { return size_; }  // bytes appended so far

 private:
  void Swap(AtomicFile& other) noexcept;
  void Discard();
  // The temporary name is no longer there, or no longer ours.
  void Forget();
  Status Fail(const char* action);
  int descriptor_ = -1;
  uint64_t size_ = 0;
  std::string path_;
  std::string temporary_;
  int slot_ = -1;  // of the unfinished files
};

// Removes the temporary files of every AtomicFile of this process, which are of no use after it: for a handler of signals that end
// it, and async-signal-safe. Writing on ends in a Status.
void RemoveUnfinishedFiles() noexcept;

}  // namespace moonlit
