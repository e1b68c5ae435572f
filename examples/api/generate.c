/* SPDX-License-Identifier: Apache-2.0
 * Generating text: pieces as they come, a stop string, and why it ended. */
#include <stdio.h>
#include <string.h>

#include "moonlit.h"

static int print_piece(void* user, const char* piece, size_t length) {
  (void)user;
  return fwrite(piece, 1, length, stdout) == length ? 0 : 1; /* anything but 0 stops */
}

int main(void) {
  const char* text = "床前明月";
  const char* const stop[] = {"举头"};
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model* model = NULL;
  moonlit_session* session = NULL;
  moonlit_generate_options options;
  moonlit_generate_result result;
  int32_t ids[16];
  size_t count = 0;
  int code = 1;

  /* NULL: all options as moonlit_model_options_init sets them. */
  if (moonlit_model_load("poet", NULL, &model, &error) != MOONLIT_OK) goto done;
  if (moonlit_tokenize(model, text, strlen(text), MOONLIT_ADD_SPECIAL, ids, 16, &count, &error) != MOONLIT_OK) goto done;
  if (moonlit_session_new(model, &session, &error) != MOONLIT_OK) goto done;

  moonlit_generate_options_init(&options, sizeof options);
  options.temperature = 0; /* the most likely token, no sampling */
  options.max_tokens = 40;
  options.stop = stop;
  options.stop_count = 1;
  options.text = print_piece;
  result.size = sizeof result;
  if (moonlit_generate(session, ids, count, &options, &result, &error) != MOONLIT_OK) goto done;
  printf("[%zu tokens read, stopped by a string: %d]\n", result.prompt_tokens, result.finish == MOONLIT_FINISH_STOP);
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.message);
  moonlit_session_free(session);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * 光，疑是地上霜。
 * [5 tokens read, stopped by a string: 1]
 */
