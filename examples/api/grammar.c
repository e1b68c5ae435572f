/* SPDX-License-Identifier: Apache-2.0
 * Texts that have to follow a grammar, and a JSON schema. */
#include <stdio.h>
#include <string.h>

#include "moonlit.h"

static int print_piece(void* user, const char* piece, size_t length) {
  (void)user;
  return fwrite(piece, 1, length, stdout) == length ? 0 : 1;
}

/* Goes on from "床前明月" as the grammar says. */
static moonlit_code go_on(moonlit_model* model, const moonlit_grammar* grammar, moonlit_error* error) {
  const char* text = "床前明月";
  moonlit_session* session = NULL;
  moonlit_generate_options options;
  int32_t ids[16];
  size_t count = 0;
  moonlit_code code = moonlit_tokenize(model, text, strlen(text), MOONLIT_ADD_SPECIAL, ids, 16, &count, error);
  if (code == MOONLIT_OK) code = moonlit_session_new(model, &session, error);
  if (code != MOONLIT_OK) return code;
  if (count > 16) count = 16; /* `count` is the full number */
  moonlit_generate_options_init(&options, sizeof options);
  options.temperature = 0;
  options.grammar = grammar;
  options.text = print_piece;
  code = moonlit_generate(session, ids, count, &options, NULL, error);
  printf("\n");
  moonlit_session_free(session);
  return code;
}

int main(void) {
  const char* verse = "root ::= [光山水]{2} \"，\" last \"。\"\nlast ::= \"思故乡\" | \"忆故人\"";
  const char* schema = "{\"properties\": {\"month\": {\"enum\": [1, 2]}, \"clear\": {\"const\": true}}, \"required\": [\"clear\"]}";
  moonlit_error error = {MOONLIT_OK, ""};
  moonlit_model* model = NULL;
  moonlit_grammar* grammar = NULL;
  int code = 1;

  if (moonlit_model_load("poet", NULL, &model, &error) != MOONLIT_OK) goto done;
  if (moonlit_grammar_new(model, verse, strlen(verse), NULL, &grammar, &error) != MOONLIT_OK) goto done;
  if (go_on(model, grammar, &error) != MOONLIT_OK) goto done;
  moonlit_grammar_free(grammar);
  grammar = NULL;
  if (moonlit_grammar_new_json(model, schema, strlen(schema), &grammar, &error) != MOONLIT_OK) goto done;
  if (go_on(model, grammar, &error) != MOONLIT_OK) goto done;
  code = 0;

done:
  if (code != 0) fprintf(stderr, "%s\n", error.message);
  moonlit_grammar_free(grammar);
  moonlit_model_free(model);
  return code;
}

/* Prints:
 * 光水，忆故人。
 * { "month" : 1 , "clear" : true }
 */
