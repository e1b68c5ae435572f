// SPDX-License-Identifier: Apache-2.0
#include "runtime/exec/ops/attention_weights.h"

#include <algorithm>
#include <cmath>

#include "runtime/exec/ops/attention_geometry.h"
#include "runtime/exec/ops/query_turn.h"
#include "runtime/exec/ops/soften.h"

namespace moonlit {

AttentionWeights::AttentionWeights(const Bindings& bindings, const FusedStage& stage)
    : b_(bindings),
      spec_(stage.attention),
      place_(bindings.attention_places[stage.attention_index]),
      softmax_(GetSoftmaxTable(bindings.options->variant)),
      q_(bindings.values[stage.input]),
      sinks_(spec_.sinks == kNoWeight ? nullptr : bindings.weights->vector(spec_.sinks)) {}

void AttentionWeights::Forget() {
  memory_ = Buffer();
  unpacked_ = 0;
}

Status AttentionWeights::Compute(size_t span, size_t head, size_t first, size_t count, size_t width, float* out,
                                 AbortFlags abort) {
  span_ = span, head_ = head, first_ = first, width_ = width, out_ = out;
  MOONLIT_RETURN_IF_ERROR(UnpackKeys(head / (spec_.heads / spec_.kv_heads), width, abort));
  const auto run = [](void* context, size_t task, size_t thread) {
    static_cast<const AttentionWeights*>(context)->ComputeRow(task, thread);
  };
  const Stage rows{count, run, this};
  return b_.options->pool->Run({&rows, 1}, abort);
}

Status AttentionWeights::UnpackKeys(size_t kv_head, size_t width, AbortFlags abort) {
  if (unpacked_ >= width && unpacked_span_ == span_ && unpacked_head_ == kv_head) return Status();
  unpacked_ = 0;
  const size_t slots = RoundUp(width, kAttentionTile), dim = spec_.key_dim;
  const size_t floats = slots * dim + b_.threads * RoundUp(dim, size_t{16});
  if (memory_.size() < floats * sizeof(float)) {
    memory_ = Buffer();  // before there are two
    MOONLIT_ASSIGN_OR_RETURN(memory_, Buffer::Allocate(floats * sizeof(float), "keys for attention's weights"));
  }
  keys_ = reinterpret_cast<float*>(memory_.data());
  queries_ = keys_ + slots * dim;
  unpacked_head_ = kv_head, unpacked_span_ = span_;
  const auto run = [](void* context, size_t task, size_t) {
    static_cast<const AttentionWeights*>(context)->UnpackTile(task);
  };
  const Stage tiles{slots / kAttentionTile, run, this};
  MOONLIT_RETURN_IF_ERROR(b_.options->pool->Run({&tiles, 1}, abort));
  unpacked_ = width;
  return Status();
}

// Nobody sees the slots of a page that is not there (MaskRow), nor those behind the end of the text.
void AttentionWeights::UnpackTile(size_t tile) const {
  const PageLayout& layout = *place_.layout;
  const size_t first = tile * kAttentionTile, page = first / layout.page_tokens, dim = spec_.key_dim;
  const size_t end = static_cast<size_t>(span().first_slot) + span().tokens.size();
  const uint8_t* const bytes = first < end ? span().pages[place_.group][page] : nullptr;
  float* keys = keys_ + first * dim;
  if (bytes == nullptr) {
    std::fill_n(keys, kAttentionTile * dim, 0.0f);
    return;
  }
  const uint8_t* part = bytes + PagePartOffset(layout, place_.layer_in_group, unpacked_head_);
  for (size_t i = 0; i < kAttentionTile; ++i) UnpackKey(layout, part, first % layout.page_tokens + i, keys + i * dim);
}

void AttentionWeights::ComputeRow(size_t task, size_t thread) const {
  const size_t token = first_ + task;
  const int64_t slot = span().first_slot + static_cast<int64_t>(token);
  const SlotInterval seen = place_.geometry->Visible(span(), slot);
  const auto last = static_cast<size_t>(seen.last);
  float* row = out_ + task * width_;
  Score(q_.row(b_.step->span_row(span_) + token) + head_ * spec_.key_dim, last, thread, row);
  if (spec_.softcap != 0) b_.activations->softcap(row, spec_.softcap, row, last);
  MaskRow(slot, seen, row);
  Soften(softmax_, *b_.activations, row, last, sinks_ == nullptr ? nullptr : sinks_ + head_, row);
  std::fill(row + last, row + width_, 0.0f);
}

void AttentionWeights::Score(const float* query, size_t last, size_t thread, float* row) const {
  const std::span<const SlotRun> runs = span().runs;
  const size_t dim = spec_.key_dim;
  float* scaled = queries_ + thread * RoundUp(dim, size_t{16});
  for (size_t i = 0; i < std::max<size_t>(runs.size(), 1); ++i) {
    const size_t begin = i == 0 ? 0 : static_cast<size_t>(runs[i].begin);
    const size_t end = i + 1 < runs.size() ? std::min(last, static_cast<size_t>(runs[i + 1].begin)) : last;
    if (begin >= end) break;
    const int64_t turn = runs.size() < 2 ? 0 : runs[i].shift - runs.back().shift;
    const QueryTurn turned(b_, spec_, place_, turn, thread);
    b_.activations->scale(turned.Of(query, 0), spec_.scale, scaled, dim);
    b_.pairs->dots(scaled, keys_ + begin * dim, dim, end - begin, dim, row + begin);
  }
}

void AttentionWeights::MaskRow(int64_t slot, SlotInterval seen, float* row) const {
  const bool biased = spec_.alibi_max_bias != 0;
  const float slope = biased ? spec_.alibi_scale * AlibiSlope(spec_.alibi_max_bias, spec_.heads, head_) : 0;
  const auto page_tokens = static_cast<int64_t>(place_.layout->page_tokens);
  uint8_t* const* page = span().pages[place_.group];
  for (int64_t first = 0; first < seen.last; first += page_tokens, ++page) {
    const int64_t last = std::min(first + page_tokens, seen.last);
    for (int64_t j = first; j < last; ++j) {
      const bool sees = *page != nullptr && (j >= seen.first || j < place_.geometry->sinks());
      row[j] = sees ? row[j] + slope * static_cast<float>(j - slot) : -INFINITY;
    }
  }
}

}  // namespace moonlit
