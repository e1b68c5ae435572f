/* SPDX-License-Identifier: Apache-2.0
 * LoRA adapters: small changes of a model's weights, for each session its own. Part of moonlit.h, whose conventions hold here.
 *
 *   moonlit_adapter* adapter = NULL;
 *   moonlit_adapter_load(model, "french.gguf", &adapter, &error);
 *   moonlit_session_set_adapters(session, &adapter, NULL, 1, &error);
 */
#ifndef MOONLIT_ADAPTER_H_
#define MOONLIT_ADAPTER_H_

#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct moonlit_adapter moonlit_adapter;

/* Reads a LoRA adapter in GGUF (as llama.cpp's convert_lora_to_gguf.py writes it) and checks it against the model. Any thread, while
 * sessions run. MOONLIT_NOT_FOUND; MOONLIT_INVALID_ARGUMENT: no adapter, or one of another model; MOONLIT_UNSUPPORTED: it adapts
 * what can't be (an embedding, experts), or is of another kind; MOONLIT_CORRUPT. The adapter is the caller's; it may be freed at any
 * time by any thread, also before its model: sessions that have it keep what they need. */
MOONLIT_API moonlit_code moonlit_adapter_load(const moonlit_model* model, const char* path, moonlit_adapter** adapter,
                                              moonlit_error* error);
MOONLIT_API void moonlit_adapter_free(moonlit_adapter* adapter);

typedef struct moonlit_adapter_info {
  size_t size;    /* set by the caller to sizeof before the call */
  size_t tensors; /* of the model that it adapts */
  uint64_t bytes; /* of memory */
  float alpha;    /* as in the file; 0: none */
} moonlit_adapter_info;

/* Writes to *info; nothing where its size is 0. Any thread. */
MOONLIT_API void moonlit_adapter_get_info(const moonlit_adapter* adapter, moonlit_adapter_info* info);

/* From now on the session's products have the adapters' addends, each times its scale: scales [count], NULL: all 1. Replaces those before;
 * count 0 takes all away. The model's weights stay as they are: sessions with other adapters and without run beside it, each with the
 * bits that it has alone. Forks have the same adapters; moonlit_session_load refuses the file of a session that had others.
 * One call at a time. MOONLIT_INVALID_ARGUMENT: the session holds tokens that were read with others
 * (truncate it to 0 first), an adapter was loaded for another model, or a scale is not finite. */
MOONLIT_API moonlit_code moonlit_session_set_adapters(moonlit_session* session, const moonlit_adapter* const* adapters,
                                                      const float* scales, size_t count, moonlit_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_ADAPTER_H_ */
