/* SPDX-License-Identifier: Apache-2.0
 * What goes into a step beside ids, and what comes out beside logits: embeddings as input rows, positions, hidden states, taps. Part
 * of moonlit.h, whose conventions hold here.
 */
#ifndef MOONLIT_ROWS_H_
#define MOONLIT_ROWS_H_

#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* In place of a token's id: its row is moonlit_rows.embeddings'. moonlit_session_tokens gives it back for such a place. */
#define MOONLIT_EMBEDDING_ROW (-1)

/* One output row: `position` counts from the first token of the call; values: [width], valid during the call. */
typedef void (*moonlit_row_fn)(void* user, size_t position, const float* values, size_t width);

typedef struct moonlit_rows {
  size_t size;        /* set by moonlit_rows_init */
  size_t count;       /* tokens; at most chunk_tokens */
  const int32_t* ids; /* [count]; NULL: all are MOONLIT_EMBEDDING_ROW */
  /* [count, n_embd], row-major: read where the id is MOONLIT_EMBEDDING_ROW. A row stands for what the model's embedding has for a token,
   * before whatever the model does with that (gemma scales it). NULL: all are ids. */
  const float* embeddings;
  /* [count], what RoPE turns by and learned positions are looked up by; NULL: the places in the session. Masks, windows and ALiBi go by
   * the places. Later calls without positions take the places again. */
  const int32_t* positions;
  uint32_t
      sections; /* positions of a row: 1 (default). MOONLIT_UNSUPPORTED otherwise: no model of this build has more (M-RoPE) */
  moonlit_outputs outputs; /* which tokens have an output; default MOONLIT_OUTPUT_LAST */
  int hidden; /* non-zero: hidden states [n_embd], behind the last layer and its norm; 0 (default): logits [n_vocab] */
  moonlit_row_fn consume;
  void* user;
  /* So many first rows see each other, later ones too, and windows do not part them: an image, the prompt of a prefix model. At most
   * `count`; 0 (default): each row sees those before it. What the session holds already does not see them, recurrent layers read them in
   * order, and those that a truncate leaves of them have seen what it cut off. */
  size_t prefix;
} moonlit_rows;

/* The defaults. Any thread. */
MOONLIT_API void moonlit_rows_init(moonlit_rows* rows, size_t size);

/* Appends the rows to the session in one step, and hands out what is wanted, in order. Tokens that came as rows, with positions or in a prefix are
 * never shared with other sessions. On failure the session keeps its length: MOONLIT_INVALID_ARGUMENT (an id, position or prefix out of range, more rows
 * than chunk_tokens), MOONLIT_UNSUPPORTED (embeddings for a model that looks ids up in several tables; logits of a model that has none),
 * MOONLIT_EXHAUSTED, MOONLIT_CANCELLED, MOONLIT_BUSY. One call at a time. */
MOONLIT_API moonlit_code moonlit_eval_rows(moonlit_session* session, const moonlit_rows* rows, moonlit_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_ROWS_H_ */
