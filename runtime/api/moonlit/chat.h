/* SPDX-License-Identifier: Apache-2.0
 * Chats: from messages to the tokens that a model was trained to see. Part of moonlit.h, whose conventions hold here.
 *
 * The model's template (Jinja, as in tokenizer_config.json and GGUF files) is rendered as transformers' apply_chat_template does;
 * there is none by default. What messages say never becomes control tokens, whatever it spells out. Templates are untrusted: their
 * size, nesting, work and output are bounded (MOONLIT_EXHAUSTED), and what they object to is MOONLIT_INVALID_ARGUMENT in their words.
 */
#ifndef MOONLIT_CHAT_H_
#define MOONLIT_CHAT_H_

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct moonlit_chat_message {
  const char* role; /* "system", "user", "assistant", "tool", NUL-terminated */
  const char* content;
  size_t content_length; /* bytes */
} moonlit_chat_message;

typedef struct moonlit_chat_options {
  size_t size;               /* set by moonlit_chat_options_init */
  const char* chat_template; /* Jinja in place of the model's own; NULL (default): the model's */
  int add_generation_prompt; /* non-zero (default): end with what begins the assistant's turn */
  const char* tools_json;    /* a JSON array of tools, as in OpenAI's interface; NULL: none */
  const char*
      messages_json; /* a JSON array of message objects in place of `messages`, for tool calls and the like; NULL */
  const char* variables_json; /* a JSON object of variables for the template ({"enable_thinking": false}); NULL: none */
  int64_t now; /* seconds since 1970, for templates that name the day, in the local time zone; 0: the clock */
} moonlit_chat_options;

/* The defaults. Any thread. */
MOONLIT_API void moonlit_chat_options_init(moonlit_chat_options* options, size_t size);

/* The model's template, NULL when it has none. Lives as long as the model. Any thread. */
MOONLIT_API const char* moonlit_chat_template(const moonlit_model* model);

/* The ids of a chat: those of control tokens where the template writes them, one that begins the text if the model wants it. Writes at
 * most `capacity` ids to `ids` (may be NULL when capacity is 0) and the full number to *id_count. `options` may be NULL. Without a
 * template: MOONLIT_NOT_FOUND, and how to give one. Any thread. */
MOONLIT_API moonlit_code moonlit_chat_tokenize(const moonlit_model* model, const moonlit_chat_message* messages,
                                               size_t message_count, const moonlit_chat_options* options, int32_t* ids,
                                               size_t capacity, size_t* id_count, moonlit_error* error);
/* The text of a chat, to look at: to tokenize it again would take what messages say for the template's words. Writes at most `capacity`
 * bytes, and the full number to *length. Otherwise as moonlit_chat_tokenize. */
MOONLIT_API moonlit_code moonlit_chat_render(const moonlit_model* model, const moonlit_chat_message* messages,
                                             size_t message_count, const moonlit_chat_options* options, char* text,
                                             size_t capacity, size_t* length, moonlit_error* error);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_CHAT_H_ */
