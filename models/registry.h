// SPDX-License-Identifier: Apache-2.0
// The one list of architectures: from a file's metadata and tensors to a graph.
//
//   MOONLIT_ASSIGN_OR_RETURN(LoadedGraph model, LoadGraph(metadata, source));
//   auto plan = Plan::Create(model.graph, source, options);
#pragma once

#include <string>
#include <vector>

#include "models/common/config.h"
#include "runtime/base/status.h"
#include "runtime/graph/graph.h"
#include "runtime/weights/metadata.h"
#include "runtime/weights/weight_source.h"

namespace moonlit {

struct LoadedGraph {
  ModelConfig config;
  Graph graph;
  std::vector<std::string> unused_tensors;  // in the file, but no part of the graph; worth a line in the log
};

// Errors: kUnsupported names an unknown architecture and lists the known ones, or names tensors that are missing; kCorrupt names a
// metadata key out of range or a tensor that has another shape, with expected and found.
Result<LoadedGraph> LoadGraph(const Metadata& metadata, const WeightSource& source);

// Names as in general.architecture, sorted.
std::vector<std::string> SupportedArchitectures();

}  // namespace moonlit
