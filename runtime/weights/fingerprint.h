// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "runtime/base/checksum.h"
#include "runtime/base/file.h"
#include "runtime/base/status.h"

namespace moonlit {

// A file's part of WeightSource::Fingerprint: size, time of change, inode, header, and 64 blocks of 4 KiB, evenly spread with the
// last one at the end: a file that was changed in place under its old time is found out too. Reads 256 KiB.
Status AddFingerprint(const File& file, const void* header, size_t header_bytes, Checksum* sum);

}  // namespace moonlit
