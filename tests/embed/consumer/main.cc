// SPDX-License-Identifier: Apache-2.0
// The C header from C++17: nothing of the library's own standard is asked of a program.
#include "moonlit.h"

static_assert(__cplusplus < 202002L, "the consumer chose C++17");

extern "C" int Greet(const moonlit_error* error);

int main() {
  moonlit_model* model = nullptr;
  moonlit_error error = {};
  return moonlit_model_load("no-such-model.gguf", nullptr, &model, &error) == MOONLIT_NOT_FOUND ? Greet(&error) : 1;
}
