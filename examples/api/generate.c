/* SPDX-License-Identifier: Apache-2.0
 * Generating text: pieces and tokens as they come, a stop string, why it ended, and going on. */
#include <stdio.h>
#include <string.h>

#include "moonlit.h"

static int print_piece(void* user, const char* piece, size_t length) {
  (void)user;
  return fwrite(piece, 1, length, stdout) == length ? 0 : 1; /* anything but 0 stops */
}

static size_t tokens;
static int count_token(void* user, int32_t id) {
  (void)user;
  (void)id;
  ++tokens;
  return 0;
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
  if (moonlit_tokenize(model, text, strlen(text), MOONLIT_ADD_SPECIAL, ids, 16, &count, &error) != MOONLIT_OK || count > 16) goto done;
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

  /* Going on in the same session: it has read everything but the last token. */
  options.stop_count = 0;
  options.max_tokens = 5;
  options.token = count_token;
  if (moonlit_generate(session, &result.last_token, 1, &options, &result, &error) != MOONLIT_OK) goto done;
  printf("\n[%zu tokens, of which the session has not read the last: %d]\n", tokens, result.last_token >= 0);
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.code != MOONLIT_OK ? error.message : "there is no room for all of it");
  moonlit_session_free(session);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * 光，疑是地上霜。
 * [5 tokens read, stopped by a string: 1]
 * 望明月，低
 * [5 tokens, of which the session has not read the last: 1]
 */
