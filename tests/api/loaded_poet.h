// SPDX-License-Identifier: Apache-2.0
// The poet, loaded by the C interface, with a session and a sampler.
#pragma once

#include <gtest/gtest.h>

#include "runtime/api/moonlit.h"

namespace moonlit {

class LoadedPoet : public testing::Test {
 protected:
  void SetUp() override {
    moonlit_model_options options;
    moonlit_model_options_init(&options, sizeof options);
    options.threads = 1;
    options.n_ctx = 64;
    moonlit_error error = {};
    ASSERT_EQ(moonlit_model_load("poet", &options, &model, &error), MOONLIT_OK) << error.message;
    ASSERT_EQ(moonlit_session_new(model, &session, &error), MOONLIT_OK) << error.message;
    ASSERT_EQ(moonlit_sampler_new(model, 1, &sampler, &error), MOONLIT_OK) << error.message;
  }
  void TearDown() override {
    moonlit_sampler_free(sampler);
    moonlit_session_free(session);
    moonlit_model_free(model);
  }

  moonlit_model* model = nullptr;
  moonlit_session* session = nullptr;
  moonlit_sampler* sampler = nullptr;
};

}  // namespace moonlit
