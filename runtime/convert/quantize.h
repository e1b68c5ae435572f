// SPDX-License-Identifier: Apache-2.0
// A GGUF file (or a split set) written anew with its weights in other formats. Metadata is kept, but for what says how the
// weights are stored: general.file_type, general.quantization_version, general.alignment, split.*.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/base/status.h"
#include "runtime/convert/file_type.h"
#include "runtime/convert/imatrix.h"
#include "runtime/gguf/gguf_writer.h"
#include "runtime/threads/pool.h"
#include "runtime/weights/metadata.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

struct QuantizeOptions {
  std::string type = {};                                             // a name of file_type.h
  std::string imatrix = {};                                          // path of an importance matrix; empty: none
  bool pure = false;                                                 // no mixture: every matrix in the type's format
  bool allow_requantize = false;                                     // from weights that have lost precision already
  ThreadPoolOptions pool = {};                                       // who encodes
  std::function<bool(uint64_t done, uint64_t total)> progress = {};  // bytes written; false cancels
};

struct QuantizeReport {
  std::string type;  // as it was understood: "Q4_K_M"
  uint64_t parameters = 0;
  uint64_t source_bytes = 0;  // of tensors
  uint64_t bytes = 0;
  size_t tensors = 0;
  size_t fallbacks = 0;  // tensors whose rows are no multiple of 256, where one was wanted
};

// Errors: kInvalidArgument (unknown type, `out` is one of the input's files, quantized weights without allow_requantize, an
// importance matrix of another model), kNotFound, kCorrupt, kIo, kUnsupported, kCancelled. On any of them nothing stands under
// `out` that did not before.
Result<QuantizeReport> QuantizeFile(const std::string& in, const std::string& out, const QuantizeOptions& options);

// What QuantizeFile and conversion share: the source with its tensors in the formats that the options ask for, and the keys that
// say so. `report` gets what is known before anything is written.
Result<std::unique_ptr<WeightSource>> EncodeForFile(std::shared_ptr<const WeightSource> source,
                                                    const Metadata& metadata, const FileType& type,
                                                    const QuantizeOptions& options, GgufWriter* writer,
                                                    QuantizeReport* report);

}  // namespace moonlit
