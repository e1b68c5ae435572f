// SPDX-License-Identifier: Apache-2.0
// Reads one architecture's keys within stated ranges.
//
//   ConfigReader reader(metadata, "llama");
//   config.layers = reader.Count("block_count", 1, 1024);      // key "llama.block_count"
//   MOONLIT_RETURN_IF_ERROR(reader.status());
//
// The first fault is kept; later reads give the lower bound, so a reader is checked once at the end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/weights/metadata.h"

namespace moonlit {

class ConfigReader {
 public:
  ConfigReader(const Metadata& metadata, std::string architecture)
      : metadata_(metadata), prefix_(std::move(architecture) + ".") {}

  // An integer in [low, high]. Absent: `otherwise`, or a fault without one.
  size_t Count(const char* suffix, size_t low, size_t high, std::optional<size_t> otherwise = std::nullopt);
  // The same for the keys that files may give as one value a layer (head counts, feed-forward widths): an array counts when it has
  // `layers` entries and all are equal.
  size_t CountPerLayer(const char* suffix, size_t layers, size_t low, size_t high,
                       std::optional<size_t> otherwise = std::nullopt);
  // An array of one value a layer.
  std::vector<size_t> CountsPerLayer(const char* suffix, size_t layers, size_t low, size_t high);
  // A finite number in [low, high].
  double Number(const char* suffix, double low, double high, std::optional<double> otherwise = std::nullopt);
  bool Flag(const char* suffix, bool otherwise);
  // A string; absent: `otherwise`. Like the others, a fault when the file has another type, an array included.
  std::string Text(const char* suffix, const char* otherwise);
  bool Has(const char* suffix) const { return metadata_.Has(prefix_ + suffix); }
  // Keeps `status` if it is the first fault.
  void Fail(Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  const std::string& prefix() const { return prefix_; }
  const Status& status() const { return status_; }

 private:
  size_t CheckCount(const std::string& key, uint64_t value, size_t low, size_t high);
  const Metadata& metadata_;
  std::string prefix_;
  Status status_;
};

}  // namespace moonlit
