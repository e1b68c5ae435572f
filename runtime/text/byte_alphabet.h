// SPDX-License-Identifier: Apache-2.0
// GPT-2's alphabet: every byte is one printable character, so that tokens are readable and hold no spaces
// (openai/gpt-2, bytes_to_unicode in src/encoder.py). '!'-'~', U+00A1-U+00AC and U+00AE-U+00FF stand for themselves,
// the other 68 bytes in ascending order are U+0100 and on: the space is "Ġ", the newline "Ċ".
#pragma once

#include <string>
#include <string_view>

namespace moonlit {

char32_t ByteToCharacter(unsigned char byte);
// -1 if the character is none of the alphabet.
int CharacterToByte(char32_t character);
std::string BytesToAlphabet(std::string_view bytes);
// What the alphabet spells. A character outside it stands for its own UTF-8 bytes (added tokens such as
// "<｜end▁of▁sentence｜>").
std::string AlphabetToBytes(std::string_view text);

}  // namespace moonlit
