// SPDX-License-Identifier: Apache-2.0
// From a template's words to its tree.
#pragma once

#include <string_view>

#include "runtime/text/jinja_syntax.h"

namespace moonlit::jinja {

// A kBlock. Throws Fault with the line: kCorrupt for what is no Jinja, kUnsupported for Jinja that no chat template needs
// (inheritance, imports, call blocks, raw, recursive loops), kExhausted for nesting beyond kMostSyntaxDepth.
NodePtr Parse(std::string_view source);

}  // namespace moonlit::jinja
