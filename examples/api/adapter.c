/* SPDX-License-Identifier: Apache-2.0
 * Two sessions of one model, one of them with a LoRA adapter:  adapter MODEL.gguf ADAPTER.gguf */
#include <stdio.h>

#include "moonlit.h"

#define VOCABULARY 4096

static void keep(void* user, size_t position, const float* logits, size_t n_vocab) {
  float* kept = user;
  size_t i;
  (void)position;
  for (i = 0; i < n_vocab && i < VOCABULARY; ++i) kept[i] = logits[i];
}

int main(int argc, char** argv) {
  static float plain[VOCABULARY], adapted[VOCABULARY], again[VOCABULARY];
  const int32_t ids[] = {5, 76, 147, 218};
  const moonlit_adapter* adapters[1];
  const float scales[] = {0.5f};
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options options;
  moonlit_model* model = NULL;
  moonlit_session* session = NULL;
  moonlit_session* other = NULL;
  moonlit_adapter* adapter = NULL;
  moonlit_adapter_info info = {0};
  int changed = 0, restored = 1, code = 1;
  size_t i;

  if (argc < 3) return 2;
  moonlit_model_options_init(&options, sizeof options);
  options.max_sessions = 2;
  if (moonlit_model_load(argv[1], &options, &model, &error) != MOONLIT_OK) goto done;
  if (moonlit_adapter_load(model, argv[2], &adapter, &error) != MOONLIT_OK) goto done;
  info.size = sizeof info;
  moonlit_adapter_get_info(adapter, &info);
  printf("%zu tensors, alpha %.1f\n", info.tensors, (double)info.alpha);

  if (moonlit_session_new(model, &session, &error) != MOONLIT_OK) goto done;
  if (moonlit_session_new(model, &other, &error) != MOONLIT_OK) goto done;
  adapters[0] = adapter;
  if (moonlit_session_set_adapters(session, adapters, scales, 1, &error) != MOONLIT_OK) goto done;
  moonlit_adapter_free(adapter); /* the session keeps what it needs */
  adapter = NULL;
  if (moonlit_eval(session, ids, 4, MOONLIT_OUTPUT_LAST, keep, adapted, &error) != MOONLIT_OK) goto done;
  if (moonlit_eval(other, ids, 4, MOONLIT_OUTPUT_LAST, keep, plain, &error) != MOONLIT_OK) goto done;

  /* Without it the session is like the other one. Its text was read with the adapter, so it has to go first. */
  if (moonlit_session_truncate(session, 0, &error) != MOONLIT_OK) goto done;
  if (moonlit_session_set_adapters(session, NULL, NULL, 0, &error) != MOONLIT_OK) goto done;
  if (moonlit_eval(session, ids, 4, MOONLIT_OUTPUT_LAST, keep, again, &error) != MOONLIT_OK) goto done;
  for (i = 0; i < VOCABULARY; ++i) {
    if (adapted[i] != plain[i]) changed = 1;
    if (again[i] != plain[i]) restored = 0;
  }
  printf("other logits with it: %d, the same without: %d\n", changed, restored);
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.message);
  moonlit_adapter_free(adapter);
  moonlit_session_free(session);
  moonlit_session_free(other);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * 2 tensors, alpha 4.0
 * other logits with it: 1, the same without: 1
 */
