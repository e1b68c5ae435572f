/* SPDX-License-Identifier: Apache-2.0
 * What a model looks at, and what its layers say:  taps
 * The weights of one head for the last token of a text, and how long the residual stream's rows become from layer to layer. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "moonlit.h"

typedef struct {
  double sum;      /* of the last token's weights */
  size_t most;     /* the place that it looks at most */
  size_t tables;   /* weights that were shown */
  size_t rows;     /* of the residual stream, all layers together */
  double smallest; /* length of a row, in units of the root of its width */
} Seen;

static void see_weights(void* user, const moonlit_tapped* tapped) {
  Seen* seen = user;
  const float* row = tapped->values + (tapped->rows - 1) * tapped->width;
  size_t j;
  seen->tables += 1;
  seen->sum = 0;
  seen->most = 0;
  for (j = 0; j < tapped->width; ++j) {
    seen->sum += row[j];
    if (row[j] > row[seen->most]) seen->most = j;
  }
}

static void see_stream(void* user, const moonlit_tapped* tapped) {
  Seen* seen = user;
  size_t r, i;
  for (r = 0; r < tapped->rows; ++r) {
    const float* row = tapped->values + r * tapped->width;
    double squares = 0;
    for (i = 0; i < tapped->width; ++i) squares += (double)row[i] * row[i];
    squares = sqrt(squares / (double)tapped->width);
    if (seen->rows++ == 0 || squares < seen->smallest) seen->smallest = squares;
  }
}

int main(void) {
  const char* text = "床前明月";
  const uint32_t layer = 4, head = 0;
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model* model = NULL;
  moonlit_session* session = NULL;
  moonlit_model_info info = {0};
  moonlit_taps taps;
  Seen seen = {0, 0, 0, 0, 0};
  int32_t ids[16];
  size_t count = 0;
  int code = 1;

  if (moonlit_model_load("poet", NULL, &model, &error) != MOONLIT_OK) goto done;
  if (moonlit_session_new(model, &session, &error) != MOONLIT_OK) goto done;
  info.size = sizeof info;
  moonlit_model_get_info(model, &info);
  if (moonlit_tokenize(model, text, strlen(text), MOONLIT_ADD_SPECIAL, ids, 16, &count, &error) != MOONLIT_OK || count == 0 || count > 16) goto done;

  /* One head's weights of one token. */
  moonlit_taps_init(&taps, sizeof taps);
  taps.attention = see_weights;
  taps.user = &seen;
  taps.layers = &layer;
  taps.layer_count = 1;
  taps.heads = &head;
  taps.head_count = 1;
  taps.first = count - 1;
  taps.last = count;
  if (moonlit_session_set_taps(session, &taps, &error) != MOONLIT_OK) goto done;
  if (moonlit_eval(session, ids, count, MOONLIT_OUTPUT_NONE, NULL, NULL, &error) != MOONLIT_OK) goto done;
  printf("%zu table, its row sums to 1: %d\n", seen.tables, fabs(seen.sum - 1) < 1e-6);
  printf("the last of %zu tokens looks most at token %zu\n", count, seen.most);

  /* The residual stream behind every layer, of all tokens. */
  if (moonlit_session_truncate(session, 0, &error) != MOONLIT_OK) goto done;
  moonlit_taps_init(&taps, sizeof taps);
  taps.residual = see_stream;
  taps.user = &seen;
  if (moonlit_session_set_taps(session, &taps, &error) != MOONLIT_OK) goto done;
  if (moonlit_eval(session, ids, count, MOONLIT_OUTPUT_NONE, NULL, NULL, &error) != MOONLIT_OK) goto done;
  printf("a row for each token and layer: %d\n", seen.rows == count * info.n_layers);
  printf("none of them is 0: %d\n", seen.smallest > 0);
  if (moonlit_session_set_taps(session, NULL, &error) != MOONLIT_OK) goto done;
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.code != MOONLIT_OK ? error.message : "there is no room for all of it");
  moonlit_session_free(session);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * 1 table, its row sums to 1: 1
 * the last of 5 tokens looks most at token 3
 * a row for each token and layer: 1
 * none of them is 0: 1
 */
