/* SPDX-License-Identifier: Apache-2.0
 * Codes, errors, the log and the version. Part of moonlit.h, whose conventions hold here.
 */
#ifndef MOONLIT_BASE_H_
#define MOONLIT_BASE_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the library gives out; nothing else of it is visible. */
#if defined(__GNUC__)
#define MOONLIT_API __attribute__((visibility("default")))
#else
#define MOONLIT_API
#endif

typedef enum moonlit_code {
  MOONLIT_OK = 0,
  MOONLIT_INVALID_ARGUMENT = 1, /* the caller's value is wrong */
  MOONLIT_NOT_FOUND = 2,        /* a file, tensor or key that does not exist */
  MOONLIT_CORRUPT = 3,          /* a file breaks its own format */
  MOONLIT_UNSUPPORTED = 4,      /* well formed, but nothing this build can do */
  MOONLIT_OUT_OF_MEMORY = 5,
  MOONLIT_EXHAUSTED = 6, /* context, cache pages or sessions are used up */
  MOONLIT_CANCELLED = 7,
  MOONLIT_BUSY = 8, /* the session or the sampler is in use by another call */
  MOONLIT_IO = 9,
  MOONLIT_INTERNAL = 10 /* a bug of ours that was caught */
} moonlit_code;

typedef struct moonlit_error {
  moonlit_code code;
  char message[1024]; /* NUL-terminated, cut to fit */
} moonlit_error;

typedef struct moonlit_model moonlit_model;
typedef struct moonlit_session moonlit_session;

typedef enum moonlit_log_level {
  MOONLIT_LOG_DEBUG = 0,
  MOONLIT_LOG_INFO = 1,
  MOONLIT_LOG_WARNING = 2, /* a file leaves something open or holds what is not used */
  MOONLIT_LOG_ERROR = 3
} moonlit_log_level;

/* A receiver of what a user may want to know but is no error: the `log` of moonlit_model_options and moonlit_write_options. One line of
 * text without a newline, valid during the call. Lines come from the thread that called Moonlit, those of one model one at a time; those
 * of several models may come at once, whether or not they have one receiver. A receiver must not call Moonlit. */
typedef void (*moonlit_log_fn)(void* user, moonlit_log_level level, const char* text);

/* Version of the library, for example "0.1.0". Static storage. Any thread. */
MOONLIT_API const char* moonlit_version(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_BASE_H_ */
