/* SPDX-License-Identifier: Apache-2.0
 * An end to a choice that takes too long: a grammar looks at the whole vocabulary. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moonlit.h"

/* As another thread could at any time: a user pressed Escape, once. */
struct escape {
  moonlit_sampler* sampler;
  int pressed;
};

static size_t press_escape(void* user, moonlit_token_logit* tokens, size_t count) {
  struct escape* escape = user;
  (void)tokens;
  if (!escape->pressed) moonlit_sampler_cancel(escape->sampler);
  escape->pressed = 1;
  return count;
}

int main(void) {
  const char* text = "root ::= \"月\" [a-z]*";
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options options;
  moonlit_model* model = NULL;
  moonlit_grammar* grammar = NULL;
  moonlit_sampler* sampler = NULL;
  moonlit_sampler_step step;
  moonlit_model_info info;
  struct escape escape = {NULL, 0};
  float* logits = NULL;
  int32_t id = 0;
  int code = 1;

  moonlit_model_options_init(&options, sizeof options);
  options.vocab_only = 1;
  if (moonlit_model_load("poet", &options, &model, &error) != MOONLIT_OK) goto done;
  info.size = sizeof info;
  moonlit_model_get_info(model, &info);
  logits = calloc(info.n_vocab, sizeof *logits);
  if (logits == NULL) goto done;
  if (moonlit_grammar_new(model, text, strlen(text), NULL, &grammar, &error) != MOONLIT_OK) goto done;
  if (moonlit_sampler_new(model, 1, &sampler, &error) != MOONLIT_OK) goto done;
  escape.sampler = sampler;

  moonlit_sampler_step_init(&step, sizeof step);
  step.kind = MOONLIT_SAMPLER_CUSTOM;
  step.apply = press_escape;
  step.user = &escape;
  if (moonlit_sampler_append(sampler, &step, &error) != MOONLIT_OK) goto done;
  step.kind = MOONLIT_SAMPLER_GRAMMAR;
  step.grammar = grammar;
  if (moonlit_sampler_append(sampler, &step, &error) != MOONLIT_OK) goto done;
  step.kind = MOONLIT_SAMPLER_GREEDY;
  if (moonlit_sampler_append(sampler, &step, &error) != MOONLIT_OK) goto done;

  printf("cancelled: %d\n", moonlit_sampler_apply(sampler, logits, info.n_vocab, &id, &error) == MOONLIT_CANCELLED);
  printf("again: %d\n", moonlit_sampler_apply(sampler, logits, info.n_vocab, &id, &error) == MOONLIT_OK);
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.code != MOONLIT_OK ? error.message : "there is no memory");
  free(logits);
  moonlit_sampler_free(sampler);
  moonlit_grammar_free(grammar);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * cancelled: 1
 * again: 1
 */
