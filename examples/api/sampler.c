/* SPDX-License-Identifier: Apache-2.0
 * Choosing tokens: a chain of steps, one of them our own; by hand, and in moonlit_generate. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "moonlit.h"

struct choice {
  moonlit_sampler* sampler;
  int32_t id;
  moonlit_code code;
};

static void choose(void* user, size_t position, const float* logits, size_t n_vocab) {
  struct choice* choice = user;
  (void)position;
  choice->code = moonlit_sampler_apply(choice->sampler, logits, n_vocab, &choice->id, NULL);
}

/* A step of our own: user is the token that we don't like. */
static size_t keep_others(void* user, moonlit_token_logit* tokens, size_t count) {
  const int32_t* unwanted = user;
  size_t kept = 0, i;
  for (i = 0; i < count; ++i) {
    if (tokens[i].id != *unwanted) tokens[kept++] = tokens[i];
  }
  return kept;
}

static int print_piece(void* user, const char* piece, size_t length) {
  (void)user;
  return fwrite(piece, 1, length, stdout) == length ? 0 : 1;
}

/* A token inside a text: moonlit_detokenize would take it for the beginning of one, and its space away. */
static moonlit_code print_token(const moonlit_model* model, int32_t id, moonlit_error* error) {
  char bytes[256];
  size_t length = 0;
  moonlit_code code = moonlit_token_bytes(model, id, 0, bytes, sizeof bytes, &length, error);
  if (code != MOONLIT_OK) return code;
  fwrite(bytes, 1, length < sizeof bytes ? length : sizeof bytes, stdout); /* `length` is the full number */
  return MOONLIT_OK;
}

/* Reads the prompt and prints `count` tokens, one step after the other. */
static moonlit_code go_on(moonlit_model* model, moonlit_sampler* sampler, const int32_t* prompt, size_t prompt_count, int count,
                          moonlit_error* error) {
  struct choice choice;
  moonlit_session* session = NULL;
  moonlit_code code = moonlit_session_new(model, &session, error);
  choice.sampler = sampler;
  if (code == MOONLIT_OK) code = moonlit_sampler_accept_prompt(sampler, prompt, prompt_count, error);
  if (code == MOONLIT_OK) code = moonlit_eval(session, prompt, prompt_count, MOONLIT_OUTPUT_LAST, choose, &choice, error);
  for (; code == MOONLIT_OK && count > 0; --count) {
    if ((code = choice.code) != MOONLIT_OK) break;
    if ((code = moonlit_sampler_accept(sampler, choice.id, error)) != MOONLIT_OK) break;
    if (moonlit_token_is_end(model, choice.id)) break;
    if ((code = print_token(model, choice.id, error)) != MOONLIT_OK) break;
    code = moonlit_eval(session, &choice.id, 1, MOONLIT_OUTPUT_GENERATED, choose, &choice, error);
  }
  printf("\n");
  moonlit_session_free(session);
  return code;
}

/* The most likely token but `unwanted`, after penalties and a bias. */
static moonlit_code build(moonlit_sampler* sampler, int32_t* unwanted, const moonlit_token_logit* bias, moonlit_error* error) {
  moonlit_sampler_step step;
  moonlit_code code;
  moonlit_sampler_step_init(&step, sizeof step);
  step.kind = MOONLIT_SAMPLER_LOGIT_BIAS;
  step.biases = bias;
  step.bias_count = 1;
  if ((code = moonlit_sampler_append(sampler, &step, error)) != MOONLIT_OK) return code;
  step.kind = MOONLIT_SAMPLER_PENALTIES; /* one struct has the fields of all kinds */
  step.presence_penalty = 0.5f;
  if ((code = moonlit_sampler_append(sampler, &step, error)) != MOONLIT_OK) return code;
  step.kind = MOONLIT_SAMPLER_CUSTOM;
  step.apply = keep_others;
  step.user = unwanted;
  if ((code = moonlit_sampler_append(sampler, &step, error)) != MOONLIT_OK) return code;
  step.kind = MOONLIT_SAMPLER_GREEDY;
  return moonlit_sampler_append(sampler, &step, error);
}

int main(void) {
  const char* text = "床前明月";
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model* model = NULL;
  moonlit_session* session = NULL;
  moonlit_sampler *sampler = NULL, *copy = NULL;
  moonlit_generate_options options;
  moonlit_sampler_step wrong;
  moonlit_token_logit bias;
  int32_t ids[16], unwanted = -1, frost[4];
  size_t count = 0, frost_count = 0;
  int code = 1;

  if (moonlit_model_load("poet", NULL, &model, &error) != MOONLIT_OK) goto done;
  if (moonlit_tokenize(model, text, strlen(text), MOONLIT_ADD_SPECIAL, ids, 16, &count, &error) != MOONLIT_OK || count > 16) goto done;
  if (moonlit_tokenize(model, "霜", strlen("霜"), 0, frost, 4, &frost_count, &error) != MOONLIT_OK || frost_count == 0 || frost_count > 4)
    goto done;
  bias.id = frost[frost_count - 1];
  bias.logit = 0;

  if (moonlit_sampler_new(model, 42, &sampler, &error) != MOONLIT_OK) goto done;
  if (build(sampler, &unwanted, &bias, &error) != MOONLIT_OK) goto done;
  if (moonlit_sampler_clone(sampler, &copy, &error) != MOONLIT_OK) goto done; /* with the same `user`: our step has no clone */
  if (go_on(model, sampler, ids, count, 8, &error) != MOONLIT_OK) goto done;
  unwanted = frost[frost_count - 1];
  if (go_on(model, copy, ids, count, 8, &error) != MOONLIT_OK) goto done;

  /* In place of the fields of moonlit_generate_options; from the beginning again. */
  if (moonlit_sampler_reset(sampler, 42, &error) != MOONLIT_OK) goto done;
  if (moonlit_session_new(model, &session, &error) != MOONLIT_OK) goto done;
  moonlit_generate_options_init(&options, sizeof options);
  options.sampler = sampler;
  options.max_tokens = 8;
  options.text = print_piece;
  if (moonlit_generate(session, ids, count, &options, NULL, &error) != MOONLIT_OK) goto done;
  printf("\n");

  moonlit_sampler_free(copy);
  copy = NULL;
  if (moonlit_sampler_new(model, 42, &copy, &error) != MOONLIT_OK) goto done;
  moonlit_sampler_step_init(&wrong, sizeof wrong);
  wrong.kind = MOONLIT_SAMPLER_TOP_P;
  wrong.top_p = NAN;
  if (moonlit_sampler_append(copy, &wrong, &error) != MOONLIT_INVALID_ARGUMENT) goto done;
  printf("%s\n", error.message);
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.code != MOONLIT_OK ? error.message : "there is no room for all of it");
  moonlit_sampler_free(copy);
  moonlit_sampler_free(sampler);
  moonlit_session_free(session);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * 光，疑是地上霜。
 * 光，疑是地上香。
 * 光，疑是地上香。
 * sampler: step 1 (top-p): top_p is nan, expected 0 to 1
 */
