// SPDX-License-Identifier: Apache-2.0
// Between the QKV products and attention: head norms, RoPE and the cache write (kQkvPost), and the angles that RoPE reads.
#include <algorithm>
#include <cmath>

#include "runtime/exec/rope_angles.h"
#include "runtime/exec/stage.h"

namespace moonlit {
namespace {

constexpr size_t kRowsPerTask = 16;

// One task: 16 rows or fewer, one KV head with its query heads. Where keys are written the rows are those of one 16-token group
// of slots, so no two tasks touch one word of the cache.
class QkvPostStage : public ExecStage {
 public:
  QkvPostStage(const Bindings& b, const FusedStage& stage)
      : b_(b),
        spec_(stage.attention),
        place_(b.attention_places[stage.attention_index]),
        tail_(stage.tail),
        writes_(stage.input_b != kNoValue),
        q_(b.values[stage.input]),
        q_norm_(b.weights->vector(spec_.q_norm)) {
    q_norm_each_ = HasRows(spec_.q_norm);
    if (!writes_) return;
    k_ = b.values[stage.input_b];
    v_ = b.values[stage.input_c];
    k_norm_ = b.weights->vector(spec_.k_norm);
    k_norm_each_ = HasRows(spec_.k_norm);
  }

  size_t Begin() override {
    if (writes_) return b_.step->slot_groups().size() * spec_.kv_heads;
    return CeilDiv(b_.step->range(tail_).count(), kRowsPerTask) * spec_.kv_heads;
  }

  void Run(size_t task, size_t thread) override {
    const size_t block = task / spec_.kv_heads, head = task % spec_.kv_heads;
    if (writes_) {
      const SlotGroup& group = b_.step->slot_groups()[block];
      PrepareQueries(group.first_row, group.first_row + group.count, head);
      return WriteCache(group, head, thread);
    }
    const RowRange range = b_.step->range(tail_);
    const size_t first = range.first + block * kRowsPerTask;
    PrepareQueries(first, std::min(range.end, first + kRowsPerTask), head);
  }

  std::string Describe() const override {
    return std::string("qkv_post") + (NormsHeads() ? " head_norms" : "") + (place_.angles ? " rope" : "") +
           (writes_ ? std::string(" -> ") + CacheTypeName(place_.layout->key_type) + "/" +
                          CacheTypeName(place_.layout->value_type)
                    : std::string(" of an earlier layer's cache"));
  }

 private:
  bool HasRows(WeightId id) const { return id != kNoWeight && b_.graph->weights()[id].shape.rank() == 2; }
  bool NormsHeads() const { return q_norm_ != nullptr || k_norm_ != nullptr || spec_.plain_norms || spec_.value_norm; }

  void PrepareQueries(size_t first_row, size_t end_row, size_t head) const {
    const size_t heads = spec_.heads / spec_.kv_heads, d = spec_.key_dim;
    for (size_t row = first_row; row < end_row; ++row) {
      float* x = q_.row(row) + head * heads * d;
      NormHeads(x, heads, q_norm_, q_norm_each_ ? head * heads : kOneForAll);
      Rotate(x, heads, row);
      if (spec_.temperature.floor != 0) Heat(x, heads * d, b_.step->slot(row));
    }
  }

  void WriteCache(const SlotGroup& group, size_t head, size_t thread) const {
    const PageLayout& layout = *place_.layout;
    const size_t slot = static_cast<size_t>(group.slot), d = spec_.key_dim;
    uint8_t* page = b_.step->spans()[group.span].pages[place_.group][slot / layout.page_tokens];
    uint8_t* part = page + PagePartOffset(layout, place_.layer_in_group, head);
    // Values first: they may be what the keys are made of.
    const float* values = v_.row(group.first_row) + head * spec_.value_dim;
    size_t stride = v_.stride;
    if (spec_.value_norm) {
      float* normed = b_.scratch.floats(thread);
      Norm(NormKind::kRms, values, stride, group.count, spec_.value_dim, nullptr, normed, spec_.value_dim);
      values = normed;
      stride = spec_.value_dim;
    }
    b_.attention->pack_values(layout, part, slot % layout.page_tokens, group.count, values, stride);
    for (size_t row = group.first_row; row < group.first_row + group.count; ++row) {
      float* x = k_.row(row) + head * d;
      NormHeads(x, 1, k_norm_, k_norm_each_ ? head : kOneForAll);
      Rotate(x, 1, row);
    }
    b_.attention->pack_keys(layout, part, slot % layout.page_tokens, group.count, k_.row(group.first_row) + head * d,
                            k_.stride);
  }

  static constexpr size_t kOneForAll = SIZE_MAX;

  // `first`: the weight's row of the first head, or kOneForAll.
  void NormHeads(float* x, size_t heads, const float* weight, size_t first) const {
    const size_t d = spec_.key_dim;
    if (weight == nullptr && !spec_.plain_norms) return;
    if (weight == nullptr || first == kOneForAll) return Norm(spec_.norm_kind, x, d, heads, d, weight, x, d);
    for (size_t h = 0; h < heads; ++h)
      Norm(spec_.norm_kind, x + h * d, d, 1, d, weight + (first + h) * d, x + h * d, d);
  }

  void Norm(NormKind kind, const float* x, size_t x_stride, size_t rows, size_t d, const float* weight, float* out,
            size_t out_stride) const {
    const NormArgs args{.x = x,
                        .x_stride = x_stride,
                        .rows = rows,
                        .d = d,
                        .weight = weight,
                        .bias = nullptr,
                        .eps = spec_.norm_eps,
                        .out = out,
                        .out_stride = out_stride};
    kind == NormKind::kRms ? b_.norms->rms_norm_rows(args) : b_.norms->layer_norm_rows(args);
  }

  void Rotate(float* x, size_t heads, size_t row) const {
    if (place_.angles == nullptr) return;
    const size_t d = spec_.key_dim;
    b_.rope->rotate_heads({.kind = spec_.rope.pairs == RopePairs::kHalves ? RopeKind::kHalves : RopeKind::kPairs,
                           .x = x,
                           .x_stride = d,
                           .heads = heads,
                           .head_dim = d,
                           .rotated = spec_.rope.dims,
                           .cosines = place_.angles->cosines(row),
                           .sines = place_.angles->sines(row),
                           .out = x,
                           .out_stride = d});
  }

  void Heat(float* x, size_t count, int64_t slot) const {
    const QueryTemperature& t = spec_.temperature;
    const size_t steps = (static_cast<size_t>(slot) + t.offset) / t.floor;
    const auto factor = static_cast<float>(1 + t.scale * std::log1p(static_cast<double>(steps)));
    for (size_t i = 0; i < count; ++i) x[i] *= factor;
  }

  const Bindings& b_;
  AttentionSpec spec_;
  Bindings::AttentionPlace place_;
  bool tail_, writes_;
  FloatRows q_, k_, v_;
  const float *q_norm_, *k_norm_ = nullptr;
  bool q_norm_each_ = false, k_norm_each_ = false;  // one weight a head
};

class RopeAnglesStage : public ExecStage {
 public:
  RopeAnglesStage(const Bindings& b, RopeAngles& angles) : b_(b), angles_(angles) {}
  size_t Begin() override { return CeilDiv(b_.step->rows(), kRowsPerTask); }
  void Run(size_t task, size_t) override {
    const size_t end = std::min(b_.step->rows(), (task + 1) * kRowsPerTask);
    for (size_t row = task * kRowsPerTask; row < end; ++row) angles_.FillRow(row, b_.step->position(row));
  }
  std::string Describe() const override { return "rope_angles " + std::to_string(angles_.pairs()) + " pairs"; }

 private:
  const Bindings& b_;
  RopeAngles& angles_;
};

}  // namespace

std::unique_ptr<ExecStage> MakeRopeAnglesStage(const Bindings& bindings, RopeAngles& angles) {
  return std::make_unique<RopeAnglesStage>(bindings, angles);
}
std::unique_ptr<ExecStage> MakeQkvPostStage(const Bindings& bindings, const FusedStage& stage) {
  return std::make_unique<QkvPostStage>(bindings, stage);
}

}  // namespace moonlit
