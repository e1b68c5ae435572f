// SPDX-License-Identifier: Apache-2.0
// Grammars and samplers. Part of moonlit.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "expected.hpp"
#include "grammar.h"
#include "sampler.h"

namespace moonlit::api {

// For moonlit_generate_options::grammar, by handle(). The model must outlive it.
class Grammar {
 public:
  explicit Grammar(moonlit_grammar* handle) : handle_(handle, &moonlit_grammar_free) {}
  const moonlit_grammar* handle() const { return handle_.get(); }

 private:
  std::unique_ptr<moonlit_grammar, void (*)(moonlit_grammar*)> handle_;
};

// A chain of steps that chooses tokens, by Append or AppendCustom in their order; for moonlit_generate_options::sampler, by handle(), or alone.
// The model must outlive it.
class Sampler {
 public:
  explicit Sampler(moonlit_sampler* handle) : handle_(handle, &moonlit_sampler_free) {}
  moonlit_sampler* handle() const { return handle_.get(); }
  static moonlit_sampler_step Step(moonlit_sampler_kind kind) {
    moonlit_sampler_step step;
    moonlit_sampler_step_init(&step, sizeof step);
    step.kind = kind;
    return step;
  }
  Error Append(const moonlit_sampler_step& step) {
    moonlit_error error = {};
    moonlit_sampler_append(handle_.get(), &step, &error);
    return MakeError(error);
  }
  Error Append(moonlit_sampler_kind kind) { return Append(Step(kind)); }
  // keep(tokens) returns how many are left, at the front; a clone has a copy of it.
  Error AppendCustom(std::function<size_t(std::span<moonlit_token_logit> tokens)> keep) {
    using Keep = std::function<size_t(std::span<moonlit_token_logit>)>;
    if (!keep) return {MOONLIT_INVALID_ARGUMENT, "AppendCustom: the function is empty"};
    auto user = std::make_unique<Keep>(std::move(keep));
    moonlit_sampler_step step = Step(MOONLIT_SAMPLER_CUSTOM);
    step.user = user.get();
    step.apply = [](void* fn, moonlit_token_logit* tokens, size_t count) {
      return (*static_cast<Keep*>(fn))({tokens, count});
    };
    step.clone = [](const void* fn) -> void* {
#ifdef __cpp_exceptions
      try {
        return new Keep(*static_cast<const Keep*>(fn));
      } catch (...) {  // by a copy's constructor, for one
        return nullptr;
      }
#else
      return new Keep(*static_cast<const Keep*>(fn));
#endif
    };
    step.free_user = [](void* fn) { delete static_cast<Keep*>(fn); };
    Error error = Append(step);
    if (error.code == MOONLIT_OK) user.release();
    return error;
  }
  Expected<int32_t> Apply(std::span<const float> logits) {
    int32_t id = 0;
    moonlit_error error = {};
    if (moonlit_sampler_apply(handle_.get(), logits.data(), logits.size(), &id, &error) != MOONLIT_OK)
      return MakeError(error);
    return id;
  }
  void Cancel() { moonlit_sampler_cancel(handle_.get()); }
  Error Accept(int32_t id) {
    moonlit_error error = {};
    moonlit_sampler_accept(handle_.get(), id, &error);
    return MakeError(error);
  }
  Error AcceptPrompt(std::span<const int32_t> ids) {
    moonlit_error error = {};
    moonlit_sampler_accept_prompt(handle_.get(), ids.data(), ids.size(), &error);
    return MakeError(error);
  }
  Error Reset(uint64_t seed) {
    moonlit_error error = {};
    moonlit_sampler_reset(handle_.get(), seed, &error);
    return MakeError(error);
  }
  Expected<Sampler> Clone() {
    moonlit_sampler* clone = nullptr;
    moonlit_error error = {};
    if (moonlit_sampler_clone(handle_.get(), &clone, &error) != MOONLIT_OK) return MakeError(error);
    return Sampler(clone);
  }

 private:
  std::unique_ptr<moonlit_sampler, void (*)(moonlit_sampler*)> handle_;
};

}  // namespace moonlit::api
