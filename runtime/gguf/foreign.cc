// SPDX-License-Identifier: Apache-2.0
// What people open by mistake instead of a GGUF file, told from its first bytes.
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "runtime/base/quote.h"
#include "runtime/gguf/gguf_parser.h"

namespace moonlit {
namespace {

bool LooksLikeHtml(std::string_view start) {
  if (start.substr(0, 3) == "\xef\xbb\xbf") start.remove_prefix(3);
  while (!start.empty() && std::isspace(static_cast<unsigned char>(start[0]))) start.remove_prefix(1);
  std::string lower(start.substr(0, 9));
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (std::string_view sign : {"<!doctype", "<html", "<head", "<!--", "<?xml"}) {
    if (lower.compare(0, sign.size(), sign) == 0) return true;
  }
  return false;
}

// A safetensors file begins with the length of its JSON header, which begins with a brace.
bool LooksLikeSafetensors(std::string_view start) {
  if (start.size() < 9 || start[8] != '{') return false;
  uint64_t length;
  std::memcpy(&length, start.data(), sizeof(length));
  return length >= 2 && length < (uint64_t{1} << 32);
}

}  // namespace

std::string DescribeForeignFile(std::string_view start) {
  const std::string_view magic = start.substr(0, 4);
  if (start.empty()) return "an empty one; download it again";
  if (magic == "FUGG")
    return "a big-endian GGUF file; download the little-endian file of the model or convert it again";
  if (LooksLikeHtml(start)) {
    return "a web page; the download saved the site's answer (a log-in or error page) instead of the model, so open it "
           "in a text "
           "editor to see why and download again";
  }
  if (LooksLikeSafetensors(start))
    return "a safetensors file; name its folder, which has config.json and tokenizer.json beside it, or a .gguf file";
  if (start.substr(0, 23) == "version https://git-lfs") {
    return "a Git LFS pointer, a text that stands for the model; fetch the real file with \"git lfs pull\"";
  }
  if (start[0] == '{')
    return "JSON text, perhaps a server's error message; open it in a text editor and download again";
  if (magic == "lmgg" || magic == "fmgg" || magic == "tjgg" || magic == "algg" || magic == "ggml" || magic == "ggjt") {
    return "a GGML file from before August 2023; download a .gguf of the model";
  }
  if (magic == std::string_view("PK\x03\x04", 4))
    return "a zip archive (PyTorch's .bin and .pt are such); download a .gguf of the model";
  if (start.size() >= 4 && std::all_of(start.begin(), start.end(), [](char c) { return c == 0; })) {
    return "zeros; the download reserved the space but did not fill it, download it again";
  }
  return "bytes that begin with " + QuoteForMessage(magic) + "; check that the path names the model";
}

}  // namespace moonlit
