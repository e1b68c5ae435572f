/* SPDX-License-Identifier: Apache-2.0
 *
 * Moonlit's C interface: load a model, make sessions, evaluate tokens, generate text. moonlit.hpp is a thin C++ layer on it.
 *
 *   moonlit_model_options options;
 *   moonlit_model_options_init(&options, sizeof options);
 *   moonlit_error error = {0};
 *   moonlit_model* model = NULL;
 *   if (moonlit_model_load("model.gguf", &options, &model, &error) != MOONLIT_OK) { puts(error.message); return 1; }
 *
 * Conventions
 *  1. Every function that can fail returns a moonlit_code and fills *error (which may be NULL) with one sentence. Nothing is printed,
 *     nothing exits or aborts, and nothing is set for the whole process: what an application brings (a receiver of the log) it brings
 *     for one model or one call.
 *  2. Structs whose first field is their size: options are initialised by their _init function with sizeof, then fields are set; where a
 *     result or facts are written to, the caller sets the size to sizeof before the call. A struct whose size is still 0, or less than
 *     the field's own, is MOONLIT_INVALID_ARGUMENT; to functions without a code nothing is written. Later versions append fields only.
 *  3. Text is UTF-8 given by pointer and length (bytes), and may contain NUL. Ids are int32_t.
 *  4. Objects made by a function are the caller's and are freed by the matching _free, which accepts NULL. A model must outlive what is
 *     made of it: sessions, samplers, grammars, adapters. On failure no object is made, and where its pointer was to go keeps what it
 *     had; nothing else that a call was to write is to be read then, but *error.
 *  5. A pointer that is NULL and may not be is MOONLIT_INVALID_ARGUMENT; functions without a code then do nothing and return 0 or NULL
 *     where nothing else is said. NULL are allowed to be: *error, options (the defaults), an array of no elements, and what says so.
 *  6. Threads. "Any thread": any number of threads may be in the function at once, with the same objects too. What they ask of a model at
 *     the same time goes into one step (docs/embedding.md), with the same bits as one after the other. "One call at a time": any thread, but while another call uses the session or the sampler, from its beginning to its end with all
 *     its callbacks, the result is MOONLIT_BUSY. What a _free frees no other call may use any more. Callbacks come from the thread that made
 *     the call, unless they say otherwise. They may call Moonlit, but not free what the call uses; those that receive outputs
 *     (moonlit_logits_fn, moonlit_row_fn) must not evaluate or generate, with whatever model. They must come back: no C++ exception may leave
 *     one, and no longjmp; threads and locks of a step under way would be lost.
 */
#ifndef MOONLIT_H_
#define MOONLIT_H_

#include "moonlit/adapter.h"
#include "moonlit/base.h"
#include "moonlit/chat.h"
#include "moonlit/embed.h"
#include "moonlit/generate.h"
#include "moonlit/grammar.h"
#include "moonlit/measure.h"
#include "moonlit/memory.h"
#include "moonlit/model.h"
#include "moonlit/rows.h"
#include "moonlit/sampler.h"
#include "moonlit/session.h"
#include "moonlit/step.h"
#include "moonlit/taps.h"
#include "moonlit/write.h"

#endif /* MOONLIT_H_ */
