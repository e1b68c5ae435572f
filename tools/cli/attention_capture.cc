// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/attention_capture.h"

#include <algorithm>

#include "kernels/attention/attention.h"
#include "kernels/base/round.h"

namespace moonlit::cli {

void AttentionCapture::Want(size_t index, const std::vector<size_t>& heads, size_t tokens) {
  CapturedLayer& layer = layers[index];
  layer.heads = heads;
  layer.queries.assign(tokens * heads.size() * layer.facts.spec->key_dim, 0);
  layer.outputs.assign(tokens * heads.size() * layer.facts.spec->value_dim, 0);
  layer.first.assign(tokens, 0);
  layer.last.assign(tokens, 0);
}

void AttentionCapture::Forget(size_t index) { layers[index] = {layers[index].facts, {}, {}, {}, {}, {}}; }

Status AttentionCapture::TakeAttention(TappedAttention& attention) {
  CapturedLayer& layer = layers[attention.index];
  const size_t heads = layer.heads.size(), begin = static_cast<size_t>(attention.first_slot);
  const size_t key_dim = layer.facts.spec->key_dim, value_dim = layer.facts.spec->value_dim;
  for (size_t t = 0; t < attention.tokens; ++t) {
    const float *q = attention.Query(t), *out = attention.Output(t);
    for (size_t h = 0; h < heads; ++h) {
      const size_t at = (begin + t) * heads + h;
      std::copy_n(q + layer.heads[h] * key_dim, key_dim, layer.queries.data() + at * key_dim);
      std::copy_n(out + layer.heads[h] * value_dim, value_dim, layer.outputs.data() + at * value_dim);
    }
    const SlotInterval seen = attention.Sees(t);
    layer.first[begin + t] = seen.first;
    layer.last[begin + t] = seen.last;
  }
  return Status();
}

Result<std::unique_ptr<CapturedModel>> CapturedModel::Open(const std::string& path, const LoadOptions& load,
                                                           const CaptureOptions& options) {
  auto made = std::make_unique<CapturedModel>();
  made->options_ = options;
  MOONLIT_ASSIGN_OR_RETURN(made->variant_, ResolveVariant(options.variant));
  MOONLIT_ASSIGN_OR_RETURN(made->pool_, ThreadPool::Create({.threads = options.threads}));
  MOONLIT_ASSIGN_OR_RETURN(made->model_, OpenModel(path, load));
  PlanOptions plan{};
  plan.variant = made->variant_;
  plan.pool = made->pool_.get();
  plan.max_rows = options.chunk_tokens;
  plan.page_tokens = options.page_tokens;
  plan.key_type = options.key_type;
  plan.value_type = options.value_type;
  plan.exact = options.exact;
  plan.sparse.window = options.window;
  plan.sparse.sinks = options.sinks;
  MOONLIT_ASSIGN_OR_RETURN(plan.float_provider, ResolveFloatProvider(options.float_provider));
  plan.packed_cache = options.packed_cache;
  plan.progress = options.progress;
  MOONLIT_ASSIGN_OR_RETURN(made->plan_, made->model_.make_plan(plan));
  for (const TappedLayer& layer : made->plan_->attention_layers()) {
    made->capture_.layers.push_back({layer, {}, {}, {}, {}, {}});
  }
  made->options_.progress = {};
  made->model_.make_plan = {};
  return made;
}

Status CapturedModel::ReadChunk(std::span<const int32_t> tokens) {
  MOONLIT_RETURN_IF_ERROR(sequence_->Reserve(sequence_->length() + static_cast<int64_t>(tokens.size())));
  StepSpan span{};
  span.tokens = tokens;
  span.pages = sequence_->pages();
  span.first_slot = sequence_->length();
  span.outputs = Outputs::kNone;
  span.runs = sequence_->runs();
  span.state = sequence_->state();
  span.next_state = sequence_->next_state();
  span.tap = &capture_;
  MOONLIT_RETURN_IF_ERROR(plan_->Run({&span, 1}, nullptr));
  sequence_->Commit(tokens);
  return Status();
}

Status CapturedModel::Read(const std::vector<int32_t>& ids, const std::function<bool()>& go_on) {
  if (ids.empty()) return Status(Code::kInvalidArgument, "the text has no tokens");
  if (plan_->whole_sequences() && ids.size() > options_.chunk_tokens) {
    return Errorf(Code::kInvalidArgument,
                  "the text has %zu tokens, and the model reads it at once: expected at most %zu (--ubatch-size)",
                  ids.size(), options_.chunk_tokens);
  }
  sequence_.reset();
  PagePoolOptions options;
  options.share_prefixes = false;
  options.state_bytes = plan_->state_bytes();
  options.states = 2;
  // A model without attention has no groups, and its sequences no pages.
  const size_t pages = CeilDiv(ids.size(), options_.page_tokens) + 1;
  MOONLIT_ASSIGN_OR_RETURN(pages_, PagePool::Create(plan_->cache_groups(), pages, options));
  sequence_.emplace(pages_.get());
  for (size_t done = 0; done < ids.size(); done += options_.chunk_tokens) {
    if (go_on && !go_on()) return Status(Code::kCancelled, "interrupted");
    const size_t count = std::min(options_.chunk_tokens, ids.size() - done);
    MOONLIT_RETURN_IF_ERROR(ReadChunk(std::span(ids).subspan(done, count)));
  }
  return Status();
}

std::vector<float> CapturedModel::Unpack(size_t index, size_t kv_head, bool keys) const {
  const TappedLayer& layer = capture_.layers[index].facts;
  const PageLayout& layout = *layer.layout;
  const size_t tokens = static_cast<size_t>(sequence_->length()), dim = keys ? layout.key_dim : layout.value_dim;
  const size_t part = PagePartOffset(layout, layer.layer_in_group, kv_head);
  std::vector<float> rows(tokens * dim);
  for (size_t t = 0; t < tokens; ++t) {
    const uint8_t* page = sequence_->pages()[layer.group][t / layout.page_tokens];
    const auto unpack = keys ? &UnpackKey : &UnpackValue;
    unpack(layout, page + part, t % layout.page_tokens, rows.data() + t * dim);
  }
  return rows;
}

}  // namespace moonlit::cli
