// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <iterator>
#include <system_error>

namespace moonlit {
namespace {

// A 32-bit build must still reach the end of a 6 GB model (MoonlitTargets.cmake sets _FILE_OFFSET_BITS).
static_assert(sizeof(off_t) == 8, "build with _FILE_OFFSET_BITS=64");

// Linux transfers at most 2^31 - 4096 bytes a call; other systems refuse more than INT_MAX.
constexpr size_t kMaxTransfer = size_t{1} << 30;

// strerror is not thread safe everywhere; std::generic_category's message is.
std::string SystemMessage(int error) { return std::generic_category().message(error); }

Status SystemError(const std::string& path, const char* action, int error) {
  return Errorf(error == ENOENT || error == ENOTDIR ? Code::kNotFound : Code::kIo, "%s: can't %s: %s", path.c_str(),
                action, SystemMessage(error).c_str());
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

int OpenRetrying(const char* path, int flags, mode_t mode) {
  int descriptor;
  do {
    descriptor = open(path, flags | O_CLOEXEC, mode);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

int64_t ModifiedNanoseconds(const struct stat& info) {
#ifdef __APPLE__
  return int64_t{info.st_mtimespec.tv_sec} * 1000000000 + info.st_mtimespec.tv_nsec;
#else
  return int64_t{info.st_mtim.tv_sec} * 1000000000 + info.st_mtim.tv_nsec;
#endif
}

// Names of temporary files where a signal handler finds them: it may not allocate or wait for a lock. A slot's name belongs to the
// owner of kBusy. More files at once than slots stay behind when a signal ends the process.
struct Unfinished {
  enum State : int { kFree, kBusy, kListed };
  std::atomic<int> state{kFree};
  char path[4096] = {};  // the longest that Linux opens
};
Unfinished unfinished[16];
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may wait for nothing");

// -1: there is no room.
int List(const std::string& path) {
  for (int slot = 0; slot < static_cast<int>(std::size(unfinished)); ++slot) {
    int expected = Unfinished::kFree;
    if (path.size() >= sizeof unfinished[slot].path) break;
    if (!unfinished[slot].state.compare_exchange_strong(expected, Unfinished::kBusy)) continue;
    std::memcpy(unfinished[slot].path, path.c_str(), path.size() + 1);
    unfinished[slot].state.store(Unfinished::kListed);
    return slot;
  }
  return -1;
}

}  // namespace

void RemoveUnfinishedFiles() noexcept {
  for (Unfinished& file : unfinished) {
    int expected = Unfinished::kListed;
    if (!file.state.compare_exchange_strong(expected, Unfinished::kBusy)) continue;
    unlink(file.path);
    file.state.store(Unfinished::kListed);
  }
}

Result<File> File::Open(const std::string& path) {
  if (path.empty()) return Status(Code::kNotFound, "expected the name of a file, found an empty one");
  File file;
  file.path_ = path;
  // O_NONBLOCK: opening a named pipe must not wait for a writer; regular files ignore it.
  file.descriptor_ = OpenRetrying(path.c_str(), O_RDONLY | O_NONBLOCK, 0);
  if (file.descriptor_ < 0) return SystemError(path, "open it for reading", errno);
  struct stat info;
  if (fstat(file.descriptor_, &info) != 0) return SystemError(path, "ask for its size", errno);
  if (!S_ISREG(info.st_mode)) {
    return Errorf(
        Code::kInvalidArgument, "%s: expected a regular file, found a %s", path.c_str(),
        S_ISDIR(info.st_mode) ? "folder; name the file inside it" : "pipe or device; save it to a file first");
  }
  file.identity_.size = static_cast<uint64_t>(info.st_size);
  file.identity_.modified_ns = ModifiedNanoseconds(info);
  file.identity_.inode = static_cast<uint64_t>(info.st_ino);
  file.identity_.device = static_cast<uint64_t>(info.st_dev);
  return file;
}

File::~File() {
  if (descriptor_ >= 0) close(descriptor_);
}

void File::Swap(File& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(identity_, other.identity_);
  path_.swap(other.path_);
}

Status File::ReadAt(uint64_t offset, void* out, size_t size) const {
  if (offset > static_cast<uint64_t>(INT64_MAX) - size) {
    return Errorf(Code::kInvalidArgument, "%s: can't read %zu bytes at offset %" PRIu64 ": no file is that long",
                  path_.c_str(), size, offset);
  }
  size_t done = 0;
  while (done < size) {
    const size_t want = std::min(size - done, kMaxTransfer);
    const ssize_t got = pread(descriptor_, static_cast<uint8_t*>(out) + done, want, static_cast<off_t>(offset + done));
    if (got < 0) {
      if (errno == EINTR) continue;
      return SystemError(path_, "read it", errno);
    }
    if (got == 0) {
      return Errorf(Code::kCorrupt,
                    "%s: expected %zu bytes at offset %" PRIu64 ", found %zu before the end of the file (%" PRIu64
                    " bytes when opened); it is cut short or was changed while in use",
                    path_.c_str(), size, offset, done, identity_.size);
    }
    done += static_cast<size_t>(got);
  }
  return Status();
}

Result<std::string> ReadText(const std::string& path, uint64_t most) {
  MOONLIT_ASSIGN_OR_RETURN(const File file, File::Open(path));
  if (file.size() > most) {
    return Errorf(Code::kCorrupt, "file %s: expected at most %" PRIu64 " bytes, found %" PRIu64, path.c_str(), most,
                  file.size());
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  MOONLIT_RETURN_IF_ERROR(file.ReadAt(0, text.data(), text.size()));
  return text;
}

Status RefuseInputs(const std::string& out, std::span<const std::string> inputs) {
  struct stat target, info;
  if (stat(out.c_str(), &target) != 0) return Status();
  for (const std::string& input : inputs) {
    if (stat(input.c_str(), &info) != 0 || info.st_ino != target.st_ino || info.st_dev != target.st_dev) continue;
    return Errorf(Code::kInvalidArgument, "%s would be written over an input (%s): give another name for the output",
                  out.c_str(), input.c_str());
  }
  return Status();
}

Result<AtomicFile> AtomicFile::Create(const std::string& path) {
  static std::atomic<uint32_t> counter{0};
  if (path.empty() || path.back() == '/') {
    return Errorf(Code::kInvalidArgument, "expected the name of a file to write, found \"%s\"", path.c_str());
  }
  AtomicFile file;
  file.path_ = path;
  struct stat info;
  if (stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
    return Errorf(Code::kInvalidArgument, "%s: expected a name for a file, found a %s there", path.c_str(),
                  S_ISDIR(info.st_mode) ? "folder" : "pipe or device");
  }
  int error = 0;
  // O_EXCL never opens somebody's file or link of that name; a leftover of a crashed process with our id costs one more try.
  for (int attempt = 0; attempt < 100; ++attempt) {
    file.temporary_ = path + ".part-" + std::to_string(getpid()) + "-" + std::to_string(counter.fetch_add(1));
    // Listed before it is there: no moment is left out, and removing what is not there yet does no harm.
    file.slot_ = List(file.temporary_);
    file.descriptor_ = OpenRetrying(file.temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (file.descriptor_ >= 0) return file;
    error = errno;
    file.Forget();
    if (error != EEXIST) break;
  }
  return SystemError(path, "create it", error);
}

AtomicFile::~AtomicFile() { Discard(); }

void AtomicFile::Discard() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
  if (!temporary_.empty()) unlink(temporary_.c_str());
  Forget();
}

void AtomicFile::Forget() {
  temporary_.clear();
  if (slot_ < 0) return;
  // A handler on another thread may hold the name for the moment in which it removes the file.
  int expected = Unfinished::kListed;
  while (!unfinished[slot_].state.compare_exchange_weak(expected, Unfinished::kFree)) expected = Unfinished::kListed;
  slot_ = -1;
}

void AtomicFile::Swap(AtomicFile& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  path_.swap(other.path_);
  temporary_.swap(other.temporary_);
  std::swap(slot_, other.slot_);
}

Status AtomicFile::Fail(const char* action) {
  Status status = SystemError(path_, action, errno);
  Discard();
  return status;
}

Status AtomicFile::Append(const void* bytes, size_t size) {
  if (descriptor_ < 0)
    return Errorf(Code::kInvalidArgument, "%s: writing goes on after an error or the end", path_.c_str());
  size_t done = 0;
  while (done < size) {
    const ssize_t put =
        write(descriptor_, static_cast<const uint8_t*>(bytes) + done, std::min(size - done, kMaxTransfer));
    if (put < 0) {
      if (errno == EINTR) continue;
      return Fail("write it");
    }
    done += static_cast<size_t>(put);
  }
  size_ += size;
  return Status();
}

Status AtomicFile::Commit() {
  if (descriptor_ < 0) return Errorf(Code::kInvalidArgument, "%s: committed twice or after an error", path_.c_str());
  if (fsync(descriptor_) != 0) return Fail("write it to the disk");
  const int closing = descriptor_;
  descriptor_ = -1;
  // Linux frees the descriptor even when close reports EINTR.
  if (close(closing) != 0 && errno != EINTR) return Fail("finish writing it");
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return Fail("rename the finished file to it");
  Forget();
  // The name itself is safe only when the folder is on the disk too. Some file systems can't synchronise folders: that is no
  // reason to call a complete file a failure.
  const int folder = OpenRetrying(FolderOf(path_).c_str(), O_RDONLY | O_DIRECTORY, 0);
  if (folder >= 0) {
    const bool failed = fsync(folder) != 0 && errno == EIO;
    close(folder);
    if (failed) return Errorf(Code::kIo, "%s: written, but its folder can't be written to the disk", path_.c_str());
  }
  return Status();
}

}  // namespace moonlit
