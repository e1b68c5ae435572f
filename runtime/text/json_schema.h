// SPDX-License-Identifier: Apache-2.0
// From a JSON schema (json-schema.org, draft 2020-12) to a grammar in GBNF, of which every text is valid by the schema, though not every
// valid text is one of the grammar: members come in the schema's order, and none that it does not name; between tokens stands at most
// a space.
//
// Known: type (one or several), properties, required, additionalProperties, items, minItems, maxItems, minLength, maxLength, minimum,
// maximum, exclusiveMinimum, exclusiveMaximum (of numbers whole ones), format (date, time, date-time, uuid, ipv4), pattern (json_schema_pattern.h), enum, const, anyOf,
// $ref within the schema ("#/$defs/x"), allOf of one. Annotations (title, description, default, examples, $schema, $id,
// $comment, $defs, definitions, deprecated, readOnly, writeOnly) ask for nothing. Whatever else a schema has is refused, since a text
// that seems to follow it and does not is worse: multipleOf, oneOf, uniqueItems ...
#pragma once

#include <string>
#include <string_view>

#include "runtime/base/status.h"

namespace moonlit {

// The rule "root" is where a text begins. kInvalidArgument: no JSON, or no schema; kUnsupported: the keyword and its JSON pointer.
Result<std::string> JsonSchemaToGrammar(std::string_view schema);

}  // namespace moonlit
