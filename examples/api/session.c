/* SPDX-License-Identifier: Apache-2.0
 * A session is a text that the model has read. It can be cut, forked, and kept in a file. */
#include <stdio.h>
#include <string.h>

#include "moonlit.h"

/* The most likely next token. */
static void take_best(void* user, size_t position, const float* logits, size_t n_vocab) {
  int32_t* best = user;
  size_t i;
  (void)position;
  *best = 0;
  for (i = 1; i < n_vocab; ++i) {
    if (logits[i] > logits[*best]) *best = (int32_t)i;
  }
}

int main(void) {
  const char* text = "床前明月";
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options options;
  moonlit_model* model = NULL;
  moonlit_session* session = NULL;
  moonlit_session* fork = NULL;
  int32_t ids[16], held[16], next = 0, of_fork = 0, of_file = 0;
  size_t count = 0, length = 0;
  char piece[16];
  int code = 1;

  moonlit_model_options_init(&options, sizeof options);
  options.n_ctx = 128;
  options.max_sessions = 2; /* the session and its fork */
  if (moonlit_model_load("poet", &options, &model, &error) != MOONLIT_OK) goto done;
  if (moonlit_tokenize(model, text, strlen(text), MOONLIT_ADD_SPECIAL, ids, 16, &count, &error) != MOONLIT_OK || count > 16) goto done;
  if (moonlit_session_new(model, &session, &error) != MOONLIT_OK) goto done;

  /* Reads the text and looks at what may follow its last token. */
  if (moonlit_eval(session, ids, count, MOONLIT_OUTPUT_LAST, take_best, &next, &error) != MOONLIT_OK) goto done;
  if (moonlit_detokenize(model, &next, 1, 0, piece, sizeof piece, &length, &error) != MOONLIT_OK || length > sizeof piece) goto done;
  printf("%s + %.*s\n", text, (int)length, piece);

  /* The fork shares the past without a copy and goes its own way. */
  if (moonlit_session_fork(session, &fork, &error) != MOONLIT_OK) goto done;
  if (moonlit_eval(fork, &next, 1, MOONLIT_OUTPUT_LAST, take_best, &of_fork, &error) != MOONLIT_OK) goto done;
  printf("session %zu, fork %zu tokens\n", moonlit_session_length(session), moonlit_session_length(fork));

  /* A file holds the tokens and what was computed from them. */
  if (moonlit_session_save(session, "example.session", &error) != MOONLIT_OK) goto done;
  if (moonlit_session_truncate(session, 0, &error) != MOONLIT_OK) goto done;
  if (moonlit_session_load(session, "example.session", 0, &error) != MOONLIT_OK) goto done;
  count = moonlit_session_tokens(session, held, 16);
  if (count > 16) goto done;
  printf("from the file: %zu tokens, the same: %d\n", count, memcmp(held, ids, count * sizeof *ids) == 0);
  if (moonlit_eval(session, &next, 1, MOONLIT_OUTPUT_LAST, take_best, &of_file, &error) != MOONLIT_OK) goto done;
  printf("goes on alike: %d\n", of_file == of_fork);
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.code != MOONLIT_OK ? error.message : "there is no room for all of it");
  moonlit_session_free(fork);
  moonlit_session_free(session);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * 床前明月 + 光
 * session 5, fork 6 tokens
 * from the file: 5 tokens, the same: 1
 * goes on alike: 1
 */
