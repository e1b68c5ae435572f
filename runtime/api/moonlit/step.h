/* SPDX-License-Identifier: Apache-2.0
 * One step for several sessions. Part of moonlit.h, whose conventions hold here.
 */
#ifndef MOONLIT_STEP_H_
#define MOONLIT_STEP_H_

#include "rows.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Appends *rows[i] to sessions[i], for every i below `count`, in one step, which reads the model's weights once: for an application that
 * serves many sessions from one thread. Sessions that threads of their own use share steps by themselves (moonlit_eval,
 * moonlit_generate), and with this one too. A session's outputs have the same bits as without the others.
 * All or nothing: on failure every session keeps its length. Outputs come on the calling thread, in the order of the sessions, each to
 * its own rows' `consume`. Rows of count 0 leave their session alone.
 * The sessions are of one model, each named once, their rows together at most chunk_tokens, and either all outputs are logits or all are
 * hidden states: otherwise MOONLIT_INVALID_ARGUMENT. All else is as in moonlit_eval_rows; moonlit_session_cancel of any of them stops
 * the step. One call at a time for each of the sessions. */
MOONLIT_API moonlit_code moonlit_step(moonlit_session* const* sessions, const moonlit_rows* const* rows, size_t count,
                                      moonlit_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_STEP_H_ */
