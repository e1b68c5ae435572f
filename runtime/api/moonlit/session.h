/* SPDX-License-Identifier: Apache-2.0
 * Sessions: the text so far, in the cache of a model; evaluating tokens. Part of moonlit.h, whose conventions hold here.
 */
#ifndef MOONLIT_SESSION_H_
#define MOONLIT_SESSION_H_

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An empty session; MOONLIT_EXHAUSTED when max_sessions live. Any thread. */
MOONLIT_API moonlit_code moonlit_session_new(moonlit_model* model, moonlit_session** session, moonlit_error* error);
/* Any thread. */
MOONLIT_API void moonlit_session_free(moonlit_session* session);
/* Tokens that the session holds. Any thread, but not while another one is in a call that uses the session. */
MOONLIT_API size_t moonlit_session_length(const moonlit_session* session);
/* Forgets all but the first `length` tokens. Models with sliding windows may have to read the text again from some place, like an
 * eval; not inside a callback. If that fails, or moonlit_session_cancel ends it (MOONLIT_CANCELLED), the session is shorter than asked
 * for: moonlit_session_length says how long. One call at a time. */
MOONLIT_API moonlit_code moonlit_session_truncate(moonlit_session* session, size_t length, moonlit_error* error);
/* Drops tokens [first, last), whole pages (multiples of page_tokens), and moves what follows down: room in a full context without
 * reading the text again. What is left is then read as if it had always stood there, but has been computed with what is gone;
 * layers with a longer window than what follows `last` may not see the end of what stands before `first`. Where nothing follows `last` it is
 * moonlit_session_truncate to `first`. One call at a time. */
MOONLIT_API moonlit_code moonlit_session_drop(moonlit_session* session, size_t first, size_t last,
                                              moonlit_error* error);
/* A second session with the same past, which goes its own way; it counts towards max_sessions. One call at a time. */
MOONLIT_API moonlit_code moonlit_session_fork(moonlit_session* session, moonlit_session** fork, moonlit_error* error);
/* Writes at most `capacity` ids of the session's tokens to `ids` (may be NULL when capacity is 0). Returns their full number.
 * Threads as moonlit_session_length. */
MOONLIT_API size_t moonlit_session_tokens(const moonlit_session* session, int32_t* ids, size_t capacity);

/* Writes the session (tokens and cache) to a file, which appears complete or not at all and must not be one of the model's.
 * It has nothing of tokens that were truncated away. One call at a time. */
MOONLIT_API moonlit_code moonlit_session_save(moonlit_session* session, const char* path, moonlit_error* error);
enum {
  MOONLIT_ANY_VARIANT = 1 /* take a file of another kernel variant: what follows is as good, but not the same bits */
};
/* Makes the session what was saved. The model, its cache types and page_tokens must be the same, and the kernel variant unless
 * MOONLIT_ANY_VARIANT is set: MOONLIT_UNSUPPORTED tells what differs. A damaged file is MOONLIT_CORRUPT, a text that is longer than
 * n_ctx MOONLIT_EXHAUSTED. On failure the session keeps what it holds. Where there is no room for both texts, as with max_sessions 1
 * when each takes more than half of the context, the file is read twice: it is checked, then what the session holds goes. If the file
 * has changed since, or can't be read again, the session is empty, and the message says so. One call at a time. */
MOONLIT_API moonlit_code moonlit_session_load(moonlit_session* session, const char* path, int flags,
                                              moonlit_error* error);

/* The same bytes to and from any place of the application's: memory, a database, a socket. The functions get and give them in order, in
 * pieces of any size above 0, in memory that is lent for the call: all of a piece, or non-zero to give up. Meanwhile other sessions of
 * the model may go on. */
typedef int (*moonlit_write_fn)(void* user, const void* bytes, size_t size);
typedef int (*moonlit_read_fn)(void* user, void* bytes, size_t size);
/* How many bytes moonlit_session_save and moonlit_session_write write of the session as it is. One call at a time. */
MOONLIT_API moonlit_code moonlit_session_saved_bytes(moonlit_session* session, uint64_t* bytes, moonlit_error* error);
/* As moonlit_session_save. MOONLIT_IO: `write` has given up, and what it got before is of no use. One call at a time. */
MOONLIT_API moonlit_code moonlit_session_write(moonlit_session* session, moonlit_write_fn write, void* user,
                                               moonlit_error* error);
/* As moonlit_session_load, with its flags, checks and errors. Reads as many bytes as were written and none behind them. MOONLIT_IO: `read`
 * has given up, as it does where the bytes end too early. They come once, so the session keeps what it holds until all are there:
 * MOONLIT_EXHAUSTED where there is no room for both texts. moonlit_session_truncate to 0 first makes room, and gives up that safety.
 * One call at a time. */
MOONLIT_API moonlit_code moonlit_session_read(moonlit_session* session, moonlit_read_fn read, void* user, int flags,
                                              moonlit_error* error);

/* Stops a running eval, generate, perplexity, embed or truncate that reads again before its next tile of work; it returns MOONLIT_CANCELLED
 * (generate: finishes with MOONLIT_FINISH_CANCELLED). Without one running it does nothing. Any thread, while the session lives. */
MOONLIT_API void moonlit_session_cancel(moonlit_session* session);

typedef enum moonlit_outputs {
  MOONLIT_OUTPUT_NONE = 0,
  MOONLIT_OUTPUT_LAST = 1,
  MOONLIT_OUTPUT_ALL = 2,
  /* As LAST, of tokens that were generated, at most chunk_tokens of them: with attention_pages they read chosen pages alone. */
  MOONLIT_OUTPUT_GENERATED = 3
} moonlit_outputs;

/* Logits of one position: `position` counts from the first token of this call; logits: [n_vocab], valid during the call. */
typedef void (*moonlit_logits_fn)(void* user, size_t position, const float* logits, size_t n_vocab);

/* Appends tokens to the session and hands out the logits asked for, in order. `consume` may be NULL. No tokens are
 * nothing to do. More than the context has room for are MOONLIT_EXHAUSTED. On failure the session keeps its length. One call at a time. */
MOONLIT_API moonlit_code moonlit_eval(moonlit_session* session, const int32_t* ids, size_t count,
                                      moonlit_outputs outputs, moonlit_logits_fn consume, void* user,
                                      moonlit_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_SESSION_H_ */
