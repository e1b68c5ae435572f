/* SPDX-License-Identifier: Apache-2.0
 * Loading a model, and text to tokens and back. */
#include <stdio.h>
#include <string.h>

#include "moonlit.h"

/* Once a piece of the file; anything but 0 would end the loading with MOONLIT_CANCELLED. */
static int on_progress(void* user, uint64_t done, uint64_t total) {
  if (done == total) *(int*)user = 1;
  return 0;
}

int main(void) {
  const char* text = "床前明月光";
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options options;
  moonlit_model_info info;
  moonlit_model* model = NULL;
  int32_t ids[32];
  char again[64];
  size_t count = 0, length = 0;
  int complete = 0, code = 1;

  moonlit_model_options_init(&options, sizeof options);
  options.n_ctx = 128;
  options.threads = 1;
  options.progress = on_progress;
  options.progress_user = &complete;
  if (moonlit_model_load("poet", &options, &model, &error) != MOONLIT_OK) goto done;

  info.size = sizeof info;
  moonlit_model_get_info(model, &info);
  printf("%s, %u layers, %u tokens known, loaded: %d\n", info.architecture, (unsigned)info.n_layers, (unsigned)info.n_vocab, complete);

  /* `count` and `length` are the full numbers, also where not all of it had room. */
  if (moonlit_tokenize(model, text, strlen(text), MOONLIT_ADD_SPECIAL, ids, 32, &count, &error) != MOONLIT_OK || count > 32 || count == 0)
    goto done;
  printf("%zu tokens, the first begins a text: %d, the last ends it: %d\n", count, ids[0] == moonlit_token_begin(model),
         moonlit_token_is_end(model, ids[count - 1]) != 0);

  if (moonlit_detokenize(model, ids, count, 0, again, sizeof again, &length, &error) != MOONLIT_OK || length > sizeof again)
    goto done;
  printf("%.*s\n", (int)length, again);

  if (moonlit_token_text(model, moonlit_token_special(model, MOONLIT_SPECIAL_EOS), again, sizeof again, &length, &error) != MOONLIT_OK ||
      length > sizeof again)
    goto done;
  printf("a text ends with %.*s\n", (int)length, again);
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.code != MOONLIT_OK ? error.message : "there is no room for all of it");
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * llama, 6 layers, 7168 tokens known, loaded: 1
 * 6 tokens, the first begins a text: 1, the last ends it: 0
 * 床前明月光
 * a text ends with </s>
 */
