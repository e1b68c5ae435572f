/* SPDX-License-Identifier: Apache-2.0
 * Generating text. Part of moonlit.h, whose conventions hold here.
 */
#ifndef MOONLIT_GENERATE_H_
#define MOONLIT_GENERATE_H_

#include "grammar.h"
#include "sampler.h"
#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct moonlit_generate_options {
  size_t size;             /* set by moonlit_generate_options_init */
  size_t max_tokens;       /* 0: until the end or until the context is full */
  float temperature;       /* 0: the most likely token; default 0.8 */
  int32_t top_k;           /* 0: off; default 40 */
  float top_p;             /* 1: off; default 0.95 */
  float min_p;             /* 0: off; default 0.05 */
  float repeat_penalty;    /* 1: off (default) */
  uint32_t repeat_last_n;  /* tokens of the session that the penalty looks back at; default 64 */
  uint64_t seed;           /* the same seed gives the same tokens; default 0 */
  const char* const* stop; /* [stop_count] NUL-terminated strings that end the text and are not given out */
  size_t stop_count;
  int ignore_end; /* non-zero: go on after an end token (benchmarks) */
  /* Pieces of whole UTF-8 characters, as soon as they are sure; return non-zero to stop. May be NULL. */
  int (*text)(void* user, const char* piece, size_t length);
  /* Prompt tokens done, of total, after each prefill step. May be NULL. */
  void (*prefill_progress)(void* user, size_t done, size_t total);
  void* user;
  /* Non-zero: when the context is full, the older half of what stands behind the first `keep` tokens is dropped, in whole pages, and the
   * generation goes on; without max_tokens until the model ends. 0 (default): it ends with MOONLIT_FINISH_CONTEXT. MOONLIT_INVALID_ARGUMENT
   * names the least n_ctx where the context is too short for it, MOONLIT_UNSUPPORTED a model that can't. */
  int context_shift;
  size_t keep; /* at least 1 is kept, rounded up to whole pages */
  /* What the text has to be (grammar.h); it ends, with MOONLIT_FINISH_END, as soon as nothing may follow. NULL (default): anything.
   * MOONLIT_UNSUPPORTED: the vocabulary has no token that goes on as it asks. */
  const moonlit_grammar* grammar;
  /* What chooses, in place of temperature, top_k, top_p, min_p, repeat_penalty, repeat_last_n, seed and grammar, which stand for a chain of penalties,
   * top-k, top-p, min-p, temperature, draw behind the grammar; with temperature 0 of penalties and the most likely token. It goes on from where it is (its
   * random numbers, a grammar), but what it looks back at becomes the session's tokens, once the prompt is read: a call that fails before leaves it as it is; moonlit_sampler_reset before a new text. It must be of the session's
   * model. In use during the call: MOONLIT_BUSY elsewhere. NULL (default): the fields. */
  moonlit_sampler* sampler;
  /* Each generated token, before the piece that it completes; not the end token. Return non-zero to stop behind it: its text still comes.
   * May be NULL. */
  int (*token)(void* user, int32_t id);
} moonlit_generate_options;

/* The defaults. Any thread. */
MOONLIT_API void moonlit_generate_options_init(moonlit_generate_options* options, size_t size);

typedef enum moonlit_finish {
  MOONLIT_FINISH_END = 0,      /* the model ended its text */
  MOONLIT_FINISH_STOP = 1,     /* a stop string */
  MOONLIT_FINISH_LENGTH = 2,   /* max_tokens */
  MOONLIT_FINISH_CONTEXT = 3,  /* the context is full */
  MOONLIT_FINISH_CANCELLED = 4 /* a callback or moonlit_session_cancel */
} moonlit_finish;

typedef struct moonlit_generate_result {
  size_t size; /* set by the caller to sizeof before the call */
  moonlit_finish finish;
  size_t prompt_tokens;
  size_t generated_tokens;
  double prefill_seconds;
  double decode_seconds;
  size_t reused_tokens;  /* of prompt_tokens: taken from the cache instead of computed */
  size_t context_shifts; /* how often the full context made room */
  int32_t last_token;    /* the last generated token while the session has not read it; -1: it has read all */
  int32_t end_token;     /* what the model ended its text with (MOONLIT_FINISH_END), not read either; -1: nothing */
} moonlit_generate_result;

/* Appends the prompt to the session and generates. A prompt that does not fit is MOONLIT_EXHAUSTED with the needed and the allowed
 * number; it is never cut; an empty one is MOONLIT_INVALID_ARGUMENT, since there is nothing to go on from. `result` may be NULL. One call at a time.
 *
 * Afterwards the session holds what it held, the prompt, and all generated tokens but last_token, less what context shifts dropped. Whoever
 * goes on puts last_token before the next prompt, or gives it alone to go on with the same text:
 *   MOONLIT_FINISH_END        read are all tokens, and end_token is what a chat reads before its next turn; where a grammar ended the
 *                             text there is a last_token and no end_token
 *   MOONLIT_FINISH_STOP       all but last_token, which completed the stop string: tokens of that string are among those read
 *   MOONLIT_FINISH_LENGTH     all but last_token
 *   MOONLIT_FINISH_CONTEXT    all but last_token, which has no room
 *   MOONLIT_FINISH_CANCELLED  all but last_token, if there is one: none when the end came between a step and the next choice. While the
 *                             prompt was read (prompt_tokens is 0) the session is as it was before
 * After an error it is as it was before, or, once the prompt is read, holds what was read until then. */
MOONLIT_API moonlit_code moonlit_generate(moonlit_session* session, const int32_t* prompt, size_t prompt_count,
                                          const moonlit_generate_options* options, moonlit_generate_result* result,
                                          moonlit_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_GENERATE_H_ */
