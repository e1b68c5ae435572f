/* SPDX-License-Identifier: Apache-2.0
 * Room in a full context, and an end to a generation that takes too long. */
#include <stdio.h>

#include "moonlit.h"

/* As another thread could at any time: a user pressed Escape. */
static int press_escape(void* user, const char* piece, size_t length) {
  (void)piece;
  (void)length;
  moonlit_session_cancel(user);
  return 0;
}

int main(void) {
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options options;
  moonlit_model* model = NULL;
  moonlit_session* session = NULL;
  moonlit_generate_options generate;
  moonlit_generate_result result;
  int32_t ids[128], begin;
  size_t i;
  int code = 1;

  moonlit_model_options_init(&options, sizeof options);
  options.n_ctx = 128;
  options.page_tokens = 64;
  if (moonlit_model_load("poet", &options, &model, &error) != MOONLIT_OK) goto done;
  if (moonlit_session_new(model, &session, &error) != MOONLIT_OK) goto done;
  begin = moonlit_token_begin(model);
  for (i = 0; i < 128; ++i) ids[i] = i == 0 ? begin : 300 + (int32_t)i;

  if (moonlit_eval(session, ids, 128, MOONLIT_OUTPUT_NONE, NULL, NULL, &error) != MOONLIT_OK) goto done;
  printf("one more: %d\n", moonlit_eval(session, ids, 1, MOONLIT_OUTPUT_NONE, NULL, NULL, &error) == MOONLIT_OK);
  /* The first page goes; what follows moves down without being read again. */
  if (moonlit_session_drop(session, 0, 64, &error) != MOONLIT_OK) goto done;
  printf("after the drop: %zu tokens\n", moonlit_session_length(session));

  moonlit_generate_options_init(&generate, sizeof generate);
  generate.temperature = 0;
  generate.ignore_end = 1;
  generate.text = press_escape;
  generate.user = session;
  result.size = sizeof result;
  if (moonlit_generate(session, ids + 1, 1, &generate, &result, &error) != MOONLIT_OK) goto done;
  printf("cancelled: %d\n", result.finish == MOONLIT_FINISH_CANCELLED);
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.message);
  moonlit_session_free(session);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * one more: 0
 * after the drop: 64 tokens
 * cancelled: 1
 */
