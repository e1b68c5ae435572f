// SPDX-License-Identifier: Apache-2.0
// What is behind moonlit_sampler, and its use in a generation.
#pragma once

#include <atomic>

#include "runtime/api/handles.h"
#include "runtime/api/moonlit.h"
#include "runtime/base/status.h"
#include "runtime/decode/sampler.h"

struct moonlit_sampler {
  moonlit_sampler(const moonlit_model* of, moonlit::Sampler with) : model(of), chain(std::move(with)) {}
  const moonlit_model* model;
  moonlit::Sampler chain;
  std::atomic<bool> busy{false};
  std::atomic<bool> cancel{false};  // what runs
};

namespace moonlit::api {

// One call at a time; kBusy when there is one already, kInvalidArgument for null.
class SamplerUse {
 public:
  // A call to cancel counts from here on.
  explicit SamplerUse(moonlit_sampler* sampler)
      : sampler_(sampler), mine_(sampler != nullptr && !sampler->busy.exchange(true)) {
    if (mine_) sampler_->cancel.store(false);
  }
  ~SamplerUse() {
    if (mine_) sampler_->busy.store(false);
  }
  SamplerUse(const SamplerUse&) = delete;
  SamplerUse& operator=(const SamplerUse&) = delete;
  Status status() const {
    MOONLIT_RETURN_IF_ERROR(NotNull(sampler_, "sampler"));
    return mine_ ? Status() : Status(Code::kBusy, "the sampler is in use by another call");
  }

 private:
  moonlit_sampler* sampler_;
  bool mine_;
};

}  // namespace moonlit::api
