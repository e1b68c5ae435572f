// SPDX-License-Identifier: Apache-2.0
// A source's tensors as a GGUF file: encoded by all threads, written in order, and never more in memory than a batch of pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/status.h"
#include "runtime/gguf/gguf_writer.h"
#include "runtime/threads/pool.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

struct WriteTensorsOptions {
  ThreadPoolOptions pool = {};  // who encodes
  // Bytes written, of total. Returning false cancels (kCancelled).
  std::function<bool(uint64_t done, uint64_t total)> progress = {};
};

// Every tensor of `source` in the header of `writer`, in order.
void AddTensors(const WeightSource& source, GgufWriter* writer);

// `writer` has its keys already; it gets every tensor of `source`, in order, and is finished. Nothing stands under `path` unless
// everything went well. The bytes do not depend on the number of threads. Errors: of the source, of the writer, kCancelled.
Status WriteTensors(const WeightSource& source, const std::string& path, const WriteTensorsOptions& options,
                    GgufWriter* writer);

}  // namespace moonlit
