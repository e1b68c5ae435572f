// SPDX-License-Identifier: Apache-2.0
// What is behind moonlit_sampler, and its use in a generation.
#pragma once

#include "runtime/api/handles.h"
#include "runtime/api/moonlit.h"
#include "runtime/base/status.h"
#include "runtime/decode/sampler.h"

struct moonlit_sampler {
  moonlit_sampler(const moonlit_model* of, moonlit::Sampler with) : model(of), chain(std::move(with)) {}
  const moonlit_model* model;
  moonlit::Sampler chain;
  moonlit::api::Turn turn;
};

namespace moonlit::api {

// Guard for a call that uses a sampler.
template <typename Body>
moonlit_code Guard(moonlit_sampler* sampler, moonlit_error* error, const Body& body) {
  return Guard(error, [&]() -> Status {
    Use use;
    MOONLIT_RETURN_IF_ERROR(use.Take(sampler, "sampler"));
    return body();
  });
}

}  // namespace moonlit::api
