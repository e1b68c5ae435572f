// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/attention_maps.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/round.h"

namespace moonlit::cli {
namespace {

constexpr size_t kCaptureFloats = size_t{64} << 20;
constexpr size_t kFewestRows = 16;  // even if there are thousands of maps

bool Stronger(const StrongPair& a, const StrongPair& b) {
  if (a.weight != b.weight) return a.weight > b.weight;
  if (a.map != b.map) return a.map < b.map;
  return a.query != b.query ? a.query < b.query : a.key < b.key;
}

struct Job {
  size_t index;               // of the layer
  std::vector<size_t> heads;  // of it
};

bool IsAsked(const std::vector<uint32_t>& asked, size_t number) {
  return asked.empty() || std::find(asked.begin(), asked.end(), number) != asked.end();
}

Result<std::vector<Job>> FindJobs(const AttentionCapture& capture, const MapRequest& request) {
  if (capture.layers.empty()) return Status(Code::kUnsupported, "the model has no attention layers, so no weights");
  std::vector<Job> jobs;
  for (size_t i = 0; i < capture.layers.size(); ++i) {
    const TappedLayer& layer = capture.layers[i].facts;
    if (!IsAsked(request.layers, static_cast<size_t>(layer.layer))) continue;
    Job job{i, {}};
    for (size_t h = 0; h < layer.spec->heads; ++h) {
      if (IsAsked(request.heads, h)) job.heads.push_back(h);
    }
    for (uint32_t head : request.heads) {
      if (head < layer.spec->heads) continue;
      return Errorf(Code::kInvalidArgument, "--head %u: layer %d has heads 0 to %zu", head, layer.layer,
                    layer.spec->heads - 1);
    }
    jobs.push_back(std::move(job));
  }
  for (uint32_t number : request.layers) {
    const auto is = [&](const CapturedLayer& layer) { return layer.facts.layer == static_cast<int>(number); };
    if (std::any_of(capture.layers.begin(), capture.layers.end(), is)) continue;
    return Errorf(Code::kInvalidArgument,
                  "--layer %u: expected a layer with attention, from %d to %d (recurrent layers have no such weights)",
                  number, capture.layers.front().facts.layer, capture.layers.back().facts.layer);
  }
  return jobs;
}

std::vector<std::string> Labels(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  std::vector<std::string> labels;
  for (int32_t id : ids) labels.push_back(TokenLabel(tokenizer.TokenBytes(id, true)));
  return labels;
}

// Heads of one layer, a few at a time.
Status AddLayerMaps(LessonMachine& machine, const CapturedModel& model, const CapturedLayer& layer, const Job& job,
                    const MapRequest& request, const std::function<bool()>& go_on, AttentionMaps& out) {
  const size_t tokens = layer.first.size();
  const size_t at_once = std::max<size_t>(1, kTableFloats / (tokens * tokens));
  for (size_t first = 0; first < job.heads.size(); first += at_once) {
    if (go_on && !go_on()) return Status(Code::kCancelled, "interrupted");
    const size_t count = std::min(at_once, job.heads.size() - first);
    MOONLIT_ASSIGN_OR_RETURN(const HeadTables tables, ComputeHeads(machine, model, layer, job.index, first, count));
    for (size_t h = 0; h < count; ++h) {
      OfferPairs(tables.weights, h, layer, static_cast<uint32_t>(out.maps.size()), request.pairs, out.pairs);
      out.maps.push_back(MapOfHead(tables.weights, h, layer, out.bin));
      out.maps.back().head = job.heads[first + h];
      out.maps.back().difference = tables.differences[h];
      out.maps.back().strain = tables.strains[h];
      if (!std::isfinite(out.maps.back().least_sum) || !std::isfinite(out.maps.back().most_sum)) {
        return Errorf(Code::kCorrupt, "weights of layer %d, head %zu are no numbers: the model's weights are damaged",
                      out.maps.back().layer, out.maps.back().head);
      }
    }
  }
  return Status();
}

// Index of the job behind the last one whose queries and outputs fit beside those of `first`.
size_t EndOfPass(const AttentionCapture& capture, const std::vector<Job>& jobs, size_t first, size_t tokens) {
  size_t floats = 0, end = first;
  for (; end < jobs.size(); ++end) {
    const AttentionSpec& spec = *capture.layers[jobs[end].index].facts.spec;
    floats += tokens * jobs[end].heads.size() * (spec.key_dim + spec.value_dim);
    if (end > first && floats > kCaptureFloats) break;
  }
  return end;
}

AttentionMaps Describe(const CapturedModel& model, const std::vector<int32_t>& ids, size_t maps) {
  AttentionMaps out;
  out.model = NameLabel(model.facts().name.empty() ? model.facts().architecture : model.facts().name);
  out.variant = VariantName(model.variant());
  out.cache = std::string(CacheTypeName(model.options().key_type)) + "/" + CacheTypeName(model.options().value_type);
  out.tokens = Labels(model.tokenizer(), ids);
  out.bin = BinOf(ids.size(), maps);
  out.rows = CeilDiv(ids.size(), out.bin);
  return out;
}

}  // namespace

size_t BinOf(size_t tokens, size_t maps) {
  const auto fits = static_cast<size_t>(std::sqrt(static_cast<double>(kMostCells) / static_cast<double>(maps)));
  return CeilDiv(tokens, std::clamp(fits, kFewestRows, kMostMapRows));
}

std::string AttentionMaps::RowLabel(size_t row) const {
  if (bin == 1) return tokens[row];
  std::string label = std::to_string(FirstToken(row)) + "-" + std::to_string(EndToken(row) - 1) + " ";
  for (size_t t = FirstToken(row); t < EndToken(row); ++t) label += tokens[t];
  return label;
}

Result<AttentionMaps> MakeMaps(CapturedModel& model, const std::vector<int32_t>& ids, const MapRequest& request,
                               const MapProgress& progress) {
  if (ids.size() > kMostTokens) {
    return Errorf(Code::kInvalidArgument,
                  "the text has %zu tokens; expected at most %zu, of which a head's table has the square", ids.size(),
                  kMostTokens);
  }
  AttentionCapture& capture = model.capture();
  MOONLIT_ASSIGN_OR_RETURN(const std::vector<Job> jobs, FindJobs(capture, request));
  if (ids.empty()) return Status(Code::kInvalidArgument, "the text has no tokens");
  size_t all = 0;
  for (const Job& job : jobs) all += job.heads.size();
  AttentionMaps out = Describe(model, ids, all);
  const auto go_on = [&] { return !progress || progress(out.maps.size(), all); };
  LessonMachine machine{model.variant(), nullptr};
  MOONLIT_ASSIGN_OR_RETURN(machine.pool, ThreadPool::Create({.threads = model.options().threads}));
  for (size_t first = 0, end; first < jobs.size(); first = end) {
    end = EndOfPass(capture, jobs, first, ids.size());
    for (size_t j = first; j < end; ++j) capture.Want(jobs[j].index, jobs[j].heads, ids.size());
    MOONLIT_RETURN_IF_ERROR(model.Read(ids, go_on));
    for (size_t j = first; j < end; ++j) {
      const CapturedLayer& layer = capture.layers[jobs[j].index];
      out.causal = out.causal && !layer.facts.spec->bidirectional;
      MOONLIT_RETURN_IF_ERROR(AddLayerMaps(machine, model, layer, jobs[j], request, go_on, out));
      capture.Forget(jobs[j].index);
    }
  }
  return out;
}

HeadMap MapOfHead(const Matrix& weights, size_t part, const CapturedLayer& layer, size_t bin) {
  const size_t tokens = weights.rows, rows = CeilDiv(tokens, bin);
  HeadMap map;
  map.layer = layer.facts.layer;
  map.has_sink = layer.facts.sinks != nullptr;
  map.cells.assign(rows * rows, kUnseen);
  map.least_sum = INFINITY, map.most_sum = -INFINITY;
  for (size_t i = 0; i < tokens; ++i) {
    const float* row = &weights.values[i * weights.columns + part * tokens];
    const auto queries = static_cast<float>(std::min(bin, tokens - i / bin * bin));
    double sum = 0, entropy = 0;
    for (size_t j = 0; j < tokens; ++j) {
      const auto weight = static_cast<double>(row[j]);
      sum += weight;
      if (weight > 0) entropy -= weight * std::log2(weight);
      if (!layer.Sees(i, j)) {
        map.unseen_weight = std::max(map.unseen_weight, std::abs(row[j]));
        continue;
      }
      float& cell = map.cells[i / bin * rows + j / bin];
      cell = std::max(cell, 0.0f) + row[j] / queries;
    }
    if (map.has_sink && sum < 1) entropy -= (1 - sum) * std::log2(1 - sum);
    map.entropy += entropy / static_cast<double>(tokens);
    map.least_sum = std::isnan(sum) ? -INFINITY : std::min(map.least_sum, sum);
    map.most_sum = std::max(map.most_sum, sum);
  }
  return map;
}

void OfferPairs(const Matrix& weights, size_t part, const CapturedLayer& layer, uint32_t map, size_t most,
                std::vector<StrongPair>& pairs) {
  if (most == 0) return;
  const size_t tokens = weights.rows;
  for (size_t i = 0; i < tokens; ++i) {
    if (layer.last[i] - layer.first[i] < 2 && layer.facts.sink_slots == 0) continue;
    for (size_t j = 0; j < tokens; ++j) {
      const StrongPair pair{weights.values[i * weights.columns + part * tokens + j], map, static_cast<uint32_t>(i),
                            static_cast<uint32_t>(j)};
      if (!(pair.weight > 0) || (pairs.size() == most && !Stronger(pair, pairs.back()))) continue;
      pairs.insert(std::upper_bound(pairs.begin(), pairs.end(), pair, &Stronger), pair);
      if (pairs.size() > most) pairs.pop_back();
    }
  }
}

std::vector<float> Coarser(const std::vector<float>& cells, size_t rows, size_t times, size_t bin, size_t tokens) {
  const size_t coarse = CeilDiv(rows, times);
  std::vector<float> out(coarse * coarse, kUnseen);
  for (size_t i = 0; i < rows; ++i) {
    // Of the queries of a coarse row, those that this row has.
    const auto here = static_cast<float>(std::min(bin, tokens - i * bin));
    const auto all = static_cast<float>(std::min(times * bin, tokens - i / times * times * bin));
    for (size_t j = 0; j < rows; ++j) {
      const float weight = cells[i * rows + j];
      if (weight == kUnseen) continue;
      float& cell = out[i / times * coarse + j / times];
      cell = std::max(cell, 0.0f) + weight * here / all;
    }
  }
  return out;
}

}  // namespace moonlit::cli
