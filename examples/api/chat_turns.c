/* SPDX-License-Identifier: Apache-2.0
 * A chat of several turns. Each turn renders all messages, and the session reads only what it does not hold yet: it keeps the tokens that
 * both have in common, and forgets the others (an answer is not always cut into the tokens that it was generated with). */
#include <stdio.h>
#include <string.h>

#include "moonlit.h"

enum { kMaxTokens = 256 };

typedef struct answer {
  char text[256];
  size_t length;
  size_t tokens;
} answer;

static int on_text(void* user, const char* piece, size_t length) {
  answer* to = user;
  if (length > sizeof to->text - to->length) return 1; /* stop */
  memcpy(to->text + to->length, piece, length);
  to->length += length;
  return 0;
}

static int on_token(void* user, int32_t id) {
  (void)id;
  ((answer*)user)->tokens++;
  return 0;
}

/* Answers `messages`. */
static moonlit_code take_turn(const moonlit_model* model, moonlit_session* session, const moonlit_chat_message* messages, size_t count,
                              answer* to, moonlit_error* error) {
  moonlit_chat_options chat;
  moonlit_generate_options options;
  int32_t ids[kMaxTokens], held[kMaxTokens];
  size_t id_count = 0, held_count, common = 0;
  moonlit_code code;

  moonlit_chat_options_init(&chat, sizeof chat);
  chat.chat_template = /* of a model that was trained for chats: NULL, its own */
      "{% for m in messages %}{{ m.content }}{% if m.role == 'assistant' %}{{ '\n' }}{% endif %}{% endfor %}";
  code = moonlit_chat_tokenize(model, messages, count, &chat, ids, kMaxTokens, &id_count, error);
  if (code != MOONLIT_OK) return code;
  if (id_count > kMaxTokens) {
    strcpy(error->message, "the chat has become longer than the context");
    return error->code = MOONLIT_EXHAUSTED;
  }

  held_count = moonlit_session_tokens(session, held, kMaxTokens); /* at most n_ctx, which is kMaxTokens */
  while (common + 1 < id_count && common < held_count && held[common] == ids[common]) ++common; /* one is left to read */
  code = moonlit_session_truncate(session, common, error);
  if (code != MOONLIT_OK) return code;

  memset(to, 0, sizeof *to);
  moonlit_generate_options_init(&options, sizeof options);
  options.temperature = 0;
  options.max_tokens = 8;
  options.text = on_text;
  options.token = on_token;
  options.user = to;
  code = moonlit_generate(session, ids + common, id_count - common, &options, NULL, error);
  printf("[%d of %d tokens were there, %d are new]\n", (int)common, (int)id_count, (int)to->tokens);
  return code;
}

int main(void) {
  static const char* const questions[] = {"床前明月", "举头望明"};
  moonlit_chat_message messages[4]; /* questions and answers */
  answer answers[2];
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model_options model_options;
  moonlit_model* model = NULL;
  moonlit_session* session = NULL;
  size_t turn, count = 0;
  int code = 1;

  moonlit_model_options_init(&model_options, sizeof model_options);
  model_options.n_ctx = kMaxTokens;
  if (moonlit_model_load("poet", &model_options, &model, &error) != MOONLIT_OK) goto done;
  if (moonlit_session_new(model, &session, &error) != MOONLIT_OK) goto done;
  for (turn = 0; turn < 2; ++turn) {
    messages[count].role = "user";
    messages[count].content = questions[turn];
    messages[count++].content_length = strlen(questions[turn]);
    if (take_turn(model, session, messages, count, &answers[turn], &error) != MOONLIT_OK) goto done;
    printf("user: %s\nassistant: %.*s\n", questions[turn], (int)answers[turn].length, answers[turn].text);
    messages[count].role = "assistant";
    messages[count].content = answers[turn].text;
    messages[count++].content_length = answers[turn].length;
  }
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.message);
  moonlit_session_free(session);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * [0 of 5 tokens were there, 8 are new]
 * user: 床前明月
 * assistant: 光，疑是地上霜。
 * [12 of 18 tokens were there, 8 are new]
 * user: 举头望明
 * assistant: 月，低头思故乡。
 */
