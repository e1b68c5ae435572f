/* SPDX-License-Identifier: Apache-2.0
 * Choosing tokens: chains of steps in the caller's order. Part of moonlit.h, whose conventions hold here.
 */
#ifndef MOONLIT_SAMPLER_H_
#define MOONLIT_SAMPLER_H_

#include "grammar.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A chain of steps from logits to a token, with its random numbers and what it has seen of the text. The same steps, logits, seed and
 * tokens give the same choice on every machine (up to the last bit of the C library's exp, log and pow). Order among tokens is by
 * logit, then by id, the lower first. One call at a time: another one meanwhile, also from within a callback, is MOONLIT_BUSY. The model must outlive it. */
typedef struct moonlit_sampler moonlit_sampler;

typedef struct moonlit_token_logit {
  int32_t id;
  float logit;
} moonlit_token_logit;

/* What a step does with the tokens that are left. "Probability" is the softmax of their logits, over the temperature if that came before. */
typedef enum moonlit_sampler_kind {
  MOONLIT_SAMPLER_LOGIT_BIAS = 1, /* adds to logits */
  MOONLIT_SAMPLER_PENALTIES = 2,  /* repetition (by division), frequency and presence (by subtraction) */
  MOONLIT_SAMPLER_DRY = 3,        /* against a token that would go on with what the text has said already */
  MOONLIT_SAMPLER_TOP_K = 4,      /* keeps the k most likely */
  MOONLIT_SAMPLER_TOP_P = 5,      /* the most likely up to this probability */
  MOONLIT_SAMPLER_MIN_P = 6,      /* those with this share of the most likely one's probability */
  MOONLIT_SAMPLER_TYPICAL = 7,    /* the ones whose surprise is nearest to the mean, up to this probability */
  MOONLIT_SAMPLER_XTC =
      8, /* at random removes the likely ones but the last of them; draws one number, unless it is off */
  MOONLIT_SAMPLER_TOP_N_SIGMA = 9, /* those whose logit is within n standard deviations of the largest */
  MOONLIT_SAMPLER_TEMPERATURE = 10,
  MOONLIT_SAMPLER_GRAMMAR =
      11, /* those that the grammar goes on with; best the first step, since others may have left none of them */
  MOONLIT_SAMPLER_CUSTOM = 12, /* the application's own */
  /* Steps that choose, the last of a chain. */
  MOONLIT_SAMPLER_GREEDY = 13,   /* the most likely token */
  MOONLIT_SAMPLER_DRAW = 14,     /* at random by probability; draws one number */
  MOONLIT_SAMPLER_MIROSTAT = 15, /* version 1, which keeps the drawn tokens' surprise near a target; draws one number */
  MOONLIT_SAMPLER_MIROSTAT_V2 = 16
} moonlit_sampler_kind;

/* One step; only the fields of its kind are read. Later versions append fields and kinds. */
typedef struct moonlit_sampler_step {
  size_t size;  /* set by moonlit_sampler_step_init */
  int32_t kind; /* moonlit_sampler_kind */
  /* LOGIT_BIAS: what is added to the logits of tokens, [bias_count], at most n_vocab; of one token they add up. -INFINITY: never this token. */
  const moonlit_token_logit* biases;
  size_t bias_count;
  /* PENALTIES */
  int32_t
      penalty_last_n;   /* tokens that are looked back at, 0 to 1000000; 0: off, -1: the model's context; default 64 */
  float repeat_penalty; /* 0.01 to 100; 1: off (default) */
  float frequency_penalty; /* -100 to 100, for each occurrence; 0: off (default) */
  float presence_penalty;  /* -100 to 100; 0: off (default) */
  /* DRY: a token that would be the next one of a repetition of n tokens loses multiplier * base^(n - allowed_length). */
  float dry_multiplier;       /* 0 to 100; 0: off (default) */
  float dry_base;             /* 1 to 100; default 1.75 */
  int32_t dry_allowed_length; /* 0 to 1000000; shorter repetitions are free; default 2 */
  int32_t dry_last_n;         /* 0 to 1000000; 0: off, -1: the model's context (default) */
  /* Texts of 1 to 1024 bytes, at most 256, that no repetition goes across; control tokens count by their names. Default "\n", ":", "\"", "*". */
  const char* const* dry_breakers;
  size_t dry_breaker_count;
  int32_t top_k;         /* 0: off; default 40 */
  float top_p;           /* 0 to 1; 1: off; default 0.95 */
  float min_p;           /* 0 to 1; 0: off; default 0.05 */
  float typical_p;       /* 0 to 1; 1: off (default) */
  float xtc_probability; /* 0 to 1; 0: off (default) */
  float xtc_threshold;   /* 0 to 1, the probability of a likely token; above 0.5: off; default 0.1 */
  float top_n_sigma;     /* 0 to 100; 0: off (default) */
  /* TEMPERATURE */
  float temperature; /* 0 to 100; 0: the most likely token; default 0.8 */
  float
      dynatemp_range; /* 0 to 100; 0: off (default); else from temperature - range (at least 0) to temperature + range, by entropy */
  float dynatemp_exponent; /* 0 to 100; default 1 */
  /* MIROSTAT, MIROSTAT_V2 */
  float mirostat_tau; /* 0 to 100: the target, in bits; default 5 */
  float mirostat_eta; /* 0 to 1: how fast it is approached; default 0.1 */
  /* GRAMMAR: of the same model; it may be freed once it is appended. A text begins where the sampler is new or reset. */
  const moonlit_grammar* grammar;
  /* CUSTOM. `apply` gets the tokens that are left, each once, in no order, and returns how many of them it keeps, at the front: it may reorder and
   * remove them and change logits (-INFINITY removes, too). 0: it gives up, MOONLIT_CANCELLED. The logits are over the temperature, if that
   * came before. The others may be NULL: `accept` sees each accepted token; `reset` forgets them; `clone` makes a `user` for a copy (NULL: out of memory), which
   * without it has the same one; `free_user` ends one. With free_user but no clone the sampler can't be cloned. */
  size_t (*apply)(void* user, moonlit_token_logit* tokens, size_t count);
  void (*accept)(void* user, int32_t id);
  void (*reset)(void* user);
  void* (*clone)(const void* user);
  void (*free_user)(void* user);
  void* user; /* the sampler's from moonlit_sampler_append on, if that succeeds */
} moonlit_sampler_step;

/* Default values, which are llama.cpp's, and no kind. Any thread. */
MOONLIT_API void moonlit_sampler_step_init(moonlit_sampler_step* step, size_t size);

/* An empty chain for the tokens of this model. Any thread. */
MOONLIT_API moonlit_code moonlit_sampler_new(const moonlit_model* model, uint64_t seed, moonlit_sampler** sampler,
                                             moonlit_error* error);
/* Takes NULL; not while a call with this sampler is running. */
MOONLIT_API void moonlit_sampler_free(moonlit_sampler* sampler);

/* Puts the step behind those before it; what it points to is copied, but for `user`. At most 64. MOONLIT_INVALID_ARGUMENT names step and field:
 * values out of range, ids outside the vocabulary, a grammar of another model, a step behind one that chooses, or once a token was chosen
 * or accepted (before a reset). One call at a time. */
MOONLIT_API moonlit_code moonlit_sampler_append(moonlit_sampler* sampler, const moonlit_sampler_step* step,
                                                moonlit_error* error);

/* Chooses a token: logits [n_vocab]. It is no part of the text before it is accepted. MOONLIT_INVALID_ARGUMENT: another count than the model's n_vocab, no step that
 * chooses, biases that leave no token, a custom step that gives what it did not get; MOONLIT_CANCELLED: one that keeps no token, or moonlit_sampler_cancel; MOONLIT_UNSUPPORTED: nothing that is left
 * fits the grammar; MOONLIT_INTERNAL: a logit is NaN or +inf, or all are -inf. On an error no random number is used. One call at a time. */
MOONLIT_API moonlit_code moonlit_sampler_apply(moonlit_sampler* sampler, const float* logits, size_t n_vocab,
                                               int32_t* id, moonlit_error* error);

/* Stops a running moonlit_sampler_apply in what takes long: a grammar step, which looks at the whole vocabulary, ends before its next few
 * hundred tokens. The call returns MOONLIT_CANCELLED, and may be made again with the same logits. Without one running it does nothing;
 * inside moonlit_generate moonlit_session_cancel does that. Any thread, also from within a custom step, while the sampler lives. */
MOONLIT_API void moonlit_sampler_cancel(moonlit_sampler* sampler);

/* The token is the next one of the generated text: chosen by the sampler or by anybody. MOONLIT_INVALID_ARGUMENT: it is outside the
 * vocabulary, or the grammar does not go on with it; then reset the sampler. One call at a time. */
MOONLIT_API moonlit_code moonlit_sampler_accept(moonlit_sampler* sampler, int32_t id, moonlit_error* error);

/* Tokens that stand before the generated text: penalties and DRY look back at them, a grammar does not follow them. Ids may be
 * MOONLIT_EMBEDDING_ROW. One call at a time. */
MOONLIT_API moonlit_code moonlit_sampler_accept_prompt(moonlit_sampler* sampler, const int32_t* ids, size_t count,
                                                       moonlit_error* error);

/* As it was when no token had been chosen or accepted, with this seed. One call at a time. */
MOONLIT_API moonlit_code moonlit_sampler_reset(moonlit_sampler* sampler, uint64_t seed, moonlit_error* error);

/* A second chain in the same state, which goes its own way. MOONLIT_UNSUPPORTED: a custom step can't be copied. One call at a time. */
MOONLIT_API moonlit_code moonlit_sampler_clone(moonlit_sampler* sampler, moonlit_sampler** clone, moonlit_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_SAMPLER_H_ */
