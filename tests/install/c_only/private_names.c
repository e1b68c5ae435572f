/* SPDX-License-Identifier: Apache-2.0
 * An application with functions that have the names of functions inside the library: either side calls its own. The poem model's tokenizer
 * normalizes and cuts text with the library's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "moonlit.h"

#define TRAP(name)        \
  int name(void);         \
  int name(void) {        \
    puts(#name " of the application was called"); \
    abort();              \
  }
TRAP(pcre2_compile_8)
TRAP(pcre2_match_8)
TRAP(utf8proc_decompose)
TRAP(utf8proc_map)
TRAP(xnn_initialize)
TRAP(cpuinfo_initialize)
TRAP(pthreadpool_parallelize_1d)

int main(void) {
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model* model = NULL;
  int32_t ids[32];
  size_t count = 0;
  const char* text = "床前明月光";
  if (moonlit_model_load("poet", NULL, &model, &error) != MOONLIT_OK ||
      moonlit_tokenize(model, text, strlen(text), MOONLIT_ADD_SPECIAL, ids, 32, &count, &error) != MOONLIT_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  moonlit_model_free(model);
  printf("%s: %zu tokens\n", moonlit_version(), count);
  return count > 0 ? 0 : 1;
}
