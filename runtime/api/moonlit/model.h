/* SPDX-License-Identifier: Apache-2.0
 * Models: loading, what they are, text to tokens and back. Part of moonlit.h, whose conventions hold here.
 */
#ifndef MOONLIT_MODEL_H_
#define MOONLIT_MODEL_H_

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct moonlit_model_options {
  size_t size;           /* set by moonlit_model_options_init */
  uint32_t threads;      /* 0: one a physical core, within the container's quota */
  uint32_t n_ctx;        /* tokens a session may hold; 0: what the model was trained for, at most default_ctx. Where
                          * positions are learned (GPT-2), more than there are is MOONLIT_INVALID_ARGUMENT; elsewhere
                          * more than the model was trained for is a warning in the log */
  uint32_t max_sessions; /* sessions that may live at once; the cache for all is reserved at load. Default 1 */
  uint32_t chunk_tokens; /* tokens of one prefill step; default 512 */
  uint32_t page_tokens;  /* tokens of a cache page, a multiple of 64; default 64 */
  const char*
      key_type; /* cache: "f32", "f16", "bf16", "q8_0", "q4_0"; NULL: bf16 where the CPU multiplies it, else f16 */
  const char* value_type;
  const char* variant; /* kernel variant by name; NULL: the environment's MOONLIT_VARIANT, else the best for this CPU */
  int exact;           /* non-zero: float activations on dequantized weights, a slow reference */
  int vocab_only;      /* non-zero: read the tokenizer alone, no weights; such a model has no sessions */
  /* Called while loading with bytes done and in total, the last time with all of them, from the thread that loads (with
   * parallel_for from one of its threads at a time), with vocab_only never; return non-zero to cancel. May be NULL. */
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
  /* With n_ctx 0: the most tokens that are taken of what the model was trained for. Default 4096. */
  uint32_t default_ctx;
  /* Who gets what a user may want to know about this model but is no error, while it is loaded and in later calls on it; NULL (default):
   * nobody. */
  moonlit_log_fn log;
  void* log_user;
  /* The application's allocator, for the big memory of the model: packed weights, the cache and states of its sessions, intermediates,
   * scratch, adapters, and buffers while it is loaded. Small bookkeeping (the vocabulary, tables, handles) stays with malloc. NULL (both):
   * the system. `allocate` gives `bytes` (above 0) with any contents, which are zeroed then; `alignment` is 64, and from 2 MiB up 2 MiB,
   * for the sake of huge pages, where memory that is aligned to 64 serves as well. NULL from it is MOONLIT_OUT_OF_MEMORY, and what it gave
   * before is released. `release` gets the bytes that were asked for; the last comes when the model and its adapters are freed. Both are
   * called from any thread, by several at once, and must not call Moonlit. */
  void* (*allocate)(void* user, size_t bytes, size_t alignment);
  void (*release)(void* user, void* memory, size_t bytes);
  void* allocator_user;
  /* The application's threads. Moonlit creates none then: each stage of a step, and loading, is one call, which calls task(data, index)
   * for the indices below `count` (at most `threads`; 0: as without) on threads of its choice, several at once, and returns when these
   * calls have ended. It may make fewer calls or run them one after another; the caller's thread does what is left. The same bits. It is
   * called from the thread that called Moonlit, by several at once where several models share it, and must not call Moonlit or end in
   * a C++ exception. NULL: Moonlit's own threads. */
  void (*parallel_for)(void* user, size_t count, void (*task)(void* data, size_t index), void* data);
  void* parallel_user;
} moonlit_model_options;

/* The defaults. Any thread. */
MOONLIT_API void moonlit_model_options_init(moonlit_model_options* options, size_t size);

/* `path`: a GGUF file (any part of a split one), a Hugging Face folder (config.json, *.safetensors, tokenizer.json), "poet" for the model that Moonlit carries, or a name: where no file of that name is, it
 * means NAME.gguf in $MOONLIT_MODELS, by default $XDG_DATA_HOME/moonlit/models or ~/.local/share/moonlit/models.
 * MOONLIT_NOT_FOUND: no such file; MOONLIT_CORRUPT: it breaks its format; MOONLIT_UNSUPPORTED: a format, architecture, tokenizer or kernel
 * variant that this build or this CPU does not have; MOONLIT_INVALID_ARGUMENT names an option and what it may be; MOONLIT_OUT_OF_MEMORY,
 * MOONLIT_IO, MOONLIT_CANCELLED (by `progress`).
 * Any thread; the environment (MOONLIT_*, HOME, XDG_DATA_HOME) is read meanwhile and must not be changed by another one. */
MOONLIT_API moonlit_code moonlit_model_load(const char* path, const moonlit_model_options* options,
                                            moonlit_model** model, moonlit_error* error);
/* Any thread. Its sessions are freed before it. */
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
  uint32_t chunk_tokens; /* after defaults: no more than all sessions hold. 0 with vocab_only, as is n_ctx */
  uint32_t page_tokens;
} moonlit_model_info;

/* Writes to *info; nothing where its size is 0. Any thread. */
MOONLIT_API void moonlit_model_get_info(const moonlit_model* model, moonlit_model_info* info);

/* What the model's files say beside the weights, by GGUF's keys ("general.architecture", "general.license", "llama.rope.freq_base",
 * "tokenizer.chat_template"): all keys of a GGUF file, or of the first of a split one; of a Hugging Face folder those that Moonlit makes of it to
 * load it, which are those that moonlit_convert writes (vocab_only: of the tokenizer alone). Options change nothing of it. It is kept as
 * text for as long as the model lives, without vocabularies: a long array is told by its length.
 *
 * How many keys there are. Any thread. */
MOONLIT_API size_t moonlit_model_metadata_count(const moonlit_model* model);
/* Key number `index`, in the order of the file; NULL behind the last. Lives as long as the model. Any thread. */
MOONLIT_API const char* moonlit_model_metadata_key(const moonlit_model* model, size_t index);
/* The value of a key: a string as it is, with any bytes; a number with as few digits as give it back ("32", "1e-05"); "true" and "false";
 * an array of at most 64 elements as JSON ("[1,2]", "[\"en\",\"zh\"]"), a longer one, or one of strings that are no UTF-8, as
 * "[... 32000 in all]". Writes at most `capacity` bytes to `text` (may be NULL when capacity is 0), without a NUL, and the full number to
 * *length. MOONLIT_NOT_FOUND: there is no such key. Any thread. */
MOONLIT_API moonlit_code moonlit_model_metadata(const moonlit_model* model, const char* key, char* text,
                                                size_t capacity, size_t* length, moonlit_error* error);

enum {
  MOONLIT_ADD_SPECIAL = 1,  /* begin/end tokens, as the file says */
  MOONLIT_PARSE_SPECIAL = 2 /* names of control tokens in the text become those tokens */
};

/* Writes at most `capacity` ids to `ids` (may be NULL when capacity is 0) and the full number to *count. Any thread. */
MOONLIT_API moonlit_code moonlit_tokenize(const moonlit_model* model, const char* text, size_t length, int flags,
                                          int32_t* ids, size_t capacity, size_t* count, moonlit_error* error);
/* Bytes of a whole sequence. Control tokens give nothing unless show_special. Writes at most `capacity` bytes, the full number to
 * *length. An id outside the vocabulary is MOONLIT_INVALID_ARGUMENT. Any thread. */
MOONLIT_API moonlit_code moonlit_detokenize(const moonlit_model* model, const int32_t* ids, size_t count,
                                            int show_special, char* text, size_t capacity, size_t* length,
                                            moonlit_error* error);
/* Bytes of one token inside a text, to show a text token by token: those of a whole sequence one behind the other, but for the space
 * that some vocabularies (SentencePiece) put before a text and moonlit_detokenize takes away again, also from a single token. They need
 * not be whole characters. show_special, `bytes`, *length and errors as there. Any thread. */
MOONLIT_API moonlit_code moonlit_token_bytes(const moonlit_model* model, int32_t id, int show_special, char* bytes,
                                             size_t capacity, size_t* length, moonlit_error* error);
/* A token's own text, as the vocabulary has it, where a space may be another character ("<0x0A>", "<|im_end|>"). `text`, *length and errors as for its bytes. Any
 * thread. */
MOONLIT_API moonlit_code moonlit_token_text(const moonlit_model* model, int32_t id, char* text, size_t capacity,
                                            size_t* length, moonlit_error* error);

/* What the model's files name a token for. */
typedef enum moonlit_special {
  MOONLIT_SPECIAL_BOS = 0, /* begins a text, whether or not moonlit_tokenize adds it */
  MOONLIT_SPECIAL_EOS = 1, /* ends a text */
  MOONLIT_SPECIAL_EOT = 2, /* ends a turn */
  MOONLIT_SPECIAL_EOM = 3, /* ends a message, but not the turn */
  MOONLIT_SPECIAL_UNK = 4, /* stands for what the vocabulary does not have */
  MOONLIT_SPECIAL_SEP = 5,
  MOONLIT_SPECIAL_PAD = 6,
  MOONLIT_SPECIAL_MASK = 7,
  MOONLIT_SPECIAL_FIM_PRE = 8, /* fill in the middle: before the prefix, the suffix, the middle */
  MOONLIT_SPECIAL_FIM_SUF = 9,
  MOONLIT_SPECIAL_FIM_MID = 10,
  MOONLIT_SPECIAL_FIM_PAD = 11,
  MOONLIT_SPECIAL_FIM_REP = 12, /* before a repository's name, between files */
  MOONLIT_SPECIAL_FIM_SEP = 13
} moonlit_special;

/* Its id; -1: the model has none, or the kind is not one of these. Any thread. */
MOONLIT_API int32_t moonlit_token_special(const moonlit_model* model, moonlit_special kind);
/* Non-zero when the token ends a generation (end of text, of turn). Any thread. */
MOONLIT_API int moonlit_token_is_end(const moonlit_model* model, int32_t id);
/* Id of the token that begins a text, -1 when the model adds none (and for a NULL model). Any thread. */
MOONLIT_API int32_t moonlit_token_begin(const moonlit_model* model);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_MODEL_H_ */
