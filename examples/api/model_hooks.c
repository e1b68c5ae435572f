/* SPDX-License-Identifier: Apache-2.0
 * What an application may bring: its own memory, and its own threads. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "moonlit.h"

/* Some allocator: it counts what it has given. The block's start is kept before the address that it gives. */
struct memory {
  size_t blocks, bytes;
};

static void* allocate(void* user, size_t bytes, size_t alignment) {
  struct memory* memory = user;
  const size_t extra = alignment + sizeof(void*);
  char* block = bytes > SIZE_MAX - extra ? NULL : malloc(bytes + extra);
  uintptr_t address;
  if (block == NULL) return NULL; /* the load ends with MOONLIT_OUT_OF_MEMORY */
  address = ((uintptr_t)block + extra) / alignment * alignment;
  ((void**)address)[-1] = block;
  ++memory->blocks;
  memory->bytes += bytes;
  return (void*)address;
}

static void release(void* user, void* address, size_t bytes) {
  struct memory* memory = user;
  --memory->blocks;
  memory->bytes -= bytes;
  free(((void**)address)[-1]);
}

/* A loop on one thread. One of a thread pool calls task(data, index) on several threads and waits for them. */
static void parallel_for(void* user, size_t count, void (*task)(void* data, size_t index), void* data) {
  size_t* loops = user;
  size_t i;
  ++*loops;
  for (i = 0; i < count; ++i) task(data, i);
}

int main(void) {
  struct memory memory = {0, 0};
  size_t loops = 0;
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options options;
  moonlit_model* model = NULL;

  moonlit_model_options_init(&options, sizeof options);
  options.allocate = allocate;
  options.release = release;
  options.allocator_user = &memory;
  options.threads = 4; /* at most so many indices a loop */
  options.parallel_for = parallel_for;
  options.parallel_user = &loops;
  if (moonlit_model_load("poet", &options, &model, &error) != MOONLIT_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  printf("megabytes of the application's: %s\n", memory.bytes > 4000000 ? "yes" : "no");
  printf("loaded by the application's threads: %s\n", loops > 0 ? "yes" : "no");
  moonlit_model_free(model);
  printf("blocks left: %d\n", (int)memory.blocks);
  return 0;
}

/* Prints:
 * megabytes of the application's: yes
 * loaded by the application's threads: yes
 * blocks left: 0
 */
