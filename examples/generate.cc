// SPDX-License-Identifier: Apache-2.0
// The same as generate.c through the C++ layer:  generate_cc MODEL PROMPT
#include <cstdio>
#include <string>

#include "moonlit.hpp"

int main(int argc, char** argv) {
  auto model = moonlit::api::Model::Load(argc > 1 ? argv[1] : "poet");
  if (!model) return std::fprintf(stderr, "%s\n", model.error().message.c_str()), 1;
  auto ids = model->Tokenize(argc > 2 ? argv[2] : "床前明月", MOONLIT_ADD_SPECIAL);
  auto session = model->NewSession();
  if (!ids) return std::fprintf(stderr, "%s\n", ids.error().message.c_str()), 1;
  if (!session) return std::fprintf(stderr, "%s\n", session.error().message.c_str()), 1;

  moonlit_generate_options options = moonlit::api::Session::GenerateOptions();
  options.max_tokens = 64;
  options.temperature = 0;
  auto result = session->Generate(*ids, options, [](std::string_view piece) {
    return std::fwrite(piece.data(), 1, piece.size(), stdout) == piece.size();
  });
  if (!result) return std::fprintf(stderr, "%s\n", result.error().message.c_str()), 1;
  std::printf("\n%zu tokens in %.1f ms\n", result->generated_tokens, 1e3 * result->decode_seconds);
  return 0;
}
