// SPDX-License-Identifier: Apache-2.0
// A thin C++20 layer over moonlit.h: the same functions with owners, spans and strings. Header only. It throws
// nothing of its own; the strings and vectors that it makes may throw std::bad_alloc. Functions given to it must not throw.
//
//   auto model = moonlit::api::Model::Load("poet");
//   if (!model) { std::cerr << model.error().message; return 1; }
//   auto session = model->NewSession();
//   auto ids = model->Tokenize("...");
//   auto options = moonlit::api::Session::GenerateOptions();
//   options.max_tokens = 64;
//   session->Generate(*ids, options, [](std::string_view piece) { std::cout << piece; return true; });
#pragma once

#include "moonlit.h"
#include "moonlit/expected.hpp"
#include "moonlit/model.hpp"
#include "moonlit/sampler.hpp"
#include "moonlit/session.hpp"
#include "moonlit/write.hpp"
