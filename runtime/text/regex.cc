// SPDX-License-Identifier: Apache-2.0
#include "runtime/text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

namespace moonlit {
namespace {

// The 25 characters of White_Space (Unicode, PropList.txt) are these controls and the separators.
constexpr std::string_view kWhiteSpace = R"(\x09-\x0d\x{85}\p{Z})";

std::string ExpandWhiteSpace(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's') {
        out.append(in_class ? "" : "[").append(kWhiteSpace).append(in_class ? "" : "]");
      } else if (escaped == 'S' && !in_class) {
        out.append("[^").append(kWhiteSpace).append("]");
      } else {
        out.append({c, escaped});
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out.push_back(c);
  }
  return out;
}

uint32_t Saturate(uint64_t value) {
  return static_cast<uint32_t>(std::min<uint64_t>(value, std::numeric_limits<uint32_t>::max()));
}

}  // namespace

struct Regex::Rep {
  pcre2_code* code = nullptr;
  ~Rep() { pcre2_code_free(code); }
};

Regex::Regex(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::Compile(std::string_view pattern) {
  const std::string expanded = ExpandWhiteSpace(pattern);
  int error = 0;
  PCRE2_SIZE offset = 0;
  auto rep = std::make_unique<Rep>();
  rep->code =
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NO_AUTO_CAPTURE, &error, &offset, nullptr);
  if (rep->code == nullptr) {
    PCRE2_UCHAR message[160] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    return Errorf(Code::kInternal, "pre-tokenizer pattern, offset %zu: %s", static_cast<size_t>(offset),
                  reinterpret_cast<const char*>(message));
  }
  return Regex(std::move(rep));
}

struct Regex::Matcher::Rep {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  size_t limits_for = 0;  // subject size the limits were set for
  ~Rep() {
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
  }
};

Regex::Matcher::Matcher() : rep_(std::make_unique<Rep>()) {}
Regex::Matcher::~Matcher() = default;

Result<Regex::Matcher::Match> Regex::Matcher::Find(const Regex& regex, std::string_view subject, size_t from) {
  if (rep_->data == nullptr || rep_->context == nullptr)
    return Errorf(Code::kOutOfMemory, "no memory for a pattern match");
  if (subject.size() > rep_->limits_for || rep_->limits_for == 0) {
    // A linear match makes at most a few internal steps a byte (one for each alternative tried); 64 leaves room, and a
    // quadratic one over 1 MiB would need a million times more. A step that must be remembered takes about 150 bytes: a
    // KiB a byte is the same room.
    rep_->limits_for = std::max<size_t>(subject.size(), 4096);
    const uint32_t steps = Saturate(100000 + 64 * static_cast<uint64_t>(rep_->limits_for));
    pcre2_set_match_limit(rep_->context, steps);
    pcre2_set_depth_limit(rep_->context, steps);
    pcre2_set_heap_limit(rep_->context, Saturate(65536 + static_cast<uint64_t>(rep_->limits_for)));
  }
  const int count = pcre2_match(regex.rep_->code, reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), from,
                                PCRE2_NO_UTF_CHECK, rep_->data, rep_->context);
  if (count == PCRE2_ERROR_NOMATCH) return Match{};
  if (count < 0) {
    PCRE2_UCHAR message[160] = {};
    pcre2_get_error_message(count, message, sizeof(message));
    return Errorf(count == PCRE2_ERROR_NOMEMORY ? Code::kOutOfMemory : Code::kExhausted,
                  "pre-tokenizer pattern gave up at byte %zu of %zu: %s", from, subject.size(),
                  reinterpret_cast<const char*>(message));
  }
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(rep_->data);
  return Match{true, bounds[0], bounds[1]};
}

}  // namespace moonlit
