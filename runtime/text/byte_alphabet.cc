// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/byte_alphabet.h"

#include <algorithm>
#include <array>

#include "runtime/text/utf8.h"

namespace moonlit {
namespace {

constexpr bool IsPrintable(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr std::array<char16_t, 256> MakeAlphabet() {
  std::array<char16_t, 256> alphabet{};
  char16_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) alphabet[byte] = IsPrintable(byte) ? static_cast<char16_t>(byte) : next++;
  return alphabet;
}
constexpr std::array<char16_t, 256> kAlphabet = MakeAlphabet();

constexpr std::array<int16_t, 0x144> MakeReverse() {
  std::array<int16_t, 0x144> reverse{};
  for (int16_t& byte : reverse) byte = -1;
  for (int byte = 0; byte < 256; ++byte) reverse[kAlphabet[byte]] = static_cast<int16_t>(byte);
  return reverse;
}
constexpr std::array<int16_t, 0x144> kReverse = MakeReverse();
static_assert(kAlphabet[' '] == 0x120 && kAlphabet['\n'] == 0x10A && kAlphabet[0xAD] == 0x143);

}  // namespace

char32_t ByteToCharacter(unsigned char byte) { return kAlphabet[byte]; }

int CharacterToByte(char32_t character) { return character < kReverse.size() ? kReverse[character] : -1; }

std::string BytesToAlphabet(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char byte : bytes) Utf8Append(ByteToCharacter(static_cast<unsigned char>(byte)), &out);
  return out;
}

std::string AlphabetToBytes(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const std::string_view rest = text.substr(at);
    const size_t length = std::max<size_t>(1, Utf8CharLength(rest));
    const int byte = Utf8CharLength(rest) == 0 ? -1 : CharacterToByte(Utf8Decode(rest, length));
    if (byte >= 0) {
      out.push_back(static_cast<char>(byte));
    } else {
      out.append(rest.substr(0, length));
    }
    at += length;
  }
  return out;
}

}  // namespace moonlit
