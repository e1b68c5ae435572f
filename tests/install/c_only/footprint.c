/* SPDX-License-Identifier: Apache-2.0
 * What the library costs an application: threads, open files, memory, time to the first token of the poem model.
 *   footprint FOLDER     the model must come from below FOLDER */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "moonlit.h"

#define LONGEST 4096

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static size_t threads_now(void) {
  size_t count = 0;
  const struct dirent* entry;
  DIR* folder = opendir("/proc/self/task");
  if (folder == NULL) return 0;
  while ((entry = readdir(folder)) != NULL) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

/* Open files but for the one that lists them; the path of the last model among them goes to `model`. */
static size_t files_now(char* model) {
  size_t count = 0;
  const struct dirent* entry;
  DIR* folder = opendir("/proc/self/fd");
  if (folder == NULL) return 0;
  while ((entry = readdir(folder)) != NULL) {
    char path[LONGEST];
    ssize_t length;
    if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(folder)) continue;
    ++count;
    length = readlinkat(dirfd(folder), entry->d_name, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
    if (strstr(path, ".gguf") != NULL) strcpy(model, path);
  }
  closedir(folder);
  return count;
}

/* A line of /proc/self/status, in KiB. */
static long status_kib(const char* name) {
  char line[256];
  long value = -1;
  FILE* file = fopen("/proc/self/status", "r");
  if (file == NULL) return -1;
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(line, name, strlen(name)) == 0) value = atol(line + strlen(name) + 1);
  }
  fclose(file);
  return value;
}

struct seen {
  size_t most_files;
  double first_token_ms;
  char model[LONGEST];
};

static int on_progress(void* user, uint64_t done, uint64_t total) {
  struct seen* seen = user;
  const size_t files = files_now(seen->model);
  (void)done;
  (void)total;
  if (files > seen->most_files) seen->most_files = files;
  return 0;
}

static int on_text(void* user, const char* piece, size_t length) {
  struct seen* seen = user;
  (void)piece;
  (void)length;
  if (seen->first_token_ms == 0) seen->first_token_ms = now_ms();
  return 0;
}

static int expect(int holds, const char* what) {
  if (!holds) fprintf(stderr, "expected: %s\n", what);
  return holds;
}

int main(int argc, char** argv) {
  const double start = now_ms();
  const char* text = "床前明月";
  static struct seen seen;
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options options;
  moonlit_generate_options generate;
  moonlit_model_info info;
  moonlit_model* model = NULL;
  moonlit_session* session = NULL;
  int32_t ids[16];
  size_t count = 0, threads = threads_now(), files = files_now(seen.model);
  size_t threads_with, files_with;
  const struct timespec millisecond = {0, 1000000};
  long resident, peak;
  int tries;
  int good = 1;

  moonlit_model_options_init(&options, sizeof options);
  options.progress = on_progress;
  options.progress_user = &seen;
  moonlit_generate_options_init(&generate, sizeof generate);
  generate.temperature = 0;
  generate.max_tokens = 20;
  generate.text = on_text;
  generate.user = &seen;
  if (moonlit_model_load("poet", &options, &model, &error) != MOONLIT_OK ||
      moonlit_session_new(model, &session, &error) != MOONLIT_OK ||
      moonlit_tokenize(model, text, strlen(text), MOONLIT_ADD_SPECIAL, ids, 16, &count, &error) != MOONLIT_OK ||
      moonlit_generate(session, ids, count, &generate, NULL, &error) != MOONLIT_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  info.size = sizeof info;
  moonlit_model_get_info(model, &info);
  threads_with = threads_now();
  files_with = files_now(seen.model);
  resident = status_kib("VmRSS");
  peak = status_kib("VmHWM");
  printf("model %s\n", seen.model);
  printf("threads created %zu, of %u that work\n", threads_with - threads, (unsigned)info.threads);
  printf("files open at most %zu while loading, %zu afterwards\n", seen.most_files - files, files_with - files);
  printf("resident %.1f MB, of that the library's and other files' %.1f MB; at most %.1f MB\n", (double)resident / 1024,
         (double)status_kib("RssFile") / 1024, (double)peak / 1024);
  printf("main to first token %.1f ms\n", seen.first_token_ms - start);

  good &= expect(argc > 1 && strncmp(seen.model, argv[1], strlen(argv[1])) == 0, "the model of the installed tree");
  /* The caller's thread works too. */
  good &= expect(threads_with - threads == info.threads - 1, "one thread less than work");
  good &= expect(seen.most_files - files == 1, "one file open while loading");
  good &= expect(files_with == files, "no file open after loading");
#ifndef FOOTPRINT_EMULATED
  good &= expect(peak > 0 && peak <= 20 * 1024, "at most 20 MB resident");
#endif
  moonlit_session_free(session);
  moonlit_model_free(model);
  /* The system lists a thread that ended, and was waited for, a moment longer. */
  for (tries = 0; tries < 5000 && threads_now() > threads; ++tries) nanosleep(&millisecond, NULL);
  good &= expect(threads_now() == threads, "no thread left");
  good &= expect(files_now(seen.model) == files, "no file left open");
  return good ? 0 : 1;
}
