/* SPDX-License-Identifier: Apache-2.0
 * What a model takes of the memory, before and after it is loaded. Part of moonlit.h, whose conventions hold here.
 *
 *   moonlit_memory memory = {sizeof memory};
 *   moonlit_plan_memory("model.gguf", &options, &memory, &error);
 */
#ifndef MOONLIT_MEMORY_H_
#define MOONLIT_MEMORY_H_

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Big memory in bytes: what `allocate` of moonlit_model_options gives, but for adapters. Beside it are the library itself, the vocabulary
 * and tables (some megabytes). */
typedef struct moonlit_memory {
  size_t size;      /* set by the caller to sizeof before the call */
  uint64_t weights; /* packed; the file is not kept beside them */
  uint64_t cache;   /* keys and values of all sessions */
  uint64_t states;  /* of recurrent layers, of all sessions */
  uint64_t scratch; /* intermediates of a step, and scratch of the threads */
  uint64_t total;   /* the sum of these */
  uint64_t most;    /* at one moment: `total`, or more while weights are packed */
  uint64_t session; /* what one session has of cache and states */
  uint32_t n_ctx;   /* after defaults, as are these */
  uint32_t max_sessions;
  uint32_t threads;
} moonlit_memory;

/* What moonlit_model_load would take with these options (NULL: the defaults), found from the model's headers: no weight is read, no memory
 * of this size is asked for, no thread started. With vocab_only it is nothing. Errors as moonlit_model_load's, but for those of the
 * tokenizer, which is not read. Any thread. */
MOONLIT_API moonlit_code moonlit_plan_memory(const char* path, const moonlit_model_options* options,
                                             moonlit_memory* memory, moonlit_error* error);
/* The largest n_ctx, at most what the model was trained for, with which `most` is at most `bytes`; 0 where even one token does not
 * fit. The n_ctx in the options is not looked at. MOONLIT_INVALID_ARGUMENT with vocab_only: such a model has no context. Otherwise as moonlit_plan_memory. */
MOONLIT_API moonlit_code moonlit_plan_context(const char* path, const moonlit_model_options* options, uint64_t bytes,
                                              uint32_t* n_ctx, moonlit_error* error);
/* What was allocated for a loaded model. It does not change while the model lives. Writes nothing where memory->size is 0. Any
 * thread. */
MOONLIT_API void moonlit_model_memory(const moonlit_model* model, moonlit_memory* memory);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_MEMORY_H_ */
