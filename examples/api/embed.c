/* SPDX-License-Identifier: Apache-2.0
 * Vectors of texts by an embedding model:  embed MODEL.gguf */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "moonlit.h"

#define WIDTH 4096

/* Where a program would draw a bar, or cancel with anything but 0. */
static int count_steps(void* user, size_t done, size_t total) {
  (void)total;
  if (done != 0) ++*(int*)user;
  return 0;
}

static int vector_of(const moonlit_model* model, const char* text, float* vector, size_t* width, int* steps, moonlit_error* error) {
  int32_t ids[64];
  size_t count = 0;
  moonlit_embed_options options;
  moonlit_embed_options_init(&options, sizeof options); /* pooled as the file says, brought to length 1 */
  options.progress = count_steps;
  options.user = steps;
  return moonlit_tokenize(model, text, strlen(text), MOONLIT_ADD_SPECIAL, ids, 64, &count, error) == MOONLIT_OK && count <= 64 &&
         moonlit_embed(model, ids, count, &options, vector, WIDTH, width, error) == MOONLIT_OK && *width <= WIDTH;
}

int main(int argc, char** argv) {
  static float a[WIDTH], b[WIDTH];
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model* model = NULL;
  size_t width = 0, i;
  float length = 0, likeness = 0;
  int steps = 0, code = 1;

  if (argc < 2) return 2;
  if (moonlit_model_load(argv[1], NULL, &model, &error) != MOONLIT_OK) goto done;
  if (!vector_of(model, "the moon over the lake", a, &width, &steps, &error)) goto done;
  if (!vector_of(model, "the moon over the lake", b, &width, &steps, &error)) goto done;
  for (i = 0; i < width; ++i) {
    length += a[i] * a[i];
    likeness += a[i] * b[i];
  }
  printf("%zu numbers, length 1: %d, alike: %d, steps: %d\n", width, fabsf(length - 1) < 1e-4f, fabsf(likeness - 1) < 1e-4f, steps);
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.code != MOONLIT_OK ? error.message : "there is no room for all of it");
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * 72 numbers, length 1: 1, alike: 1, steps: 2
 */
