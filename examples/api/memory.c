/* SPDX-License-Identifier: Apache-2.0
 * What a model will take, how long a context fits into so much memory, and what it took. */
#include <inttypes.h>
#include <stdio.h>

#include "moonlit.h"

int main(void) {
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options options;
  moonlit_memory planned, taken;
  moonlit_model* model = NULL;
  uint32_t n_ctx = 0;

  moonlit_model_options_init(&options, sizeof options);
  options.threads = 1;
  options.max_sessions = 64;
  planned.size = sizeof planned;
  taken.size = sizeof taken;
  if (moonlit_plan_memory("poet", &options, &planned, &error) != MOONLIT_OK) goto failed;
  printf("%" PRIu32 " sessions of %" PRIu32 " tokens\n", planned.max_sessions, planned.n_ctx);

  /* What these sessions take, less one byte, holds as many shorter ones. */
  if (moonlit_plan_context("poet", &options, planned.most - 1, &n_ctx, &error) != MOONLIT_OK) goto failed;
  printf("shorter: %s\n", n_ctx > 0 && n_ctx < planned.n_ctx ? "yes" : "no");

  if (moonlit_model_load("poet", &options, &model, &error) != MOONLIT_OK) goto failed;
  moonlit_model_memory(model, &taken);
  printf("as planned: %s\n", taken.total == planned.total ? "yes" : "no");
  moonlit_model_free(model);
  return 0;

failed:
  fprintf(stderr, "%s\n", error.message);
  return 1;
}

/* Prints:
 * 64 sessions of 256 tokens
 * shorter: yes
 * as planned: yes
 */
