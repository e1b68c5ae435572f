/* SPDX-License-Identifier: Apache-2.0
 * How well a model foresees a text, and how far it is from another one: here from itself. */
#include <stdio.h>
#include <string.h>

#include "moonlit.h"

int main(void) {
  const char* poem = "床前明月光，疑是地上霜。举头望明月，低头思故乡。";
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model* model = NULL;
  moonlit_session* session = NULL;
  moonlit_perplexity_options options;
  moonlit_perplexity_result first, second;
  char text[1024] = "";
  int32_t ids[256];
  size_t count = 0;
  int i, code = 1;

  for (i = 0; i < 6; ++i) strncat(text, poem, sizeof text - strlen(text) - 1);
  if (moonlit_model_load("poet", NULL, &model, &error) != MOONLIT_OK) goto done;
  if (moonlit_tokenize(model, text, strlen(text), MOONLIT_ADD_SPECIAL, ids, 256, &count, &error) != MOONLIT_OK || count > 256) goto done;
  if (moonlit_session_new(model, &session, &error) != MOONLIT_OK) goto done;

  /* Windows of 64 tokens; the second half of each is counted. */
  first.size = sizeof first;
  if (moonlit_perplexity(session, ids, count, 64, NULL, NULL, &first, &error) != MOONLIT_OK) goto done;
  printf("%zu windows, %zu tokens counted, below 1000: %d\n", first.windows, first.counted_tokens, first.perplexity < 1000);

  /* The logits go to a file first, and are compared with afterwards. */
  moonlit_perplexity_options_init(&options, sizeof options);
  options.window = 64;
  options.logits_out = "example.logits";
  second.size = sizeof second;
  if (moonlit_perplexity_with(session, ids, count, &options, &second, &error) != MOONLIT_OK) goto done;
  options.logits_out = NULL;
  options.logits_base = "example.logits";
  if (moonlit_perplexity_with(session, ids, count, &options, &second, &error) != MOONLIT_OK) goto done;
  /* The file rounds logits to 16 bits. */
  printf("divergence below 0.001: %d, the same perplexity: %d\n", second.kl_mean < 1e-3, second.perplexity == first.perplexity);
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.code != MOONLIT_OK ? error.message : "there is no room for all of it");
  moonlit_session_free(session);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * 2 windows, 62 tokens counted, below 1000: 1
 * divergence below 0.001: 1, the same perplexity: 1
 */
