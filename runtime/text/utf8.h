// SPDX-License-Identifier: Apache-2.0
// UTF-8 at the level of bytes (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace moonlit {

inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";  // U+FFFD
inline constexpr std::string_view kMetaSpace = "\xE2\x96\x81";             // U+2581, SentencePiece's visible space

// Bytes of the well-formed character at the front of text, 1 to 4; 0 if there is none (empty, invalid or cut).
size_t Utf8CharLength(std::string_view text);
// Bytes that a lead byte promises, 1 for anything that is no lead byte.
size_t Utf8PromisedLength(unsigned char lead);
// True if the front of text is the beginning of a well-formed character and only its end is missing.
bool Utf8IsCutCharacter(std::string_view text);
// A surrogate written as three bytes (CESU-8, as JSON escapes of one half give).
bool Utf8IsSurrogate(std::string_view text);
// The character at the front; length must be Utf8CharLength(text), not 0.
char32_t Utf8Decode(std::string_view text, size_t length);
void Utf8Append(char32_t code_point, std::string* out);
bool Utf8IsAscii(std::string_view text);

// Bytes that belong to no well-formed character become U+FFFD each; surrogates stay as they are (llama.cpp's reading).
std::string Utf8ReplaceInvalid(std::string_view text);
// The same length as text and well-formed: invalid bytes become U+0001, surrogates U+E000. For matching patterns, by
// offset.
std::string Utf8MaskInvalid(std::string_view text);
bool Utf8IsValid(std::string_view text);

}  // namespace moonlit
