/* SPDX-License-Identifier: Apache-2.0
 * Grammars that a generated text has to follow. Part of moonlit.h, whose conventions hold here.
 */
#ifndef MOONLIT_GRAMMAR_H_
#define MOONLIT_GRAMMAR_H_

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* For the `grammar` of moonlit_generate_options: each token's bytes must go on as the grammar says, and a token that ends the text comes
 * only where the grammar may end. Immutable: any number of generations on any threads may use one at once. It belongs to the model that
 * it was made for, which must outlive it. */
typedef struct moonlit_grammar moonlit_grammar;

/* llama.cpp's notation (GBNF); `root` names the rule where a text begins, NULL: "root". A grammar that is none is
 * MOONLIT_INVALID_ARGUMENT with line and column, as is a rule that can begin with itself; one that is too large is MOONLIT_EXHAUSTED.
 * Any thread. */
MOONLIT_API moonlit_code moonlit_grammar_new(const moonlit_model* model, const char* text, size_t length,
                                             const char* root, moonlit_grammar** grammar, moonlit_error* error);
/* JSON texts that follow a JSON schema: type, properties, required, additionalProperties, items, minItems, maxItems, minLength,
 * maxLength, minimum, maximum, exclusiveMinimum, exclusiveMaximum (of numbers whole ones), format (date, time, date-time, uuid, ipv4),
 * pattern (regular expressions without look-around, references, \b and \p), enum, const, anyOf, $ref within the schema. Members come in the schema's order, and only those that it names. Other
 * keywords but annotations are MOONLIT_UNSUPPORTED with their JSON pointer. Any thread. */
MOONLIT_API moonlit_code moonlit_grammar_new_json(const moonlit_model* model, const char* schema, size_t length,
                                                  moonlit_grammar** grammar, moonlit_error* error);
/* Any thread; no generation may use it any more. */
MOONLIT_API void moonlit_grammar_free(moonlit_grammar* grammar);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* MOONLIT_GRAMMAR_H_ */
