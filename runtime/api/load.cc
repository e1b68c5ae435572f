// SPDX-License-Identifier: Apache-2.0
#include "runtime/api/load.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <map>
#include <utility>

#include "models/poet/poet.h"
#include "models/registry.h"
#include "runtime/api/find_model.h"
#include "runtime/base/checksum.h"
#include "runtime/base/memory.h"
#include "runtime/convert/check_model.h"
#include "runtime/convert/hugging_face.h"
#include "runtime/convert/quantize.h"
#include "runtime/exec/plan.h"
#include "runtime/weights/gguf_source.h"

namespace moonlit {
namespace {

constexpr char kPoet[] = "poet";

// A model before its graph is built, whatever holds it.
struct OpenedModel {
  std::shared_ptr<const WeightSource> weights;
  std::shared_ptr<const Metadata> metadata;
  std::shared_ptr<const GgufSource> gguf;     // null for a folder
  std::shared_ptr<const MetadataMap> folder;  // null for a file
  std::string folder_header;                  // that the folder's GGUF file would have; empty for a file
};

Result<std::unique_ptr<GgufSource>> OpenGguf(const std::string& path) {
  if (path != kPoet) return GgufSource::Open(path);
  const EmbeddedFile embedded = EmbeddedPoet();
  if (embedded.data != nullptr) return GgufSource::OpenMemory(embedded.data, embedded.size, "poet (built in)");
  MOONLIT_ASSIGN_OR_RETURN(const std::string found, FindPoet());
  return GgufSource::Open(found);
}

OpenedModel FromGguf(std::unique_ptr<GgufSource> opened) {
  const std::shared_ptr<const GgufSource> source = std::move(opened);
  // The metadata live as long as the source.
  return {source, std::shared_ptr<const Metadata>(source, &source->metadata()), source, nullptr, ""};
}

Result<std::string> FindPath(const std::string& path) {
  return path == kPoet || IsFolder(path) ? Result<std::string>(path) : FindModel(path);
}

Result<OpenedModel> Open(const std::string& path, const LoadOptions& options) {
  MOONLIT_ASSIGN_OR_RETURN(const std::string found, FindPath(path));
  OpenedModel model;
  if (IsFolder(found)) {
    MOONLIT_ASSIGN_OR_RETURN(const HuggingFaceModel folder, OpenHuggingFace(found, options.pre_tokenizer));
    model = {folder.weights, folder.metadata, nullptr, folder.metadata, HeaderOf(folder)};
  } else {
    MOONLIT_ASSIGN_OR_RETURN(std::unique_ptr<GgufSource> opened, OpenGguf(found));
    model = FromGguf(std::move(opened));
  }
  if (options.quantize.empty()) return model;
  MOONLIT_ASSIGN_OR_RETURN(const FileType type, FindFileType(options.quantize));
  QuantizeReport report;
  MOONLIT_ASSIGN_OR_RETURN(model.weights, EncodeForFile(model.weights, *model.metadata, type, {}, nullptr, &report));
  return model;
}

// Headers, which name and place every tensor (of a folder: what its metadata and tensors would be in one), and samples of the
// weights: models of one shape differ there.
Result<std::string> Identify(const ModelConfig& config, const OpenedModel& model) {
  const WeightSource& source = *model.weights;
  constexpr uint64_t kSamples = 64;
  constexpr size_t kSampleBytes = 64;
  Checksum sum;
  if (model.gguf != nullptr) {
    for (const GgufFile& file : model.gguf->files()) sum.Add(file.header().data(), file.header().size());
  } else {
    sum.Add(model.folder_header.data(), model.folder_header.size());
  }
  uint64_t total = 0, passed = 0, sample = 0;
  for (const TensorInfo* tensor : source.All()) total += tensor->bytes;
  for (const TensorInfo* tensor : source.All()) {
    for (; sample < kSamples && total / kSamples * sample < passed + tensor->bytes; ++sample) {
      const uint64_t offset = total / kSamples * sample - passed;
      uint8_t bytes[kSampleBytes];
      const auto size = static_cast<size_t>(std::min<uint64_t>(kSampleBytes, tensor->bytes - offset));
      MOONLIT_RETURN_IF_ERROR(source.Read(*tensor, offset, bytes, size));
      sum.Add(bytes, size);
    }
    passed += tensor->bytes;
  }
  char text[17];
  std::snprintf(text, sizeof(text), "%016" PRIx64, sum.Value());
  return (config.name.empty() ? config.architecture : config.name) + " " + text;
}

// Rows of the table of learned positions; 0: there is none.
size_t LearnedPositions(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    if (node.op == Op::kAddPositions) return graph.weights()[node.weights[0]].shape[0];
  }
  return 0;
}

ModelFacts CollectFacts(const ModelConfig& config, const WeightSource& source) {
  ModelFacts facts;
  facts.architecture = config.architecture;
  facts.name = config.name;
  facts.file = source.description();
  facts.files = source.Files();
  facts.n_vocab = config.vocab;
  facts.n_ctx_train = config.n_ctx_train;
  facts.n_layers = config.layers;
  facts.n_embd = config.width;
  facts.n_heads = config.heads;
  facts.n_kv_heads = config.kv_heads;
  std::map<Format, uint64_t> bytes_by_format;
  for (const TensorInfo* tensor : source.All()) {
    facts.parameters += tensor->shape.elements();
    facts.file_bytes += tensor->bytes;
    bytes_by_format[tensor->format] += tensor->bytes;
  }
  uint64_t most = 0;
  for (const auto& [format, bytes] : bytes_by_format) {
    if (bytes > most) {
      most = bytes;
      facts.file_type = Traits(format).name;
    }
  }
  return facts;
}

// Facts and plan; make_plan must be copyable, so the source and the graph are shared with it.
LoadedModel WithoutTokenizer(LoadedGraph loaded, const std::shared_ptr<const WeightSource>& source) {
  LoadedModel model;
  model.facts = CollectFacts(loaded.config, *source);
  model.facts.n_positions = LearnedPositions(loaded.graph);
  auto graph = std::make_shared<const Graph>(std::move(loaded.graph));
  model.make_plan = [source, graph](const PlanOptions& options) { return Plan::Create(*graph, *source, options); };
  return model;
}

}  // namespace

Result<LoadedModel> OpenModel(const std::string& path, const LoadOptions& options, MetadataTexts* metadata) {
  MOONLIT_ASSIGN_OR_RETURN(const OpenedModel opened, Open(path, options));
  if (metadata != nullptr) *metadata = opened.folder ? TextsOf(*opened.folder) : TextsOf(opened.gguf->files().front());
  MOONLIT_ASSIGN_OR_RETURN(CheckedModel checked, CheckModel(*opened.metadata, *opened.weights, options.pre_tokenizer));
  ReturnFreedMemory();
  MOONLIT_ASSIGN_OR_RETURN(std::string identity, Identify(checked.loaded.config, opened));
  LoadedModel model = WithoutTokenizer(std::move(checked.loaded), opened.weights);
  model.tokenizer = std::move(checked.tokenizer);
  model.facts.identity = std::move(identity);
  return model;
}

Result<LoadedModel> OpenLayout(const std::string& path, const LoadOptions& options) {
  MOONLIT_ASSIGN_OR_RETURN(const OpenedModel opened, Open(path, options));
  Result<LoadedGraph> loaded = LoadGraph(*opened.metadata, *opened.weights);
  if (!loaded.ok()) return loaded.status().WithContext("file " + opened.weights->description());
  return WithoutTokenizer(std::move(loaded).value(), opened.weights);
}

Result<std::unique_ptr<const Tokenizer>> OpenTokenizer(const std::string& path, const LoadOptions& options,
                                                       MetadataTexts* metadata) {
  MOONLIT_ASSIGN_OR_RETURN(const std::string found, FindPath(path));
  if (IsFolder(found)) {
    MOONLIT_ASSIGN_OR_RETURN(const std::shared_ptr<const MetadataMap> map,
                             OpenHuggingFaceTokenizer(found, options.pre_tokenizer));
    if (metadata != nullptr) *metadata = TextsOf(*map);
    return CheckTokenizer(*map, found, options.pre_tokenizer);
  }
  MOONLIT_ASSIGN_OR_RETURN(const std::unique_ptr<GgufSource> source, OpenGguf(found));
  if (metadata != nullptr) *metadata = TextsOf(source->files().front());
  return CheckTokenizer(source->metadata(), source->description(), options.pre_tokenizer);
}

}  // namespace moonlit
