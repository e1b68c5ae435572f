// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/api/handles.h"
#include "runtime/exec/step_tap.h"
#include "runtime/tensor/buffer.h"

namespace moonlit::api {
namespace {

constexpr size_t kBlockFloats = size_t{4} << 20;  // of weights that are handed out at once; one row if that is longer

bool IsAsked(const std::vector<uint32_t>& asked, size_t number) {
  return asked.empty() || std::find(asked.begin(), asked.end(), number) != asked.end();
}

// Between a plan and the callbacks of one session. Used by one step at a time.
class SessionTap final : public StepTap {
 public:
  SessionTap(const moonlit_taps& taps, std::span<const TappedLayer> layers)
      : taps_(taps),
        attention_layers_(layers),
        layers_(taps.layers, taps.layers + taps.layer_count),
        heads_(taps.heads, taps.heads + taps.head_count) {}

  Status Check(std::span<const int> streams) const;

  bool WantsStream(int layer) const override {
    return taps_.residual != nullptr && IsAsked(layers_, static_cast<size_t>(layer));
  }
  bool WantsAttention(size_t index) const override {
    return taps_.attention != nullptr && IsAsked(layers_, static_cast<size_t>(attention_layers_[index].layer));
  }
  Status TakeStream(const TappedStream& stream) override;
  Status TakeAttention(TappedAttention& attention) override;

 private:
  struct Rows {
    size_t first, count;
  };
  // Of `tokens` tokens from a slot on, those that are asked for.
  Rows AskedRows(int64_t first_slot, size_t tokens) const {
    const auto slot = static_cast<size_t>(first_slot);
    const size_t first = std::clamp(taps_.first, slot, slot + tokens);
    const size_t last = std::clamp(taps_.last, first, slot + tokens);
    return {first - slot, last - first};
  }
  Status Need(size_t floats) {
    if (values_.size() >= floats * sizeof(float)) return Status();
    values_ = Buffer();  // before there are two
    MOONLIT_ASSIGN_OR_RETURN(values_, Buffer::Allocate(floats * sizeof(float), "rows for taps"));
    return Status();
  }
  Status CheckAttention() const;
  Status ShowHead(TappedAttention& attention, size_t head, const Rows& rows, size_t width);

  moonlit_taps taps_;
  std::span<const TappedLayer> attention_layers_;
  std::vector<uint32_t> layers_, heads_;
  Buffer values_, seen_;
};

Status SessionTap::Check(std::span<const int> streams) const {
  if (taps_.residual == nullptr && taps_.attention == nullptr) {
    return Status(Code::kInvalidArgument,
                  "taps: neither residual nor attention is set; NULL in place of taps ends them");
  }
  if (taps_.first >= taps_.last) {
    return Errorf(Code::kInvalidArgument, "taps: places %zu to %zu: expected first below last", taps_.first,
                  taps_.last);
  }
  if (streams.empty()) return Status(Code::kUnsupported, "taps: the model does not say where its layers end");
  for (uint32_t layer : layers_) {
    if (std::find(streams.begin(), streams.end(), static_cast<int>(layer)) != streams.end()) continue;
    return Errorf(Code::kInvalidArgument, "taps: layer %u, expected 0 to %zu", layer, streams.size() - 1);
  }
  return taps_.attention == nullptr ? Status() : CheckAttention();
}

Status SessionTap::CheckAttention() const {
  if (attention_layers_.empty()) {
    return Status(Code::kUnsupported, "taps: the model has no attention layers, so no weights");
  }
  for (uint32_t layer : layers_) {
    const auto is = [&](const TappedLayer& one) { return one.layer == static_cast<int>(layer); };
    if (std::any_of(attention_layers_.begin(), attention_layers_.end(), is)) continue;
    return Errorf(Code::kInvalidArgument, "taps: layer %u has no attention, so no weights; ask for its residual stream",
                  layer);
  }
  for (const TappedLayer& layer : attention_layers_) {
    if (!IsAsked(layers_, static_cast<size_t>(layer.layer))) continue;
    for (uint32_t head : heads_) {
      if (head < layer.heads) continue;
      return Errorf(Code::kInvalidArgument, "taps: head %u, but layer %d has heads 0 to %zu", head, layer.layer,
                    layer.heads - 1);
    }
  }
  return Status();
}

Status SessionTap::TakeStream(const TappedStream& stream) {
  const Rows rows = AskedRows(stream.first_slot, stream.rows);
  if (rows.count == 0) return Status();
  MOONLIT_RETURN_IF_ERROR(Need(rows.count * stream.width));
  float* values = values_.as<float>();
  for (size_t r = 0; r < rows.count; ++r)
    std::copy_n(stream.values + (rows.first + r) * stream.stride, stream.width, values + r * stream.width);
  moonlit_tapped tapped = {};
  tapped.size = sizeof tapped;
  tapped.layer = static_cast<uint32_t>(stream.layer);
  tapped.position = static_cast<size_t>(stream.first_slot) + rows.first;
  tapped.rows = rows.count;
  tapped.width = stream.width;
  tapped.values = values;
  taps_.residual(taps_.user, &tapped);
  return Status();
}

Status SessionTap::TakeAttention(TappedAttention& attention) {
  const Rows rows = AskedRows(attention.first_slot, attention.tokens);
  if (rows.count == 0) return Status();
  if (seen_.size() < 2 * rows.count * sizeof(size_t)) {
    MOONLIT_ASSIGN_OR_RETURN(seen_, Buffer::Allocate(2 * rows.count * sizeof(size_t), "places for taps"));
  }
  size_t* from = seen_.as<size_t>();
  size_t width = 0;
  for (size_t r = 0; r < rows.count; ++r) {
    const SlotInterval seen = attention.Sees(rows.first + r);
    from[r] = static_cast<size_t>(seen.first);
    from[rows.count + r] = static_cast<size_t>(seen.last);
    width = std::max(width, static_cast<size_t>(seen.last));
  }
  const size_t heads = attention_layers_[attention.index].heads;
  for (size_t head = 0; head < heads; ++head) {
    if (IsAsked(heads_, head)) MOONLIT_RETURN_IF_ERROR(ShowHead(attention, head, rows, width));
  }
  return Status();
}

// In blocks of rows.
Status SessionTap::ShowHead(TappedAttention& attention, size_t head, const Rows& rows, size_t width) {
  const TappedLayer& layer = attention_layers_[attention.index];
  const size_t most = std::max<size_t>(1, kBlockFloats / width);
  MOONLIT_RETURN_IF_ERROR(Need(std::min(rows.count, most) * width));
  moonlit_tapped tapped = {};
  tapped.size = sizeof tapped;
  tapped.layer = static_cast<uint32_t>(layer.layer);
  tapped.head = static_cast<uint32_t>(head);
  tapped.width = width;
  tapped.values = values_.as<float>();
  tapped.seen_sinks = static_cast<size_t>(layer.sink_slots);
  for (size_t done = 0; done < rows.count; done += tapped.rows) {
    tapped.rows = std::min(most, rows.count - done);
    MOONLIT_RETURN_IF_ERROR(attention.Weights(head, rows.first + done, tapped.rows, width, values_.as<float>()));
    tapped.position = static_cast<size_t>(attention.first_slot) + rows.first + done;
    tapped.seen_from = seen_.as<size_t>() + done;
    tapped.seen_to = seen_.as<size_t>() + rows.count + done;
    taps_.attention(taps_.user, &tapped);
  }
  return Status();
}

constexpr size_t kMostListed = size_t{1} << 16;  // layers or heads; more than any model has

Status CheckLists(const moonlit_taps& taps) {
  if (taps.layer_count > kMostListed || (taps.heads != nullptr && taps.head_count > kMostListed)) {
    return Errorf(Code::kInvalidArgument, "taps: %zu layers and %zu heads are listed, expected at most %zu each",
                  taps.layer_count, taps.head_count, kMostListed);
  }
  const bool layers = taps.layers == nullptr && taps.layer_count != 0;
  if (!layers && (taps.heads != nullptr || taps.head_count == 0)) return Status();
  return Errorf(Code::kInvalidArgument, "taps: %s is NULL, but its count is %zu", layers ? "layers" : "heads",
                layers ? taps.layer_count : taps.head_count);
}

}  // namespace
}  // namespace moonlit::api

using moonlit::Code;
using moonlit::Status;
using moonlit::api::Guard;

extern "C" {

void moonlit_taps_init(moonlit_taps* taps, size_t size) {
  moonlit_taps defaults = {};
  defaults.last = SIZE_MAX;
  moonlit::api::WriteSized(defaults, size, taps);
}

moonlit_code moonlit_session_set_taps(moonlit_session* session, const moonlit_taps* given, moonlit_error* error) {
  return Guard(session, error, [&]() -> Status {
    std::unique_ptr<moonlit::api::SessionTap> tap;
    moonlit::Engine& engine = *session->model->engine;
    if (given != nullptr) {
      MOONLIT_ASSIGN_OR_RETURN(const moonlit_taps taps,
                               moonlit::api::ReadSized(given, "moonlit_taps", moonlit_taps_init));
      MOONLIT_RETURN_IF_ERROR(moonlit::api::CheckLists(taps));
      tap = std::make_unique<moonlit::api::SessionTap>(taps, engine.plan().attention_layers());
      MOONLIT_RETURN_IF_ERROR(tap->Check(engine.plan().stream_layers()));
      if (taps.attention != nullptr && engine.options().attention_pages != 0) {
        return Status(Code::kUnsupported,
                      "taps: with attention_pages generated tokens read chosen pages alone; load the model without to "
                      "see attention's weights");
      }
    }
    MOONLIT_RETURN_IF_ERROR(session->session->SetTap(tap.get()));
    session->tap = std::move(tap);
    return Status();
  });
}

}  // extern "C"
