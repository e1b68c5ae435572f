// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/bench_fused.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/base/round.h"
#include "tools/cli/bench_measure.h"

namespace moonlit::cli {
namespace {

constexpr uint32_t kPageTokens = 64;  // the command's default
constexpr size_t kSlotGroup = 16;     // pack_keys and pack_values write inside one (attention.h)

bool MakeLayout(const AttentionShape& shape, size_t layers, PageLayout* layout) {
  *layout = {};
  layout->page_tokens = kPageTokens;
  layout->layers = static_cast<uint32_t>(layers);
  layout->kv_heads = static_cast<uint32_t>(shape.kv_heads);
  layout->key_dim = layout->value_dim = static_cast<uint32_t>(shape.head_dim);
  layout->key_type = shape.key_type;
  layout->value_type = shape.value_type;
  return FinishPageLayout(layout);
}

}  // namespace

double FusedAttention::CacheBytes(const AttentionShape& shape) {
  PageLayout layout;
  if (!MakeLayout(shape, 1, &layout)) return 0;
  const double token_bytes = static_cast<double>(layout.part_bytes) / kPageTokens;
  return token_bytes * static_cast<double>(shape.kv_heads * shape.context);
}

Result<std::unique_ptr<FusedAttention>> FusedAttention::Make(const AttentionShape& shape, Variant variant,
                                                             ThreadPool& pool, size_t layers, const float* keys,
                                                             const float* values) {
  std::unique_ptr<FusedAttention> fused(new FusedAttention(shape, pool));
  if (!MakeLayout(shape, layers, &fused->layout_)) {
    return Errorf(Code::kUnsupported, "the cache can't hold %zu KV heads of %zu: expected heads of at most 1024",
                  shape.kv_heads, shape.head_dim);
  }
  fused->bindings_.attention = &GetAttentionTable(variant);
  MOONLIT_RETURN_IF_ERROR(fused->Allocate(variant, layers));
  fused->FillCache(keys, values);
  fused->MakeStages();
  return fused;
}

Status FusedAttention::Allocate(Variant variant, size_t layers) {
  const size_t pages = CeilDiv(shape_.context, kPageTokens);
  if (layout_.page_bytes > SIZE_MAX / pages) {
    return Errorf(Code::kOutOfMemory, "%zu layers of the cache do not fit the address space", layers);
  }
  MOONLIT_ASSIGN_OR_RETURN(cache_, Buffer::Allocate(pages * layout_.page_bytes, "the cache"));
  for (size_t p = 0; p < pages; ++p) pages_.push_back(cache_.data() + p * layout_.page_bytes);
  const size_t row_floats = shape_.heads * shape_.head_dim;
  MOONLIT_ASSIGN_OR_RETURN(rows_, Buffer::Allocate(2 * q_rows() * row_floats * sizeof(float), "queries and outputs"));
  bindings_.scratch.stride = RoundUp(GetAttentionTable(variant).scratch_bytes(layout_), 64);
  MOONLIT_ASSIGN_OR_RETURN(scratch_,
                           Buffer::Allocate(bindings_.scratch.stride * pool_.threads(), "the threads' scratch"));
  bindings_.scratch.data = scratch_.data();
  MOONLIT_ASSIGN_OR_RETURN(triples_, Buffer::Allocate(kTripleFloats * sizeof(float), "the segments' triples"));
  bindings_.triples = triples_.as<float>();
  return Status();
}

void FusedAttention::FillCache(const float* keys, const float* values) {
  const size_t d = shape_.head_dim, layer_bytes = shape_.kv_heads * layout_.part_bytes;
  ForTasks(pool_, pages_.size(), [&](size_t p, size_t) {
    const size_t begin = p * kPageTokens, end = std::min(shape_.context, begin + kPageTokens);
    for (size_t head = 0; head < shape_.kv_heads; ++head) {
      uint8_t* part = pages_[p] + PagePartOffset(layout_, 0, head);
      for (size_t t = begin; t < end; t += kSlotGroup) {
        const size_t count = std::min(kSlotGroup, end - t), from = (head * shape_.context + t) * d;
        bindings_.attention->pack_keys(layout_, part, t - begin, count, keys + from, d);
        bindings_.attention->pack_values(layout_, part, t - begin, count, values + from, d);
      }
    }
    for (size_t layer = 1; layer < layout_.layers; ++layer)
      std::memcpy(pages_[p] + PagePartOffset(layout_, layer, 0), pages_[p], layer_bytes);
  });
}

void FusedAttention::MakeStages() {
  groups_[0] = pages_.data();
  ids_.resize(q_rows());
  span_.pages = groups_;
  span_.outputs = Outputs::kNone;
  stage_.kind = StageKind::kAttention;
  stage_.input = 0;
  stage_.output = 1;
  AttentionSpec& spec = stage_.attention;
  spec.heads = shape_.heads;
  spec.kv_heads = shape_.kv_heads;
  spec.key_dim = spec.value_dim = shape_.head_dim;
  spec.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
  step_ = std::make_unique<Step>(q_rows(), 1, 1);
  geometry_ = std::make_unique<AttentionGeometry>(spec, layout_, false, q_rows(), pool_.threads(), kTripleFloats);
  const size_t stride = shape_.heads * shape_.head_dim;
  bindings_.step = step_.get();
  bindings_.threads = pool_.threads();
  bindings_.values = {FloatRows{q(), stride}, FloatRows{q() + q_rows() * stride, stride}};
  for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
    bindings_.attention_places.push_back({&layout_, 0, layer, geometry_.get(), nullptr});
  }
  for (uint32_t layer = 0; layer < layout_.layers; ++layer) {
    stage_.attention_index = layer;
    stages_.push_back(MakeAttentionStage(bindings_, stage_));
    stages_.push_back(MakeAttentionMergeStage(bindings_, stage_));
  }
}

Status FusedAttention::Run(size_t layer) {
  const auto run = [](void* context, size_t task, size_t thread) {
    static_cast<ExecStage*>(context)->Run(task, thread);
  };
  for (size_t first = 0; first < shape_.tokens; first += q_rows()) {
    span_.tokens = {ids_.data(), std::min(q_rows(), shape_.tokens - first)};
    span_.first_slot = static_cast<int64_t>(shape_.context - shape_.tokens + first);
    MOONLIT_RETURN_IF_ERROR(step_->Begin({&span_, 1}));
    geometry_->Begin(*step_);
    Stage list[2];
    for (size_t i = 0; i < 2; ++i) {
      ExecStage& stage = *stages_[2 * layer + i];
      list[i] = {stage.Begin(), run, &stage};
    }
    MOONLIT_RETURN_IF_ERROR(pool_.Run(list));
  }
  return Status();
}

}  // namespace moonlit::cli
