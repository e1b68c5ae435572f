/* SPDX-License-Identifier: Apache-2.0
 * Perplexity, and how far a model is from another. Part of moonlit.h, whose conventions hold here.
 */
#ifndef MOONLIT_MEASURE_H_
#define MOONLIT_MEASURE_H_

#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What moonlit_perplexity finds. */
typedef struct moonlit_perplexity_result {
  size_t size; /* set by the caller to sizeof before the call */
  double perplexity;
  double standard_error; /* of the perplexity */
  size_t counted_tokens;
  size_t windows;
  /* From here on with moonlit_perplexity_options.logits_base alone, in nats: how far the model's distributions are from the
   * base's, KL(base || model), and how often both find the same token most likely. */
  double kl_mean;
  double kl_standard_error; /* of the mean */
  double kl_median;
  double kl_percentile_99;
  double kl_maximum;
  double same_top;        /* 0 .. 1 */
  double base_perplexity; /* of the base, on the same tokens */
  double probability_rms; /* root mean square of the difference in the next token's probability */
} moonlit_perplexity_result;
/* Perplexity by windows of `window` tokens (4 to n_ctx) whose second half is counted (as llama.cpp's perplexity tool does). The text's ids come from
 * moonlit_tokenize with MOONLIT_ADD_SPECIAL. `progress` (may be NULL) after each window; non-zero cancels, and so does
 * moonlit_session_cancel. What the session holds is forgotten: it is empty afterwards, also after an error but those of a wrong argument
 * (window, ids, files), which leave it as it is. One call at a time. */
MOONLIT_API moonlit_code moonlit_perplexity(moonlit_session* session, const int32_t* ids, size_t count, size_t window,
                                            int (*progress)(void* user, size_t done, size_t total,
                                                            double perplexity_so_far),
                                            void* user, moonlit_perplexity_result* result, moonlit_error* error);

typedef struct moonlit_perplexity_options {
  size_t size;   /* set by moonlit_perplexity_options_init */
  size_t window; /* default 512 */
  int (*progress)(void* user, size_t done, size_t total, double perplexity_so_far);
  void* user;
  /* Files of logits, in the format of llama.cpp's --kl-divergence-base, for the same text and window: one to write, and one of
   * another model to compare with. NULL: none. */
  const char* logits_out;
  const char* logits_base;
} moonlit_perplexity_options;
/* The defaults. Any thread. */
MOONLIT_API void moonlit_perplexity_options_init(moonlit_perplexity_options* options, size_t size);
/* The same with options. One call at a time; no two may write one file. */
MOONLIT_API moonlit_code moonlit_perplexity_with(moonlit_session* session, const int32_t* ids, size_t count,
                                                 const moonlit_perplexity_options* options,
                                                 moonlit_perplexity_result* result, moonlit_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_MEASURE_H_ */
