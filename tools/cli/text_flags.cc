// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/text_flags.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <utility>

#include "tools/cli/model_flags.h"

namespace moonlit::cli {
namespace {

// More than any context holds; what never ends (a device, a pipe from yes) must not fill the memory.
constexpr size_t kMaxTextBytes = size_t{256} << 20;

// An editor ends a file with a newline that is no part of the text.
void DropLastNewline(std::string& text) {
  if (text.empty() || text.back() != '\n') return;
  text.pop_back();
  if (!text.empty() && text.back() == '\r') text.pop_back();
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// `in`: null where the file could not be opened, errno says why.
int ReadAll(const std::string& name, std::FILE* in, std::string* text) {
  int fault = in == nullptr ? errno : 0;
  char piece[65536];
  while (fault == 0 && text->size() <= kMaxTextBytes) {
    const size_t n = std::fread(piece, 1, sizeof piece, in);
    text->append(piece, n);
    if (n == sizeof piece) continue;
    if (std::ferror(in) != 0) fault = errno;
    break;
  }
  if (in != nullptr && in != stdin) std::fclose(in);
  if (fault != 0) {
    std::fprintf(stderr, "moonlit: %s: expected text, found: %s\n", Printable(name).c_str(), std::strerror(fault));
    return kFailed;
  }
  if (text->size() > kMaxTextBytes) {
    std::fprintf(stderr, "moonlit: %s: expected at most %zu MiB of text, found more\n", Printable(name).c_str(),
                 kMaxTextBytes >> 20);
    return kFailed;
  }
  return kOk;
}

}  // namespace

void ReadEscapes(std::string& text) {
  static constexpr std::string_view kNames = "nrt\\'\"", kMeanings = "\n\r\t\\'\"";
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const size_t left = text.size() - i;
    const size_t name = text[i] == '\\' && left > 1 ? kNames.find(text[i + 1]) : std::string_view::npos;
    if (name != std::string_view::npos) {
      out += kMeanings[name];
      ++i;
    } else if (text[i] == '\\' && left > 3 && text[i + 1] == 'x' && HexDigit(text[i + 2]) >= 0 &&
               HexDigit(text[i + 3]) >= 0) {
      out += static_cast<char>(HexDigit(text[i + 2]) * 16 + HexDigit(text[i + 3]));
      i += 3;
    } else {
      out += text[i];
    }
  }
  text = std::move(out);
}

void TextFlags::Declare(CLI::App& app) {
  prompt_option = app.add_option("-p,--prompt", prompt, "Text");
  file_option = app.add_option("-f,--file", file,
                               "File with the text; - for standard input (also taken when neither -p nor -f is given)");
  file_option->excludes(prompt_option);
}

int TextFlags::Read(std::string* text) const {
  if (prompt_option->count() > 0) {
    *text = prompt;
    return kOk;
  }
  if (file_option->count() == 0 && isatty(STDIN_FILENO) != 0) {
    std::fprintf(stderr, "moonlit: no text: give -p TEXT, -f FILE or standard input\n");
    return kUsage;
  }
  return from_stdin() ? ReadAll("standard input", stdin, text) : ReadTextFile(file, text);
}

int ReadTextFile(const std::string& file, std::string* text) {
  const std::string name = "file " + file;
  return ReadAll(name, std::fopen(file.c_str(), "rb"), text);
}

int TextFlags::CheckOutput(const std::string& out) const {
  if (prompt_option->count() > 0 || out.empty()) return kOk;
  const char* const input = from_stdin() ? "/dev/stdin" : file.c_str();
  moonlit_error error = {};
  return moonlit_check_output(out.c_str(), &input, 1, &error) == MOONLIT_OK ? kOk : Report(api::MakeError(error));
}

void PromptFlags::Declare(CLI::App& app, const std::string& escaped) {
  text.Declare(app);
  text.file_option->description(text.file_option->get_description() + "; the newline at its end is left out");
  app.add_flag("-e,--escape,!--no-escape", escape,
               "Read \\n, \\t, \\\\ and the like in " + escaped + " as the characters they stand for (default: on)");
}

int PromptFlags::Read(std::string* prompt) const {
  if (const int code = text.Read(prompt); code != kOk) return code;
  if (text.prompt_option->count() == 0) {
    DropLastNewline(*prompt);
  } else if (escape) {
    ReadEscapes(*prompt);
  }
  return kOk;
}

}  // namespace moonlit::cli
