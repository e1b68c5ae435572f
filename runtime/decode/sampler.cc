// SPDX-License-Identifier: Apache-2.0
#include "runtime/decode/sampler.h"

namespace moonlit {
namespace {

constexpr uint32_t kMostRecent = 1000000;

// Written so that NaN is out of every range.
Status CheckRange(const char* name, float value, float least, float most) {
  if (value >= least && value <= most) return Status();
  return Errorf(Code::kInvalidArgument, "sampler: %s is %g, expected %g to %g", name, double{value}, double{least},
                double{most});
}

}  // namespace

Status CheckSamplerOptions(const SamplerOptions& o) {
  MOONLIT_RETURN_IF_ERROR(CheckRange("temperature", o.temperature, 0, 100));
  if (o.top_k < 0)
    return Errorf(Code::kInvalidArgument, "sampler: top_k is %d, expected 0 (off) to %d", o.top_k, INT32_MAX);
  MOONLIT_RETURN_IF_ERROR(CheckRange("top_p", o.top_p, 0, 1));
  MOONLIT_RETURN_IF_ERROR(CheckRange("min_p", o.min_p, 0, 1));
  MOONLIT_RETURN_IF_ERROR(CheckRange("repeat_penalty", o.repeat_penalty, 0.01f, 100));
  if (o.repeat_last_n > kMostRecent) {
    return Errorf(Code::kInvalidArgument, "sampler: repeat_last_n is %u, expected 0 (off) to %u", o.repeat_last_n,
                  kMostRecent);
  }
  return Status();
}

Result<Sampler> Sampler::Create(const SamplerOptions& options) {
  MOONLIT_RETURN_IF_ERROR(CheckSamplerOptions(options));
  return Sampler(options);
}

Result<int32_t> Sampler::Next(std::span<const float> logits) {
  MOONLIT_RETURN_IF_ERROR(Fill(logits, candidates_));
  Penalise(recent_, options_.repeat_penalty, candidates_);
  if (options_.temperature == 0) return MostLikely(candidates_);
  KeepTopK(static_cast<size_t>(options_.top_k), candidates_);
  KeepTopP(double{options_.top_p}, candidates_);
  KeepMinP(double{options_.min_p}, candidates_);
  return Draw(double{options_.temperature}, random_.NextUniform(), candidates_);
}

void Sampler::Accept(int32_t id) {
  if (options_.repeat_last_n == 0 || options_.repeat_penalty == 1.0f) return;
  if (recent_.size() < options_.repeat_last_n) {
    recent_.push_back(id);
    return;
  }
  recent_[next_recent_] = id;
  next_recent_ = (next_recent_ + 1) % recent_.size();
}

}  // namespace moonlit
