/* SPDX-License-Identifier: Apache-2.0
 * What a model's files say of it; vocab_only reads no weights for that. */
#include <stdio.h>
#include <string.h>

#include "moonlit.h"

int main(void) {
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options options;
  moonlit_model* model = NULL;
  char value[64];
  const char* key;
  size_t i, length = 0;
  int code = 1;

  moonlit_model_options_init(&options, sizeof options);
  options.vocab_only = 1;
  if (moonlit_model_load("poet", &options, &model, &error) != MOONLIT_OK) goto done;
  for (i = 0; i < moonlit_model_metadata_count(model); ++i) {
    key = moonlit_model_metadata_key(model, i);
    if (strcmp(key, "general.name") != 0 && strcmp(key, "general.languages") != 0 &&
        strcmp(key, "llama.block_count") != 0 && strcmp(key, "tokenizer.ggml.tokens") != 0) continue;
    if (moonlit_model_metadata(model, key, value, sizeof value, &length, &error) != MOONLIT_OK) goto done;
    if (length > sizeof value) length = sizeof value; /* what was written of it */
    printf("%s: %.*s\n", key, (int)length, value);
  }
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.message);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * general.name: Poet 6M
 * general.languages: ["zh"]
 * llama.block_count: 6
 * tokenizer.ggml.tokens: [... 7168 in all]
 */
