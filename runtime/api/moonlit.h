/* SPDX-License-Identifier: Apache-2.0
 *
 * Moonlit's C interface: load a model, make sessions, evaluate tokens, generate text. moonlit.hpp is a thin C++ layer on it.
 *
 *   moonlit_model_options options;
 *   moonlit_model_options_init(&options, sizeof options);
 *   moonlit_error error = {0};
 *   moonlit_model* model = NULL;
 *   if (moonlit_model_load("model.gguf", &options, &model, &error) != MOONLIT_OK) { puts(error.message); return 1; }
 *
 * Conventions
 *  1. Every function that can fail returns a moonlit_code and fills *error (which may be NULL) with one sentence. Nothing is printed,
 *     nothing exits or aborts, and there is no global state but the receiver of moonlit_set_log.
 *  2. Option structs carry their size: initialise them by their _init function with sizeof, then set fields. Later versions append
 *     fields only.
 *  3. Text is UTF-8 given by pointer and length (bytes), and may contain NUL. Ids are int32_t.
 *  4. Objects made by a function are the caller's and are freed by the matching _free, which accepts NULL. A model must outlive its
 *     sessions.
 *  5. A model may be used from several threads at once; steps are serialised inside. A session has one owner at a time: a second
 *     thread in it gets MOONLIT_BUSY. moonlit_session_cancel may be called from any thread.
 */
#ifndef MOONLIT_H_
#define MOONLIT_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MOONLIT_API __attribute__((visibility("default")))
#else
#define MOONLIT_API
#endif

#ifdef __cplusplus
extern "C" {
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
  MOONLIT_BUSY = 8, /* the session is in use by another thread */
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

/* One line of text without a newline, valid during the call. Calls come one at a time, from any thread; a receiver must not call
 * Moonlit. */
typedef void (*moonlit_log_fn)(void* user, moonlit_log_level level, const char* text);

/* Who gets what a user may want to know but is no error; NULL (as at the start): nobody. For the whole process. When it returns, no
 * call to the former receiver is running. Any thread. */
MOONLIT_API void moonlit_set_log(moonlit_log_fn receiver, void* user);

/* Version of the library, for example "0.1.0". Static storage. */
MOONLIT_API const char* moonlit_version(void);

/* ---- models ---------------------------------------------------------------------------------------------------------- */

typedef struct moonlit_model_options {
  size_t size;           /* set by moonlit_model_options_init */
  uint32_t threads;      /* 0: one a physical core, within the container's quota */
  uint32_t n_ctx;        /* tokens a session may hold; 0: what the model was trained for, at most 4096 */
  uint32_t max_sessions; /* sessions that may live at once; the cache for all is reserved at load. Default 1 */
  uint32_t chunk_tokens; /* tokens of one prefill step; default 512 */
  uint32_t page_tokens;  /* tokens of a cache page, a multiple of 64; default 64 */
  const char*
      key_type; /* cache: "f32", "f16", "bf16", "q8_0", "q4_0"; NULL: bf16 where the CPU multiplies it, else f16 */
  const char* value_type;
  const char* variant; /* kernel variant by name; NULL: the environment's MOONLIT_VARIANT, else the best for this CPU */
  int exact;           /* non-zero: float activations on dequantized weights, a slow reference */
  int vocab_only;      /* non-zero: read the tokenizer alone, no weights; such a model has no sessions */
  /* Called while loading with bytes done and in total; return non-zero to cancel. May be NULL. */
  int (*progress)(void* user, uint64_t done, uint64_t total);
  void* progress_user;
  /* Default 1: full pages of the cache stay known when their session ends, until they are needed, and a text that begins with the
   * same tokens takes them instead of computing them again: the same bits. 0: every text is computed (benchmarks). */
  int share_prefixes;
  /* Who multiplies with F32 weights, "own" or "xnnpack"; NULL: the environment's MOONLIT_FLOAT_PROVIDER, else a table by kernel
   * variant and shape. */
  const char* float_provider;
  /* An existing folder that keeps the packed weights, so that the next load of the same file reads them instead of packing anew;
   * NULL: none. A file there that is damaged or of another version is replaced, with a warning. */
  const char* packed_cache;
  /* Weights in F32, F16 or BF16 are quantized while they are loaded, as moonlit_quantize would ("Q8_0", "Q4_K_M"); NULL: they stay
   * as they are. Quantized weights are refused. */
  const char* quantize;
  /* How words are cut before byte-level BPE merges in them ("qwen2", "llama-bpe"), in place of what the model's files say; NULL: as
   * they say. */
  const char* pre_tokenizer;
  /* Sparse attention, off by default (0), in layers that see the whole text; the same bits as without where it covers the text.
   * A window: tokens see the latest attention_window tokens and the first attention_sinks (rounded up to 64, at most a page).
   * Or pages, at least 2 and without a window: a generated token reads at most so many pages of the cache in a layer, for each KV head:
   * the first, the latest, and those whose keys may fit it best. Prompts are read as without. */
  uint32_t attention_window;
  uint32_t attention_sinks;
  uint32_t attention_pages;
} moonlit_model_options;

MOONLIT_API void moonlit_model_options_init(moonlit_model_options* options, size_t size);

/* `path`: a GGUF file (any part of a split one), a Hugging Face folder (config.json, *.safetensors, tokenizer.json), "poet" for the model that Moonlit carries, or a name: where no file of that name is, it
 * means NAME.gguf in $MOONLIT_MODELS, by default $XDG_DATA_HOME/moonlit/models or ~/.local/share/moonlit/models. */
MOONLIT_API moonlit_code moonlit_model_load(const char* path, const moonlit_model_options* options,
                                            moonlit_model** model, moonlit_error* error);
MOONLIT_API void moonlit_model_free(moonlit_model* model);

typedef struct moonlit_model_info {
  size_t size;              /* set by the caller to sizeof before the call */
  const char* architecture; /* strings live as long as the model */
  const char* name;
  const char* file_type; /* format of most weights, "Q4_0" */
  const char* variant;
  const char* key_type; /* of the cache, after defaults */
  const char* value_type;
  const char* thread_reason; /* why this many threads, one sentence */
  uint64_t parameters;
  uint64_t file_bytes;
  uint64_t packed_bytes;
  uint32_t n_vocab;
  uint32_t n_ctx;
  uint32_t n_ctx_train;
  uint32_t n_layers;
  uint32_t n_embd;
  uint32_t threads;
} moonlit_model_info;

MOONLIT_API void moonlit_model_get_info(const moonlit_model* model, moonlit_model_info* info);

/* ---- tokens ---------------------------------------------------------------------------------------------------------- */

enum {
  MOONLIT_ADD_SPECIAL = 1,  /* begin/end tokens, as the file says */
  MOONLIT_PARSE_SPECIAL = 2 /* names of control tokens in the text become those tokens */
};

/* Writes at most `capacity` ids to `ids` (may be NULL when capacity is 0) and the full number to *count. */
MOONLIT_API moonlit_code moonlit_tokenize(const moonlit_model* model, const char* text, size_t length, int flags,
                                          int32_t* ids, size_t capacity, size_t* count, moonlit_error* error);
/* Bytes of a whole sequence. Control tokens give nothing unless show_special. Writes at most `capacity` bytes, the full number to
 * *length. An id outside the vocabulary is MOONLIT_INVALID_ARGUMENT. */
MOONLIT_API moonlit_code moonlit_detokenize(const moonlit_model* model, const int32_t* ids, size_t count,
                                            int show_special, char* text, size_t capacity, size_t* length,
                                            moonlit_error* error);
/* Non-zero when the token ends a generation (end of text, of turn). */
MOONLIT_API int moonlit_token_is_end(const moonlit_model* model, int32_t id);
/* Id of the token that begins a text, -1 when the model adds none. */
MOONLIT_API int32_t moonlit_token_begin(const moonlit_model* model);

/* ---- sessions -------------------------------------------------------------------------------------------------------- */

MOONLIT_API moonlit_code moonlit_session_new(moonlit_model* model, moonlit_session** session, moonlit_error* error);
MOONLIT_API void moonlit_session_free(moonlit_session* session);
/* Tokens that the session holds. */
MOONLIT_API size_t moonlit_session_length(const moonlit_session* session);
/* Forgets all but the first `length` tokens. Models with sliding windows may have to read the text again from some place, like an
 * eval; not inside a callback. */
MOONLIT_API moonlit_code moonlit_session_truncate(moonlit_session* session, size_t length, moonlit_error* error);
/* Drops tokens [first, last), whole pages (multiples of page_tokens), and moves what follows down: room in a full context without
 * reading the text again. What is left is then read as if it had always stood there, but has been computed with what is gone;
 * layers with a longer window than what follows `last` may not see the end of what stands before `first`. */
MOONLIT_API moonlit_code moonlit_session_drop(moonlit_session* session, size_t first, size_t last,
                                              moonlit_error* error);
/* A second session with the same past, which goes its own way; it counts towards max_sessions. */
MOONLIT_API moonlit_code moonlit_session_fork(moonlit_session* session, moonlit_session** fork, moonlit_error* error);
/* Writes at most `capacity` ids of the session's tokens to `ids` (may be NULL when capacity is 0). Returns their full number. */
MOONLIT_API size_t moonlit_session_tokens(const moonlit_session* session, int32_t* ids, size_t capacity);

/* Writes the session (tokens and cache) to a file, which appears complete or not at all and must not be one of the model's. */
MOONLIT_API moonlit_code moonlit_session_save(moonlit_session* session, const char* path, moonlit_error* error);
enum {
  MOONLIT_ANY_VARIANT = 1 /* take a file of another kernel variant: what follows is as good, but not the same bits */
};
/* Makes the session what was saved. The model, its cache types and page_tokens must be the same, and the kernel variant unless
 * MOONLIT_ANY_VARIANT is set: MOONLIT_UNSUPPORTED tells what differs. A damaged file is MOONLIT_CORRUPT. On failure the session
 * keeps what it holds. */
MOONLIT_API moonlit_code moonlit_session_load(moonlit_session* session, const char* path, int flags,
                                              moonlit_error* error);

/* Stops a running eval or generate before its next tile of work; it returns MOONLIT_CANCELLED (generate: finishes with
 * MOONLIT_FINISH_CANCELLED). Without one running it does nothing. Any thread. */
MOONLIT_API void moonlit_session_cancel(moonlit_session* session);

typedef enum moonlit_outputs {
  MOONLIT_OUTPUT_NONE = 0,
  MOONLIT_OUTPUT_LAST = 1,
  MOONLIT_OUTPUT_ALL = 2,
  /* As LAST, of tokens that were generated, at most chunk_tokens of them: with attention_pages they read chosen pages alone. */
  MOONLIT_OUTPUT_GENERATED = 3
} moonlit_outputs;

/* Logits of one position: `position` counts from the first token of this call; logits: [n_vocab], valid during the call. */
typedef void (*moonlit_logits_fn)(void* user, size_t position, const float* logits, size_t n_vocab);

/* Appends tokens to the session and hands out the logits asked for, in order. On failure the session keeps its length. */
MOONLIT_API moonlit_code moonlit_eval(moonlit_session* session, const int32_t* ids, size_t count,
                                      moonlit_outputs outputs, moonlit_logits_fn consume, void* user,
                                      moonlit_error* error);

/* ---- generation ------------------------------------------------------------------------------------------------------ */

typedef struct moonlit_generate_options {
  size_t size;             /* set by moonlit_generate_options_init */
  size_t max_tokens;       /* 0: until the end or until the context is full */
  float temperature;       /* 0: the most likely token; default 0.8 */
  int32_t top_k;           /* 0: off; default 40 */
  float top_p;             /* 1: off; default 0.95 */
  float min_p;             /* 0: off; default 0.05 */
  float repeat_penalty;    /* 1: off (default) */
  uint32_t repeat_last_n;  /* tokens of the session that the penalty looks back at; default 64 */
  uint64_t seed;           /* the same seed gives the same tokens; default 0 */
  const char* const* stop; /* [stop_count] NUL-terminated strings that end the text and are not given out */
  size_t stop_count;
  int ignore_end; /* non-zero: go on after an end token (benchmarks) */
  /* Pieces of whole UTF-8 characters, as soon as they are sure; return non-zero to stop. May be NULL. */
  int (*text)(void* user, const char* piece, size_t length);
  /* Prompt tokens done, of total, after each prefill step. May be NULL. */
  void (*prefill_progress)(void* user, size_t done, size_t total);
  void* user;
  /* Non-zero: when the context is full, the older half of what stands behind the first `keep` tokens is dropped, in whole pages, and the
   * generation goes on; without max_tokens until the model ends. 0 (default): it ends with MOONLIT_FINISH_CONTEXT. MOONLIT_INVALID_ARGUMENT
   * names the least n_ctx where the context is too short for it, MOONLIT_UNSUPPORTED a model that can't. */
  int context_shift;
  size_t keep; /* at least 1 is kept, rounded up to whole pages */
} moonlit_generate_options;

MOONLIT_API void moonlit_generate_options_init(moonlit_generate_options* options, size_t size);

typedef enum moonlit_finish {
  MOONLIT_FINISH_END = 0,      /* the model ended its text */
  MOONLIT_FINISH_STOP = 1,     /* a stop string */
  MOONLIT_FINISH_LENGTH = 2,   /* max_tokens */
  MOONLIT_FINISH_CONTEXT = 3,  /* the context is full */
  MOONLIT_FINISH_CANCELLED = 4 /* the callback or moonlit_session_cancel */
} moonlit_finish;

typedef struct moonlit_generate_result {
  size_t size; /* set by the caller to sizeof before the call */
  moonlit_finish finish;
  size_t prompt_tokens;
  size_t generated_tokens;
  double prefill_seconds;
  double decode_seconds;
  size_t reused_tokens;  /* of prompt_tokens: taken from the cache instead of computed */
  size_t context_shifts; /* how often the full context made room */
} moonlit_generate_result;

/* Appends the prompt to the session and generates. A prompt that does not fit is MOONLIT_EXHAUSTED with the needed and the allowed
 * number; it is never cut. `result` may be NULL. */
MOONLIT_API moonlit_code moonlit_generate(moonlit_session* session, const int32_t* prompt, size_t prompt_count,
                                          const moonlit_generate_options* options, moonlit_generate_result* result,
                                          moonlit_error* error);

/* Perplexity by windows of n_ctx tokens whose second half is counted (as llama.cpp's perplexity tool does). The text's ids come from
 * moonlit_tokenize with MOONLIT_ADD_SPECIAL. `progress` after each window; non-zero cancels. */
typedef struct moonlit_perplexity_result {
  size_t size;
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
MOONLIT_API moonlit_code moonlit_perplexity(moonlit_session* session, const int32_t* ids, size_t count, size_t window,
                                            int (*progress)(void* user, size_t done, size_t total,
                                                            double perplexity_so_far),
                                            void* user, moonlit_perplexity_result* result, moonlit_error* error);

typedef struct moonlit_perplexity_options {
  size_t size; /* set by moonlit_perplexity_options_init */
  size_t window;
  int (*progress)(void* user, size_t done, size_t total, double perplexity_so_far);
  void* user;
  /* Files of logits, in the format of llama.cpp's --kl-divergence-base, for the same text and window: one to write, and one of
   * another model to compare with. NULL: none. */
  const char* logits_out;
  const char* logits_base;
} moonlit_perplexity_options;
MOONLIT_API void moonlit_perplexity_options_init(moonlit_perplexity_options* options, size_t size);
MOONLIT_API moonlit_code moonlit_perplexity_with(moonlit_session* session, const int32_t* ids, size_t count,
                                                 const moonlit_perplexity_options* options,
                                                 moonlit_perplexity_result* result, moonlit_error* error);

/* ---- embeddings ------------------------------------------------------------------------------------------------------ */

typedef enum moonlit_pooling {
  MOONLIT_POOLING_DEFAULT = 0, /* as the model's file says */
  MOONLIT_POOLING_MEAN = 1,    /* of all tokens */
  MOONLIT_POOLING_FIRST = 2,   /* the first token's (BERT's [CLS]) */
  MOONLIT_POOLING_LAST = 3
} moonlit_pooling;

typedef struct moonlit_embed_options {
  size_t size; /* set by moonlit_embed_options_init */
  moonlit_pooling pooling;
  int raw; /* non-zero: the pooled vector as it is; 0 (default): brought to length 1 */
} moonlit_embed_options;

MOONLIT_API void moonlit_embed_options_init(moonlit_embed_options* options, size_t size);

/* One vector of a text by an embedding model (bert). The ids come from moonlit_tokenize with MOONLIT_ADD_SPECIAL, at most chunk_tokens.
 * Writes at most `capacity` floats to `vector` (may be NULL when capacity is 0) and their full number, n_embd, to *width. It takes a
 * session while it runs: MOONLIT_EXHAUSTED when max_sessions live. MOONLIT_UNSUPPORTED: the model makes text. `options` may be NULL. */
MOONLIT_API moonlit_code moonlit_embed(const moonlit_model* model, const int32_t* ids, size_t count,
                                       const moonlit_embed_options* options, float* vector, size_t capacity,
                                       size_t* width, moonlit_error* error);

/* ---- files ----------------------------------------------------------------------------------------------------------- */

typedef struct moonlit_write_options {
  size_t size; /* set by moonlit_write_options_init */
  /* How weights are stored: a format ("Q8_0", "F16") or one of llama-quantize's mixtures ("Q4_K_M"), in any case; an unknown one
   * is MOONLIT_INVALID_ARGUMENT with all names. */
  const char* type;
  const char* imatrix;  /* importance matrix, a file of llama-imatrix (either format); NULL: none */
  uint32_t threads;     /* 0: one a physical core. The written bytes do not depend on it */
  int pure;             /* non-zero: no mixture, every matrix in the type's format */
  int allow_requantize; /* non-zero: also from weights that are quantized already, which loses precision twice */
  /* Bytes written and in total; return non-zero to cancel. May be NULL. */
  int (*progress)(void* user, uint64_t done, uint64_t total);
  void* user;
  const char* pre_tokenizer; /* for moonlit_convert: see moonlit_model_options */
} moonlit_write_options;

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
 * the files `inputs` [count]. The functions here that write ask it of a model's own files and of the files in their options. */
MOONLIT_API moonlit_code moonlit_check_output(const char* out, const char* const* inputs, size_t count,
                                              moonlit_error* error);

/* Files are written under temporary names beside their own (NAME.part-...). A program that a signal ends in the middle may remove them:
 * async-signal-safe, to be called by its handler before the process ends. */
MOONLIT_API void moonlit_remove_unfinished_files(void);

/* Writes a GGUF file anew with weights in another format; metadata is kept. `in` as for moonlit_model_load, but for "poet". `out`
 * appears complete or not at all; it must not be a file of the input or the importance matrix. `result` may be NULL. */
MOONLIT_API moonlit_code moonlit_quantize(const char* in, const char* out, const moonlit_write_options* options,
                                          moonlit_write_result* result, moonlit_error* error);
/* Writes a Hugging Face folder as a GGUF file, with the keys that llama.cpp's converter writes. options->type NULL: the type that the
 * folder's weights have. */
MOONLIT_API moonlit_code moonlit_convert(const char* folder, const char* out, const moonlit_write_options* options,
                                         moonlit_write_result* result, moonlit_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_H_ */
