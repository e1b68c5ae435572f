/* SPDX-License-Identifier: Apache-2.0
 * The version, the log, and what a failure looks like. */
#include <stdio.h>

#include "moonlit.h"

static void print_line(void* user, moonlit_log_level level, const char* text) {
  FILE* file = user;
  if (level >= MOONLIT_LOG_WARNING) fprintf(file, "moonlit: %s\n", text);
}

int main(void) {
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model* model = NULL;
  moonlit_model_options options;

  moonlit_model_options_init(&options, sizeof options);
  options.log = print_line;
  options.log_user = stderr;
  printf("interface 0: %s\n", moonlit_version()[0] == '0' ? "yes" : "no");
  if (moonlit_model_load("no-such-model.gguf", &options, &model, &error) != MOONLIT_OK) {
    printf("not found: %s\n", error.code == MOONLIT_NOT_FOUND ? "yes" : "no");
    printf("a sentence: %s\n", error.message[0] != '\0' ? "yes" : "no");
  }
  return 0;
}

/* Prints:
 * interface 0: yes
 * not found: yes
 * a sentence: yes
 */
