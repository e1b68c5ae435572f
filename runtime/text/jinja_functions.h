// SPDX-License-Identifier: Apache-2.0
// What templates may call: global functions, filters, tests and methods, as Jinja and Python have them. Each faults with
// kInvalidArgument on what it can't work on.
#pragma once

#include <string>
#include <string_view>

#include "runtime/text/jinja_machine.h"

namespace moonlit::jinja {

// range, namespace, dict, raise_exception, strftime_now. Undefined: no function of that name.
Value FindGlobal(std::string_view name);
// kUnsupported: no filter, or test, of that name. Arguments come without the input.
Value ApplyFilter(Machine& machine, const std::string& name, const Value& input, const Arguments& arguments);
bool ApplyTest(Machine& machine, const std::string& name, const Value& input, const Arguments& arguments);
// A method of a text or dict; undefined: it has none of that name.
Value FindMethod(const Value& object, const std::string& name);

Value BinaryOperation(Machine& machine, const std::string& word, const Value& left, const Value& right);
// `in`
bool Contains(Machine& machine, const Value& container, const Value& item);
// An index or bound as Python reads it. kInvalidArgument: no integer.
int64_t ToIndex(const Value& value, const char* what);

// Characters, as bytes that are no UTF-8 are one each.
size_t CharacterBytes(std::string_view text);  // of the first one
size_t CountCharacters(Machine& machine, std::string_view text);
size_t CharacterOffset(std::string_view text, size_t index);  // in bytes, at most the text's

// Text of a value that must be one; `what` names it in the message.
const Text& RequireText(const Value& value, const char* what);
// A search of m bytes in n, by any algorithm.
void PayForSearch(Machine& machine, size_t n, size_t m);
// Equal and Less.
void PayForCompare(Machine& machine, const Value& a, const Value& b);
// Dict::Find.
void PayForFind(Machine& machine, const Dict& dict, const Value& key);

// kTitle: Python's str.title; kWords: Jinja's filter of that name.
enum class Case { kLower, kUpper, kTitle, kWords, kCapitalize };
Text WithCase(Machine& machine, const Text& text, Case wanted);
// Without any of `characters` at its ends; empty: white space.
Text Strip(Machine& machine, const Text& text, std::string_view characters, bool left, bool right);
Text Replace(Machine& machine, const Text& text, std::string_view old, const Text& with, int64_t most);

}  // namespace moonlit::jinja
