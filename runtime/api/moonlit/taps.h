/* SPDX-License-Identifier: Apache-2.0
 * Looking on: copies of what is inside a model while it reads, the residual stream behind each layer and attention's weights, which are
 * otherwise never stored. Part of moonlit.h, whose conventions hold here.
 */
#ifndef MOONLIT_TAPS_H_
#define MOONLIT_TAPS_H_

#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of neighbouring tokens of one layer. Everything is valid during the call. */
typedef struct moonlit_tapped {
  size_t size;         /* of the struct as the library knows it */
  uint32_t layer;      /* 0 to n_layers - 1 */
  uint32_t head;       /* of attention, a query head; 0 in the residual stream */
  size_t position;     /* place in the session of the first row's token */
  size_t rows;         /* tokens */
  size_t width;        /* values of a row: n_embd, or in attention the places 0 to width - 1 of the session */
  const float* values; /* [rows, width], row-major */
  /* Of attention, [rows]: a token sees the places from seen_from[r] to below seen_to[r], and below that end also those before seen_sinks
   * (attention_sinks; else 0). Weights elsewhere are 0. A row sums to 1, or to 1 less the share of a learned sink (gpt-oss). */
  const size_t* seen_from;
  const size_t* seen_to;
  size_t seen_sinks;
} moonlit_tapped;

typedef void (*moonlit_tap_fn)(void* user, const moonlit_tapped* tapped);

typedef struct moonlit_taps {
  size_t size; /* set by moonlit_taps_init */
  /* The residual stream behind a layer, before the final norm (moonlit_rows.hidden is behind it); NULL: not wanted. */
  moonlit_tap_fn residual;
  /* The weights of a head: softmax(scale * q . k + mask), with the keys as the cache has them; NULL: not wanted. */
  moonlit_tap_fn attention;
  void* user;
  const uint32_t* layers; /* [layer_count], which the call copies; a layer without attention has no weights */
  size_t layer_count;     /* 0 (default): all layers */
  const uint32_t* heads;  /* [head_count], of attention, which the call copies */
  size_t head_count;      /* 0 (default): all heads */
  size_t first;           /* tokens at places first <= place < last of the session alone; default 0 and SIZE_MAX: all */
  size_t last;
} moonlit_taps;

/* The defaults. Any thread. */
MOONLIT_API void moonlit_taps_init(moonlit_taps* taps, size_t size);

/* What the session reads from now on is shown to `taps`; NULL: to nobody, as at first. Logits and tokens keep every bit. Without taps in a
 * step nothing is kept, copied or computed for them; with them the session takes nothing from other sessions' caches but computes all its
 * tokens, weights cost what they would in plain attention, and memory goes to a step's rows of one layer, to at most 16 MiB of weights (one
 * row, if it is longer) and to the keys of one head as floats.
 *
 * Callbacks come from the thread that evaluates (moonlit_eval, moonlit_step, moonlit_generate ...), whose step is then shared with no
 * other thread's, one at a time: in the order of the layers, each layer's attention before its residual stream, sessions in the order of
 * moonlit_step's, heads and places ascending, a long text step by step. Meanwhile the model's steps wait: inside a callback no function may
 * be called on sessions of this model but moonlit_session_cancel, _length and _tokens. An eval that fails may have shown what its session
 * then does not hold. Forks and files do not have taps.
 *
 * MOONLIT_INVALID_ARGUMENT: neither callback is set; a layer or head that the model does not have, or a layer without attention for weights;
 * first is not below last. MOONLIT_UNSUPPORTED: a model without attention for weights, or with attention_pages, whose tokens do not read
 * all that they see. One call at a time. */
MOONLIT_API moonlit_code moonlit_session_set_taps(moonlit_session* session, const moonlit_taps* taps,
                                                  moonlit_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_TAPS_H_ */
