/* SPDX-License-Identifier: Apache-2.0
 * The smallest program that generates text through the C interface:  generate MODEL PROMPT
 * MODEL is a GGUF file or "poet". */
#include <stdio.h>
#include <string.h>

#include "moonlit.h"

static int print_piece(void* user, const char* piece, size_t length) {
  (void)user;
  return fwrite(piece, 1, length, stdout) == length ? 0 : 1;
}

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "poet";
  const char* prompt = argc > 2 ? argv[2] : "床前明月";
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options options;
  moonlit_model* model = NULL;
  moonlit_session* session = NULL;
  int32_t ids[512];
  size_t count = 0;
  int code = 1;

  moonlit_model_options_init(&options, sizeof options);
  if (moonlit_model_load(path, &options, &model, &error) != MOONLIT_OK) goto done;
  if (moonlit_tokenize(model, prompt, strlen(prompt), MOONLIT_ADD_SPECIAL, ids, 512, &count, &error) != MOONLIT_OK) goto done;
  if (count > 512) {
    fprintf(stderr, "the prompt has %zu tokens, this example takes 512\n", count);
    goto done;
  }
  if (moonlit_session_new(model, &session, &error) != MOONLIT_OK) goto done;

  moonlit_generate_options generate;
  moonlit_generate_options_init(&generate, sizeof generate);
  generate.max_tokens = 64;
  generate.temperature = 0;
  generate.text = print_piece;
  if (moonlit_generate(session, ids, count, &generate, NULL, &error) != MOONLIT_OK) goto done;
  printf("\n");
  code = 0;

done:
  if (code != 0 && error.code != MOONLIT_OK) fprintf(stderr, "%s\n", error.message);
  moonlit_session_free(session);
  moonlit_model_free(model);
  return code;
}
