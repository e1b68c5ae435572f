/* SPDX-License-Identifier: Apache-2.0
 * A Hugging Face folder becomes a GGUF file, and that a smaller one:  write FOLDER */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "moonlit.h"

/* A half-written file has another name until it is whole; Ctrl-C takes it along. */
static void on_interrupt(int number) {
  moonlit_remove_unfinished_files();
  _Exit(128 + number);
}

int main(int argc, char** argv) {
  const char* inputs[1];
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_write_options options;
  moonlit_write_result converted, quantized;

  if (argc < 2) return 2;
  signal(SIGINT, on_interrupt);

  moonlit_write_options_init(&options, sizeof options);
  options.type = "F16";
  converted.size = sizeof converted;
  if (moonlit_convert(argv[1], "example-f16.gguf", &options, &converted, &error) != MOONLIT_OK) goto failed;

  inputs[0] = "example-f16.gguf";
  printf("onto itself: %d\n", moonlit_check_output("./example-f16.gguf", inputs, 1, &error) == MOONLIT_OK);

  options.type = "Q8_0";
  quantized.size = sizeof quantized;
  if (moonlit_quantize("example-f16.gguf", "example-q8_0.gguf", &options, &quantized, &error) != MOONLIT_OK) goto failed;
  printf("as many parameters: %d, fewer bytes: %d\n", quantized.parameters == converted.parameters, quantized.bytes < converted.bytes);
  return 0;

failed:
  fprintf(stderr, "%s\n", error.message);
  return 1;
}

/* Prints:
 * onto itself: 0
 * as many parameters: 1, fewer bytes: 1
 */
