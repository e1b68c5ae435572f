/* SPDX-License-Identifier: Apache-2.0
 * Three texts at once from one thread: each step gives every session its next token. */
#include <stdio.h>
#include <string.h>

#include "moonlit.h"

#define SESSIONS 3
#define TOKENS 6

static void choose(void* user, size_t position, const float* logits, size_t n_vocab) {
  int32_t* best = user;
  size_t id;
  (void)position;
  *best = 0;
  for (id = 1; id < n_vocab; ++id) {
    if (logits[id] > logits[*best]) *best = (int32_t)id;
  }
}

int main(void) {
  const char* prompts[SESSIONS] = {"床前明月", "春眠不觉", "白日依山"};
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options options;
  moonlit_model* model = NULL;
  moonlit_session* sessions[SESSIONS] = {NULL, NULL, NULL};
  moonlit_rows rows[SESSIONS];
  const moonlit_rows* pointers[SESSIONS];
  int32_t ids[SESSIONS][64], next[SESSIONS], made[SESSIONS][TOKENS];
  char text[256];
  size_t s, t, length = 0;
  int code = 1;

  moonlit_model_options_init(&options, sizeof options);
  options.max_sessions = SESSIONS;
  if (moonlit_model_load("poet", &options, &model, &error) != MOONLIT_OK) goto done;
  for (s = 0; s < SESSIONS; ++s) {
    if (moonlit_session_new(model, &sessions[s], &error) != MOONLIT_OK) goto done;
    moonlit_rows_init(&rows[s], sizeof rows[s]);
    rows[s].ids = ids[s];
    rows[s].consume = choose;
    rows[s].user = &next[s];
    pointers[s] = &rows[s];
    if (moonlit_tokenize(model, prompts[s], strlen(prompts[s]), MOONLIT_ADD_SPECIAL, ids[s], 64, &rows[s].count,
                         &error) != MOONLIT_OK ||
        rows[s].count > 64)
      goto done;
  }
  for (t = 0; t < TOKENS; ++t) {
    /* The prompts first, then a token of each. Should one session be full, none grows. */
    if (moonlit_step(sessions, pointers, SESSIONS, &error) != MOONLIT_OK) goto done;
    for (s = 0; s < SESSIONS; ++s) {
      made[s][t] = ids[s][0] = next[s];
      rows[s].count = 1;
      rows[s].outputs = MOONLIT_OUTPUT_GENERATED;
    }
  }
  for (s = 0; s < SESSIONS; ++s) {
    if (moonlit_detokenize(model, made[s], TOKENS, 0, text, sizeof text, &length, &error) != MOONLIT_OK || length > sizeof text)
      goto done;
    printf("%s -> %.*s\n", prompts[s], (int)length, text);
  }
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.code != MOONLIT_OK ? error.message : "there is no room for all of it");
  for (s = 0; s < SESSIONS; ++s) moonlit_session_free(sessions[s]);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * 床前明月 -> 光，疑是地上
 * 春眠不觉 -> 晓，处处闻啼
 * 白日依山 -> 尽，黄河入海
 */
