/* SPDX-License-Identifier: Apache-2.0
 * A chat: its text to look at, and its tokens. A model that was trained for chats has a template of its own. */
#include <stdio.h>

#include "moonlit.h"

int main(void) {
  const moonlit_chat_message messages[] = {{"system", "Verses.", 7}, {"user", "床前", 6}};
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options model_options;
  moonlit_model* model = NULL;
  moonlit_chat_options options;
  char text[256];
  int32_t ids[64];
  size_t length = 0, count = 0;
  int code = 1;

  moonlit_model_options_init(&model_options, sizeof model_options);
  model_options.vocab_only = 1; /* enough for templates */
  if (moonlit_model_load("poet", &model_options, &model, &error) != MOONLIT_OK) goto done;

  moonlit_chat_options_init(&options, sizeof options);
  if (moonlit_chat_template(model) == NULL) {
    options.chat_template =
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
        "{% if add_generation_prompt %}assistant{{ colon }}{% endif %}";
    options.variables_json = "{\"colon\": \":\"}";
  }
  if (moonlit_chat_render(model, messages, 2, &options, text, sizeof text, &length, &error) != MOONLIT_OK || length > sizeof text)
    goto done;
  printf("%.*s\n", (int)length, text);
  if (moonlit_chat_tokenize(model, messages, 2, &options, ids, 64, &count, &error) != MOONLIT_OK || count > 64) goto done;
  printf("[the first of the tokens begins a text: %d]\n", count > 0 && ids[0] == moonlit_token_begin(model));
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.code != MOONLIT_OK ? error.message : "there is no room for all of it");
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * system: Verses.
 * user: 床前
 * assistant:
 * [the first of the tokens begins a text: 1]
 */
