/* SPDX-License-Identifier: Apache-2.0
 * Files: quantizing and converting. Part of moonlit.h, whose conventions hold here.
 */
#ifndef MOONLIT_WRITE_H_
#define MOONLIT_WRITE_H_

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct moonlit_write_options {
  size_t size; /* set by moonlit_write_options_init */
  /* How weights are stored: a format ("Q8_0", "F16") or one of llama-quantize's mixtures ("Q4_K_M"), in any case; an unknown one
   * is MOONLIT_INVALID_ARGUMENT with all names. moonlit_quantize needs one. */
  const char* type;
  const char* imatrix;  /* importance matrix, a file of llama-imatrix (either format); NULL: none */
  uint32_t threads;     /* 0: one a physical core. The written bytes do not depend on it */
  int pure;             /* non-zero: no mixture, every matrix in the type's format */
  int allow_requantize; /* non-zero: also from weights that are quantized already, which loses precision twice */
  /* Bytes written and in total; return non-zero to cancel. May be NULL. */
  int (*progress)(void* user, uint64_t done, uint64_t total);
  void* user;
  const char* pre_tokenizer; /* for moonlit_convert: see moonlit_model_options */
  /* Who gets what a user may want to know but is no error; NULL (default): nobody. */
  moonlit_log_fn log;
  void* log_user;
  /* The application's threads, as in moonlit_model_options; NULL: Moonlit's own, for the time of the call. */
  void (*parallel_for)(void* user, size_t count, void (*task)(void* data, size_t index), void* data);
  void* parallel_user;
} moonlit_write_options;

/* The defaults. Any thread. */
MOONLIT_API void moonlit_write_options_init(moonlit_write_options* options, size_t size);

typedef struct moonlit_write_result {
  size_t size; /* set by the caller to sizeof before the call */
  uint64_t parameters;
  uint64_t source_bytes; /* of tensors */
  uint64_t bytes;
  uint64_t tensors;
  uint64_t fallbacks; /* tensors with rows that are no multiple of the type's block: another format was taken */
} moonlit_write_result;

/* Before something is written beside what is read: MOONLIT_INVALID_ARGUMENT when `out` is, by whatever name (links are followed), one of
 * the files `inputs` [count]. The functions here that write ask it of a model's own files and of the files in their options. Any
 * thread. */
MOONLIT_API moonlit_code moonlit_check_output(const char* out, const char* const* inputs, size_t count,
                                              moonlit_error* error);

/* Files are written under temporary names beside their own (NAME.part-...). A program that a signal ends in the middle may remove them:
 * async-signal-safe, to be called by its handler before the process ends. A program that may meet a limit of file sizes (RLIMIT_FSIZE)
 * ignores SIGXFSZ, as the command does: writing then fails with MOONLIT_IO. Any thread, but no file that is being written is finished. */
MOONLIT_API void moonlit_remove_unfinished_files(void);

/* Writes a GGUF file anew with weights in another format; metadata is kept. `in` as for moonlit_model_load, but for "poet" and folders, which
 * moonlit_convert takes. `out`
 * appears complete or not at all; it must not be a file of the input or the importance matrix. `result` may be NULL. Any
 * thread; of calls that write one file at once the last to end wins. */
MOONLIT_API moonlit_code moonlit_quantize(const char* in, const char* out, const moonlit_write_options* options,
                                          moonlit_write_result* result, moonlit_error* error);
/* Writes a Hugging Face folder as a GGUF file, with the keys that llama.cpp's converter writes. options->type NULL: the type that the
 * folder's weights have. Threads as moonlit_quantize. */
MOONLIT_API moonlit_code moonlit_convert(const char* folder, const char* out, const moonlit_write_options* options,
                                         moonlit_write_result* result, moonlit_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_WRITE_H_ */
