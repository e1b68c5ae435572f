/* SPDX-License-Identifier: Apache-2.0
 * Vectors of texts. Part of moonlit.h, whose conventions hold here.
 */
#ifndef MOONLIT_EMBED_H_
#define MOONLIT_EMBED_H_

#include "adapter.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum moonlit_pooling {
  MOONLIT_POOLING_DEFAULT = 0, /* as the model's file says */
  MOONLIT_POOLING_MEAN = 1,    /* of all tokens */
  MOONLIT_POOLING_FIRST = 2,   /* the first token's (BERT's [CLS]) */
  MOONLIT_POOLING_LAST = 3
} moonlit_pooling;

typedef struct moonlit_embed_options {
  size_t size; /* set by moonlit_embed_options_init */
  moonlit_pooling pooling;
  int raw; /* non-zero: the pooled vector as it is; 0 (default): brought to length 1 */
  /* The text's LoRA adapters, each times its scale: [adapter_count], 0 (default) for none; scales NULL: all 1. */
  const moonlit_adapter* const* adapters;
  const float* adapter_scales;
  size_t adapter_count;
  /* Tokens done, of total, from the calling thread: before the first step and after each (of chunk_tokens; an encoder has one). Return
   * non-zero to cancel. May be NULL. */
  int (*progress)(void* user, size_t done, size_t total);
  void* user;
  /* What reads the text in place of a session made for it: of the same model, empty before and after, also after an error. Then
   * moonlit_session_cancel ends the call before its next tile of work, max_sessions may live, and the adapters are the session's:
   * adapter_count must be 0. In use during the call: MOONLIT_BUSY elsewhere. NULL (default): one of its own. */
  moonlit_session* session;
} moonlit_embed_options;

/* The defaults. Any thread. */
MOONLIT_API void moonlit_embed_options_init(moonlit_embed_options* options, size_t size);

/* One vector of a text: the hidden states of its tokens, behind the last layer and its norm, made one. Embedding models (bert,
 * qwen3 for embeddings) say in their files how; another model needs a pooling. The ids come from moonlit_tokenize with MOONLIT_ADD_SPECIAL; an encoder
 * takes at most chunk_tokens.
 * Writes at most `capacity` floats to `vector` (may be NULL when capacity is 0) and their full number, n_embd, to *width. It takes a
 * session while it runs: MOONLIT_EXHAUSTED when max_sessions live and the options name none. MOONLIT_INVALID_ARGUMENT: there is no pooling,
 * an adapter or the session is of another model, or the session holds tokens. MOONLIT_CANCELLED; MOONLIT_BUSY. `options` may be NULL. Any
 * thread. */
MOONLIT_API moonlit_code moonlit_embed(const moonlit_model* model, const int32_t* ids, size_t count,
                                       const moonlit_embed_options* options, float* vector, size_t capacity,
                                       size_t* width, moonlit_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_EMBED_H_ */
