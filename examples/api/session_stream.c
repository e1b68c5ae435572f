/* SPDX-License-Identifier: Apache-2.0
 * A session as bytes of the application's: here in memory, as it would go into a database. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moonlit.h"

struct state {
  unsigned char* bytes;
  size_t size, done;
};

static int put(void* user, const void* bytes, size_t size) {
  struct state* to = user;
  if (size > to->size - to->done) return 1; /* gives up */
  memcpy(to->bytes + to->done, bytes, size);
  to->done += size;
  return 0;
}

static int get(void* user, void* bytes, size_t size) {
  struct state* from = user;
  if (size > from->size - from->done) return 1; /* there are no more */
  memcpy(bytes, from->bytes + from->done, size);
  from->done += size;
  return 0;
}

int main(void) {
  const char* text = "床前明月";
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options options;
  moonlit_model* model = NULL;
  moonlit_session* session = NULL;
  struct state state = {NULL, 0, 0};
  int32_t ids[16];
  size_t count = 0;
  uint64_t bytes = 0;
  int code = 1;

  moonlit_model_options_init(&options, sizeof options);
  options.n_ctx = 128;
  if (moonlit_model_load("poet", &options, &model, &error) != MOONLIT_OK) goto done;
  if (moonlit_tokenize(model, text, strlen(text), MOONLIT_ADD_SPECIAL, ids, 16, &count, &error) != MOONLIT_OK || count > 16) goto done;
  if (moonlit_session_new(model, &session, &error) != MOONLIT_OK) goto done;
  if (moonlit_eval(session, ids, count, MOONLIT_OUTPUT_NONE, NULL, NULL, &error) != MOONLIT_OK) goto done;

  /* How long it will be is known before it is written. */
  if (moonlit_session_saved_bytes(session, &bytes, &error) != MOONLIT_OK) goto done;
  state.size = (size_t)bytes;
  state.bytes = malloc(state.size);
  if (state.bytes == NULL) goto done;
  if (moonlit_session_write(session, put, &state, &error) != MOONLIT_OK) goto done;
  printf("written: all of it %d\n", state.done == state.size);

  /* Later, in a session of the same model. */
  if (moonlit_session_truncate(session, 0, &error) != MOONLIT_OK) goto done;
  state.done = 0;
  if (moonlit_session_read(session, get, &state, 0, &error) != MOONLIT_OK) goto done;
  printf("read: %zu tokens\n", moonlit_session_length(session));

  /* What is damaged is refused, and the session stays. */
  state.done = 0;
  state.bytes[state.size / 2] ^= 1;
  printf("damaged: refused %d", moonlit_session_read(session, get, &state, 0, &error) == MOONLIT_CORRUPT);
  printf(", still %zu tokens\n", moonlit_session_length(session));
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.code != MOONLIT_OK ? error.message : "there is no room or no memory for it");
  free(state.bytes);
  moonlit_session_free(session);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * written: all of it 1
 * read: 5 tokens
 * damaged: refused 1, still 5 tokens
 */
