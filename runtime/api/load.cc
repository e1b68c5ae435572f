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
#include "runtime/api/tokenizer_metadata.h"
#include "runtime/base/checksum.h"
#include "runtime/base/log.h"
#include "runtime/exec/plan.h"
#include "runtime/weights/gguf_source.h"

namespace moonlit {
namespace {

constexpr char kPoet[] = "poet";

Result<std::unique_ptr<GgufSource>> OpenSource(const std::string& path) {
  if (path != kPoet) {
    MOONLIT_ASSIGN_OR_RETURN(const std::string found, FindModel(path));
    return GgufSource::Open(found);
  }
  const EmbeddedFile embedded = EmbeddedPoet();
  if (embedded.data != nullptr) return GgufSource::OpenMemory(embedded.data, embedded.size, "poet (built in)");
  MOONLIT_ASSIGN_OR_RETURN(const std::string found, FindPoet());
  return GgufSource::Open(found);
}

Result<std::unique_ptr<const Tokenizer>> MakeTokenizer(const GgufSource& source) {
  Result<TokenizerData> data = ReadTokenizerData(source.metadata());
  if (!data.ok()) return data.status().WithContext("file " + source.description());
  Result<std::unique_ptr<const Tokenizer>> tokenizer = Tokenizer::Create(std::move(data).value());
  if (!tokenizer.ok()) return tokenizer.status().WithContext("file " + source.description());
  const std::string& warning = (*tokenizer)->warning();
  if (!warning.empty()) Logf(LogLevel::kWarning, "file %s: %s", source.description().c_str(), warning.c_str());
  return tokenizer;
}

// Headers, which name and place every tensor, and samples of the weights: models of one shape differ there.
Result<std::string> Identify(const ModelConfig& config, const GgufSource& source) {
  constexpr uint64_t kSamples = 64;
  constexpr size_t kSampleBytes = 64;
  Checksum sum;
  for (const GgufFile& file : source.files()) sum.Add(file.header().data(), file.header().size());
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

ModelFacts CollectFacts(const ModelConfig& config, const GgufSource& source) {
  ModelFacts facts;
  facts.architecture = config.architecture;
  facts.name = config.name;
  facts.file = source.description();
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

}  // namespace

Result<LoadedModel> OpenModel(const std::string& path) {
  MOONLIT_ASSIGN_OR_RETURN(std::unique_ptr<GgufSource> opened, OpenSource(path));
  // make_plan must be copyable, so the source and the graph are shared with it.
  std::shared_ptr<GgufSource> source = std::move(opened);
  Result<LoadedGraph> loaded = LoadGraph(source->metadata(), *source);
  if (!loaded.ok()) return loaded.status().WithContext("file " + source->description());
  if (!loaded->unused_tensors.empty()) {
    Logf(LogLevel::kWarning,
         "file %s: %zu tensors are no part of a model of this architecture and are not used, for example %s",
         source->description().c_str(), loaded->unused_tensors.size(), loaded->unused_tensors[0].c_str());
  }
  LoadedModel model;
  MOONLIT_ASSIGN_OR_RETURN(model.tokenizer, MakeTokenizer(*source));
  model.facts = CollectFacts(loaded->config, *source);
  MOONLIT_ASSIGN_OR_RETURN(model.facts.identity, Identify(loaded->config, *source));
  if (static_cast<size_t>(model.tokenizer->vocab_size()) > model.facts.n_vocab) {
    return Errorf(Code::kCorrupt, "file %s: the tokenizer has %d tokens, but token_embd.weight only %zu rows",
                  source->description().c_str(), model.tokenizer->vocab_size(), model.facts.n_vocab);
  }
  auto graph = std::make_shared<const Graph>(std::move(loaded->graph));
  model.make_plan = [source, graph](const PlanOptions& options) { return Plan::Create(*graph, *source, options); };
  return model;
}

Result<std::unique_ptr<const Tokenizer>> OpenTokenizer(const std::string& path) {
  MOONLIT_ASSIGN_OR_RETURN(std::unique_ptr<GgufSource> source, OpenSource(path));
  return MakeTokenizer(*source);
}

}  // namespace moonlit
