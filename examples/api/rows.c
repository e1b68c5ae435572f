/* SPDX-License-Identifier: Apache-2.0
 * Tokens by their embeddings, and hidden states:  rows
 * A soft prompt or an image enters a model this way; here it is four rows of made-up numbers before two ids. */
#include <stdio.h>

#include "moonlit.h"

#define WIDTH 4096

typedef struct {
  size_t rows, width;
} Shape;

static void count(void* user, size_t position, const float* values, size_t width) {
  Shape* shape = user;
  (void)position;
  (void)values;
  shape->rows += 1;
  shape->width = width;
}

int main(void) {
  static float embeddings[6 * WIDTH];
  const int32_t ids[6] = {MOONLIT_EMBEDDING_ROW, MOONLIT_EMBEDDING_ROW, MOONLIT_EMBEDDING_ROW, MOONLIT_EMBEDDING_ROW,
                          20, 21};
  const int32_t positions[6] = {0, 0, 0, 0, 1, 2}; /* the four stand at one place */
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model* model = NULL;
  moonlit_session* session = NULL;
  moonlit_model_info info = {0};
  moonlit_rows rows;
  Shape shape = {0, 0};
  int32_t tokens[6] = {0};
  int code = 1;
  size_t i;

  if (moonlit_model_load("poet", NULL, &model, &error) != MOONLIT_OK) goto done;
  if (moonlit_session_new(model, &session, &error) != MOONLIT_OK) goto done;
  info.size = sizeof info;
  moonlit_model_get_info(model, &info);
  if (info.n_embd > WIDTH) goto done;
  for (i = 0; i < 4 * info.n_embd; ++i) embeddings[i] = 0.01f * (float)(i % 7);

  moonlit_rows_init(&rows, sizeof rows);
  rows.count = 6;
  rows.ids = ids;
  rows.embeddings = embeddings;
  rows.positions = positions;
  rows.prefix = 4; /* and see each other */
  rows.outputs = MOONLIT_OUTPUT_ALL;
  rows.hidden = 1;
  rows.consume = count;
  rows.user = &shape;
  if (moonlit_eval_rows(session, &rows, &error) != MOONLIT_OK) goto done;
  moonlit_session_tokens(session, tokens, 6);
  printf("%zu hidden states as wide as embeddings: %d\n", shape.rows, shape.width == info.n_embd);
  printf("tokens %d to %d\n", (int)tokens[0], (int)tokens[5]);
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.code != MOONLIT_OK ? error.message : "the model is too wide");
  moonlit_session_free(session);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * 6 hidden states as wide as embeddings: 1
 * tokens -1 to 21
 */
