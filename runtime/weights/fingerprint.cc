// SPDX-License-Identifier: Apache-2.0
#include "runtime/weights/fingerprint.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace moonlit {

Status AddFingerprint(const File& file, const void* header, size_t header_bytes, Checksum* sum) {
  constexpr size_t kBlocks = 64, kBlockBytes = 4096;
  const FileIdentity& id = file.identity();
  const uint64_t words[] = {id.size, static_cast<uint64_t>(id.modified_ns), id.inode, id.device, header_bytes};
  sum->Add(words, sizeof words);
  sum->Add(header, header_bytes);
  std::vector<uint8_t> block(static_cast<size_t>(std::min<uint64_t>(kBlockBytes, file.size())));
  const uint64_t span = file.size() - block.size();
  for (size_t i = 1; i <= kBlocks; ++i) {
    const uint64_t offset = span / kBlocks * i + span % kBlocks * i / kBlocks;
    MOONLIT_RETURN_IF_ERROR(file.ReadAt(offset, block.data(), block.size()));
    sum->Add(block.data(), block.size());
  }
  return Status();
}

}  // namespace moonlit
